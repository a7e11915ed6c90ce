"""The projects in `examples/` pass their tests, each run as its README says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo.tree import ROOT
from tests.setups import prepared, require, run

EXAMPLES = ROOT / "examples"
# How often the twenty tests of what can go wrong run: none of the runs may fail. Spark's example runs if that is often.
RUNS = int(os.environ.get("BARNABAS_TEST_EXAMPLE_RUNS", "1"))

REPEATED = """
import pytest

@pytest.fixture(autouse=True, params={}, scope="session")
def run(request):
    pass
"""


def sources(name: str) -> list[Path]:
    return [path for path in (EXAMPLES / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def copied(name: str, folder: Path) -> Path:
    """Copy an example, in which tools leave files."""
    return Path(shutil.copytree(EXAMPLES / name, folder, dirs_exist_ok=True))


def with_brokers(folder: Path, *command: str) -> str:
    """Return the output of a command that passes with a cluster of its own."""
    return run(sys.executable, "-m", "barnabas", "run", "--", *command, cwd=folder)


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


def test_python(tmp_path: Path) -> None:
    run_pytest("python", tmp_path, "--ignore=test_failures.py")


def test_fastapi(tmp_path: Path) -> None:
    requirements = EXAMPLES / "fastapi" / "requirements.txt"
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)
    packages = prepared("example-fastapi", [requirements], lambda folder: run(*install, "--target", folder))
    run_pytest("fastapi", tmp_path, packages=packages)


@pytest.mark.skipif(RUNS == 1, reason="takes as long as all others; tests/spark has tests of the same every day")
def test_spark(tmp_path: Path) -> None:
    require("java")
    pytest.importorskip("pyspark")
    run_pytest("spark", tmp_path)


def test_java(tmp_path: Path) -> None:
    require("java", "mvn")
    with_brokers(copied("java", tmp_path), "mvn", "-q", "-B", "test")


def test_go(tmp_path: Path) -> None:
    require("go")
    assert "ok" in with_brokers(copied("go", tmp_path), "go", "test")


def test_node(tmp_path: Path) -> None:
    require("node", "npm")
    install = ("npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund")
    folder = prepared("example-node", sources("node"), lambda folder: run(*install, cwd=copied("node", folder)))
    assert "pass 1" in with_brokers(folder, "npm", "test")


def test_rust() -> None:
    require("cargo", "cc", "make")
    build = ("cargo", "test", "--quiet", "--no-run", "--locked")
    folder = prepared("example-rust", sources("rust"), lambda folder: run(*build, cwd=copied("rust", folder)))
    assert "1 passed" in with_brokers(folder, "cargo", "test", "--locked", "--offline")


def test_what_can_go_wrong_goes_wrong_in_the_same_way_each_time(tmp_path: Path) -> None:
    names = [f"run-{number}" for number in range(RUNS)]
    (tmp_path / "conftest.py").write_text(REPEATED.format(names))
    run_pytest("python", tmp_path, "test_failures.py")
