"""The tests that `make quick` chooses, and its exit status."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests import quick
from tests.quick import Choice, choose, describe, differing, run

EXISTING = (
    "broker/dispatch.py",
    "broker/__main__.py",
    "barnabas/commands/_watch.py",
    "docs/file_map.py",
    "README.md",
    "tests/typed.py",
    "tests/unit/broker/test_dispatch.py",
    "tests/unit/broker/test_main.py",
    "tests/unit/barnabas/commands/test_watch.py",
    "tests/crash/test_promises.py",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in EXISTING:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "test"),
    [
        ("broker/dispatch.py", "tests/unit/broker/test_dispatch.py"),
        ("broker/__main__.py", "tests/unit/broker/test_main.py"),
        ("barnabas/commands/_watch.py", "tests/unit/barnabas/commands/test_watch.py"),
        ("tests/crash/test_promises.py", "tests/crash/test_promises.py"),
    ],
)
def test_changed_file_selects_its_test_file(root: Path, name: str, test: str) -> None:
    assert choose([name], root) == Choice({test: name}, [])


def test_a_module_and_its_test_file_are_run_once(root: Path) -> None:
    names = ["broker/dispatch.py", "tests/unit/broker/test_dispatch.py"]
    assert list(choose(names, root).tests) == ["tests/unit/broker/test_dispatch.py"]


def test_files_without_a_test_file_are_listed(root: Path) -> None:
    names = ["README.md", "docs/file_map.py", "tests/typed.py"]
    chosen = choose(names, root)
    assert chosen == Choice({}, names)
    assert all(name in describe(chosen, "main") for name in names)


def test_deleted_files_choose_nothing(root: Path) -> None:
    assert choose(["tests/unit/broker/test_gone.py", "broker/gone.py"], root) == Choice({}, [])


def test_chosen_tests_are_listed_with_the_reason(root: Path) -> None:
    printed = describe(choose(["broker/dispatch.py"], root), "main")
    assert "tests/unit/broker/test_dispatch.py  (broker/dispatch.py)" in printed


def test_changed_and_new_files_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    commit = ("-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--message=m")
    quick._git("init", "--quiet", "--initial-branch=main")
    for name in ("changed.py", "kept.py"):
        (tmp_path / name).write_text("1\n")
    quick._git("add", ".")
    quick._git(*commit)
    quick._git("checkout", "--quiet", "-b", "work")
    (tmp_path / "committed.py").write_text("1\n")
    quick._git("add", ".")
    quick._git(*commit)
    (tmp_path / "changed.py").write_text("2\n")
    (tmp_path / "new.py").write_text("1\n")
    assert differing("main") == ["changed.py", "committed.py", "new.py"]


@pytest.mark.parametrize(("code", "status"), [("pass", 0), ("raise SystemExit(5)", 1)])
def test_run_returns_the_status_of_the_command(code: str, status: int) -> None:
    assert run([sys.executable, "-c", code], time.monotonic() + 60) == status


def test_command_that_exceeds_the_deadline_is_terminated_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    waits = [sys.executable, "-c", "import signal; signal.pause()"]
    assert run(waits, time.monotonic()) == 1
    assert "out of time" in capsys.readouterr().out
