"""The parts into which `make test` divides the tests, and its report."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import suites
from tests.repo.tree import ROOT
from tests.suites import (
    SECONDS,
    SUITES,
    Part,
    Result,
    Running,
    longest_first,
    main,
    merged,
    part_environment,
    parts,
    report,
    tools_in,
)


def result(suite: str, seconds: float = 1, *, failed: bool = False, missing: Counter[str] | None = None) -> Result:
    return Result(suite, seconds, {"passed": 2}, failed, [], missing or Counter())


def test_every_test_file_is_in_one_part() -> None:
    divided = [file for suite in SUITES for part in parts(suite, ROOT / "tests") for file in part.files]
    assert sorted(divided) == sorted(str(file) for file in (ROOT / "tests").rglob("test_*.py"))


def test_suite_longer_than_a_part_is_divided_evenly() -> None:
    divided = parts("unit", ROOT / "tests")
    assert len(divided) == 2
    assert abs(len(divided[0].files) - len(divided[1].files)) <= 1


def test_a_suite_has_no_more_parts_than_files(tmp_path: Path) -> None:
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "test_one.py").touch()
    assert parts("unit", tmp_path) == [Part("unit", (str(tmp_path / "unit" / "test_one.py"),), SECONDS["unit"])]


def test_the_longest_part_begins_first() -> None:
    short, long = Part("scripts", (), 5), Part("unit", (), 150)
    assert longest_first([short, long]) == [long, short]


def test_parts_of_a_suite_are_one_line_of_the_table() -> None:
    of_unit = [result("unit", 3), result("unit", 4, failed=True, missing=Counter(kcat=1))]
    assert merged([*of_unit, result("scripts")]) == [
        Result("unit", 7, {"passed": 4}, True, [], Counter(kcat=1)),
        result("scripts"),
    ]


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("SKIPPED [2] tests/unit/test_a.py:9: not installed: fish\n", {"fish": 2}),
        ("SKIPPED [3] tests/setups.py:28: not installed: java, mvn\n", {"java": 3, "mvn": 3}),
        ("SKIPPED [1] tests/unit/test_disk.py:64: there is no tmpfs\n", {}),
        ("2 passed, 1 skipped in 0.1s\n", {}),
    ],
)
def test_missing_tools_are_counted(line: str, tools: dict[str, int]) -> None:
    assert tools_in(line) == tools


def test_missing_tools_are_listed_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    report([result("unit", missing=Counter(zsh=1, kcat=2)), result("clients", missing=Counter(kcat=10))], 0)
    *_, title, kcat, zsh, totals = capsys.readouterr().out.splitlines()
    assert title == "skipped for want of a tool:"
    assert (kcat.split(), zsh.split()) == (["kcat", "12", "tests"], ["zsh", "1", "tests"])
    assert totals == "4 passed, 0 failed, 0 skipped"


def test_part_result_is_parsed_from_pytest_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "scripts" / "test_three.py"
    file.parent.mkdir()
    file.write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): assert False\n"
        "def test_c(): pytest.skip('not installed: fish')\n"
    )
    found = suites.run(Part("scripts", (str(file),), 1), dict(os.environ), Running())
    assert (found.counts, found.failed, found.missing) == (
        {"failed": 1, "passed": 1, "skipped": 1},
        True,
        Counter(fish=1),
    )


def test_the_parts_cache_bytecode_and_get_no_variables_of_make() -> None:
    assert part_environment({"PATH": "/bin", "MAKEFLAGS": "s", "PYTHONDONTWRITEBYTECODE": "1"}) == {"PATH": "/bin"}


_WAITS = """
import os, signal, subprocess, sys
def test_that_waits():
    held = os.open(os.environ["HELD"], os.O_WRONLY)
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[held])
    os.write(held, b".")
    signal.pause()
"""


def test_an_interrupt_ends_all_processes_with_one_line(tmp_path: Path) -> None:
    for suite in ("scripts", "corruption"):
        (tmp_path / "tests" / suite).mkdir(parents=True)
        (tmp_path / "tests" / suite / f"test_{suite}.py").write_text(_WAITS)
    os.mkfifo(tmp_path / "held")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HELD": str(tmp_path / "held")}
    environment["PYTEST_ADDOPTS"] = "-p no:asyncio"  # it warns outside a project that configures it
    command = [sys.executable, "-m", "tests.suites", "scripts", "corruption"]
    with (
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process,
        open(tmp_path / "held", "rb", buffering=0) as held,
    ):
        began = held.read(1) + held.read(1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=60)
        readable, _, _ = select.select([held], [], [], 30)
        # EOF: no process holds the other end.
        assert (began, readable, held.read(1)) == (b"..", [held], b"")
    assert err == "Interrupted: all tests were ended\n"
    assert sorted(out.splitlines()) == ["... corruption: 1 files", "... scripts: 1 files"]
    assert process.returncode == 130


def test_an_unknown_suite_is_a_wrong_call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["suites", "nope"])
    with pytest.raises(SystemExit):
        main()
    assert "no suite nope" in capsys.readouterr().err
