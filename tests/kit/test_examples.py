"""The projects in `examples/` pass their tests, each run as its README says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.kit.example_projects import EXAMPLES, copied, run_pytest
from tests.setups import prepared, require, run

# Spark's example takes as long as all others, and tests/spark has tests of the same every day.
SPARK = os.environ.get("BARNABAS_TEST_SPARK_EXAMPLE", "0") != "0"


def sources(name: str) -> list[Path]:
    return [path for path in (EXAMPLES / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def with_brokers(folder: Path, *command: str) -> str:
    """Return the output of a command that passes with a cluster of its own."""
    return run(sys.executable, "-m", "barnabas", "run", "--", *command, cwd=folder)


def test_python(tmp_path: Path) -> None:
    run_pytest("python", tmp_path, "--ignore=test_failures.py")


def test_fastapi(tmp_path: Path) -> None:
    requirements = EXAMPLES / "fastapi" / "requirements.txt"
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)
    packages = prepared("example-fastapi", [requirements], lambda folder: run(*install, "--target", folder))
    run_pytest("fastapi", tmp_path, packages=packages)


@pytest.mark.skipif(not SPARK, reason="part of make prove")
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
