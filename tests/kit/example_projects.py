"""Copies of the projects in `examples/`, and runs of their tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.repo.tree import ROOT

EXAMPLES = ROOT / "examples"


def copied(name: str, folder: Path) -> Path:
    """Copy an example, in which tools leave files."""
    return Path(shutil.copytree(EXAMPLES / name, folder, dirs_exist_ok=True))


def run_pytest(name: str, folder: Path, *options: str, packages: Path | None = None) -> None:
    """Run the tests of an example; `packages` has those that it needs besides those of the project."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    command += ["-o", "asyncio_default_fixture_loop_scope=function"]
    path = os.pathsep.join(map(str, filter(None, [packages, ROOT])))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        command, cwd=copied(name, folder), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
