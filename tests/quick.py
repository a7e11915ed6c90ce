"""Checks and tests of the files that differ from main, within a minute: `make quick`.

Checks format, lint and types of the whole tree, then runs the unit test file of each product module that differs, and
each test file that differs. Files without a test file, such as test helpers and documents, are listed: `make test`
covers them. A command that exceeds the time limit is terminated and counts as failed.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LIMIT_S = 60.0
PRODUCT = ("protocol", "storage", "controller", "broker", "simulation", "barnabas", "docs")
CHECKS = (("ruff", "format"), ("ruff", "check"), ("mypy",))
TO_END_S = 10.0  # time for pytest to tear down its fixtures after an interrupt


class Choice(NamedTuple):
    """Test files to run, each with the file that it tests, and the files without one."""

    tests: dict[str, str]
    untested: list[str]


def main() -> int:
    """Return 0 if every check and chosen test passed within the limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.quick", description=main.__doc__)
    parser.add_argument("--base", default="main", metavar="COMMIT", help="what to compare with (default: main)")
    parser.add_argument("--seconds", type=float, default=LIMIT_S, help=f"the limit (default: {LIMIT_S:g})")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    chosen = choose(differing(options.base), ROOT)
    print(describe(chosen, options.base), flush=True)
    commands = [[str(Path(sys.executable).with_name(tool)), *arguments] for tool, *arguments in CHECKS]
    if chosen.tests:
        commands.append([sys.executable, "-m", "pytest", "-q", *chosen.tests])
    return max(run(command, deadline) for command in commands)


def differing(base: str) -> list[str]:
    """Return the files that differ from the merge base with `base`, untracked ones too, relative to the root."""
    left = _git("merge-base", base, "HEAD").strip()
    tracked = _git("diff", "--name-only", "-z", left)
    untracked = _git("ls-files", "-z", "--others", "--exclude-standard")
    return sorted({name for name in (tracked + untracked).split("\0") if name})


def choose(names: Iterable[str], root: Path) -> Choice:
    """Return the test files of `names` that exist below `root`."""
    tests: dict[str, str] = {}
    untested = []
    for name in names:
        path = PurePosixPath(name)
        if path.parts[0] == "tests" and path.match("test_*.py"):
            found = [path] if (root / path).exists() else []
        else:
            found = _tests_of(path, root)
            if not found and (root / path).exists():
                untested.append(name)
        for test in found:
            tests.setdefault(str(test), name)
    return Choice(tests, untested)


def _tests_of(path: PurePosixPath, root: Path) -> list[PurePosixPath]:
    """Return the unit test files of a product module; an empty list for other files."""
    if path.suffix != ".py" or path.parts[0] not in PRODUCT:
        return []
    named = "main" if path.stem == "__main__" else path.stem.lstrip("_")
    test = PurePosixPath("tests", "unit", *path.parts[:-1], f"test_{named}.py")
    return [test] if (root / test).exists() else []


def describe(chosen: Choice, base: str) -> str:
    """Return a description of the chosen tests, the reasons, and the files without tests."""
    if not chosen.tests and not chosen.untested:
        return f"nothing differs from {base}"
    lines = [f"{len(chosen.tests)} test files for what differs from {base}"]
    lines += [f"  {test}" + (f"  ({name})" if name != test else "") for test, name in chosen.tests.items()]
    if chosen.untested:
        lines.append("without a test file (`make test` covers them):")
        lines += [f"  {name}" for name in chosen.untested]
    return "\n".join(lines)


def run(command: list[str], deadline: float) -> int:
    """Run a command until `deadline`; return 0 if it succeeded in time, else 1."""
    name = Path(command[0]).name if command[0] != sys.executable else command[2]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            status = process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(TO_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
            print(f"{name}: out of time", flush=True)
            return 1
    return 1 if status else 0


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
