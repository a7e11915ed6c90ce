"""External tool-chains and packages that tests need: found, fetched once, or the test is skipped with the reason.

Fetched files are in ``${XDG_CACHE_HOME:-~/.cache}/barnabas-tests``, in a folder named after the set-up and a hash of
its sources: a changed pin makes a new folder, and nothing is fetched twice. Packages are fetched by name and pinned
version through each language's own client.

With ``CI=true`` a missing tool-chain fails the test.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest


def require(*tools: str) -> None:
    """Skip the test unless every tool is on PATH; with ``CI=true`` fail it."""
    _demand([tool for tool in tools if shutil.which(tool) is None])


def require_file(package: str, path: Path) -> None:
    """Skip the test unless ``path``, which ``package`` installs, exists; with ``CI=true`` fail it."""
    _demand([] if path.exists() else [package])


def _demand(missing: Sequence[str]) -> None:
    if missing:
        reason = f"not installed: {', '.join(missing)}"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason} (required where CI=true)", pytrace=False)
        pytest.skip(reason)


def prepared(name: str, sources: Sequence[Path], build: Callable[[Path], object], cache_of: str = "") -> Path:
    """Return the folder that ``build`` filled; build it only if the sources have changed.

    Concurrent callers, in other processes too, wait for the first one. Set-ups with the same ``cache_of`` are built one
    at a time: a client such as Maven does not let two processes write its cache.
    """
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas-tests"
    folder = cache / f"{name}-{digest.hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".ready").exists():
            with open(cache / f"{cache_of or name}-build.lock", "w") as one_at_a_time:
                fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                build(folder)
                (folder / ".ready").touch()
    return folder


def run(*command: str | Path, cwd: Path | None = None, timeout_s: float = 600) -> str:
    """Run a command and return its output; an error appears in the test's report."""
    done = subprocess.run(command, cwd=cwd, timeout=timeout_s, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout
