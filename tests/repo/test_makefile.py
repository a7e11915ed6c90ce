"""The commands of each `make` target, and the one command that a fresh clone needs."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo.tree import ROOT, files
from tests.setups import require, run
from tests.suites import FULL_FIGURES
from tests.typed import present

# The commands of each target once the environment exists.
COMMANDS = {
    "run": ["barnabas serve -D group.initial.rebalance.delay.ms=0"],
    "test": ["python -m tests.suites"],
    "quick": ["python -m tests.quick"],
    "prove": ["python -m tests.suites --full"],
    "conformance": ["python -m tests.clients.conformance"],
    "check": ["ruff format --check .", "ruff check .", "mypy", "lint-imports --no-cache"],
    "fix": ["ruff format .", "ruff check --fix ."],
    "demo": ["python -m spark_jobs.flights.demo"],
    "demo RESET=1": ["python -m spark_jobs.flights.demo --reset"],
    "demo RESET=1 DAYS=20": ["python -m spark_jobs.flights.demo --reset --days 20"],
    "bench": ["python -m benchmarks"],
}


def dry_run(environment: Path, *arguments: str) -> str:
    """Return the commands that `make` would run with this virtual environment."""
    return run("make", "--dry-run", "--no-print-directory", *arguments, f"VENV={environment}", cwd=ROOT)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment that looks completely installed to make."""
    folder = tmp_path / "venv"
    (folder / "bin").mkdir(parents=True)
    for made in ("bin/python", ".run", ".dev"):
        (folder / made).touch()
    return folder


@pytest.mark.parametrize(("target", "commands"), COMMANDS.items())
def test_a_target_runs(target: str, commands: list[str], environment: Path) -> None:
    printed = dry_run(environment, *target.split()).replace(f"{environment}/bin/", "").replace("exec ", "")
    assert [line.strip() for line in printed.splitlines()] == commands


def test_full_figures_match_the_variables_that_tests_read() -> None:
    requested = re.compile(r'environ\.get\("(BARNABAS_TEST_\w+)", "\d+"\)')
    tests = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert {name for text in tests for name in requested.findall(text)} == FULL_FIGURES.keys()


def test_options_are_passed_on(environment: Path) -> None:
    assert "ms=0 --ephemeral --topic a:3" in dry_run(environment, "run", "ARGS=--ephemeral --topic a:3")
    assert "barnabas serve --config x\n" in dry_run(environment, "run", "ARGS=--config x")


def test_help_lists_every_public_target() -> None:
    targets = re.findall(r"^([a-z-]+):.*?## (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    printed = run("make", "--no-print-directory", "help", cwd=ROOT)
    assert re.findall(r"^  make (\S+) +(.+)$", printed, re.MULTILINE) == targets
    assert {"help", "run", "test", "prove", "check", "demo", "bench"} <= dict(targets).keys()
    assert run("make", "--no-print-directory", cwd=ROOT) == printed
    phony = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(" ".join(phony).split()) == sorted(dict(targets))


@pytest.mark.parametrize(
    ("target", "requirements"), [("run", "run"), ("test", "dev"), ("check", "dev"), ("demo", "dev")]
)
def test_target_creates_its_own_environment(target: str, requirements: str, tmp_path: Path) -> None:
    printed = dry_run(tmp_path / "venv", target)
    assert f"--require-hashes -r requirements/{requirements}.txt" in printed


def test_continuous_integration_checks_and_then_tests(tmp_path: Path) -> None:
    for tool in ("make", "kcat", "zsh", "fish"):
        (tmp_path / tool).write_text('#!/bin/sh\necho "$(basename "$0") $* CI=$CI"\n')
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")  # the test installs nothing
    (tmp_path / "apt-get").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run([ROOT / ".ci/run"], cwd="/", env={"PATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["make check CI=true", "make test CI=true"]


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_one_command_in_a_fresh_clone_starts_a_broker(installer: str, tmp_path: Path) -> None:
    clone, path = tmp_path / "clone", os.environ["PATH"]
    for file in files():
        copy = clone / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
    if installer == "uv":
        require("uv")
    else:
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
        path = f"{tools}:/usr/bin:/bin"
    make = ["make", "run", "ARGS=--listen 127.0.0.1:0 --ephemeral"]
    clean = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS")
    }
    with subprocess.Popen(make, cwd=clone, env={**clean, "PATH": path}, stdout=subprocess.PIPE, text=True) as broker:
        shown = [present(broker.stdout).readline(), present(broker.stdout).readline()]
        assert shown[0] == "installing requirements/run.txt into .venv ...\n"
        assert shown[1].startswith("ready: 127.0.0.1:")
        (child,) = (int(pid) for pid in Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split())
        os.kill(child, signal.SIGTERM)
    assert broker.returncode == 0
    assert (clone / ".venv/bin/pip").exists()
