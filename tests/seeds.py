"""First seed of the randomized suites; each commit has another."""

import subprocess
from pathlib import Path
from shutil import which

DIFFERENT_SEEDS = 1_000_000


def first_seed() -> int:
    """Return a seed derived from the commit's hash; 1 without git or a repository."""
    git, folder = which("git"), Path(__file__).parent
    if git is None:
        return 1
    reported = subprocess.run([git, "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=False)
    return 1 if reported.returncode else 1 + int(reported.stdout, 16) % DIFFERENT_SEEDS
