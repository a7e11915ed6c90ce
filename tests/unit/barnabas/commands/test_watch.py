from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Callable
from functools import partial

import pytest
from kafka.errors import NodeNotReadyError

from barnabas.commands import HungUp, _watch
from barnabas.commands._output import CommandError, WrongCall
from barnabas.commands._watch import CLEAR, add_watch, repeat


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.set_defaults(command="cluster info")
    add_watch(parser)
    return parser.parse_args(arguments)


def until(rounds: int) -> Callable[[float], None]:
    """Return a `sleep` that raises KeyboardInterrupt in round `rounds`."""
    left = iter(range(rounds - 1))

    def wait(_: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return wait


def test_without_watch_the_command_runs_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert repeat(options(), lambda: print("x") or 3) == 3
    assert capsys.readouterr().out == "x\n"


def test_watch_repeats_until_an_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_watch.time, "sleep", until(3))  # type: ignore[attr-defined]  # the module's own clock
    assert repeat(options("--watch"), lambda: print("x") or 0) == 0
    assert re.fullmatch("\n".join([r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\nx\n"] * 3), capsys.readouterr().out)


def test_watch_reports_an_error_and_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = iter([CommandError("gone"), NodeNotReadyError("gone too"), None])

    def once() -> int:
        if error := next(outcomes):
            raise error
        return 0

    monkeypatch.setattr(_watch.time, "sleep", until(3))  # type: ignore[attr-defined]  # the module's own clock
    assert repeat(options("--watch"), once) == 0
    reported = capsys.readouterr().err.splitlines()
    assert reported[0] == "barnabas cluster info: gone"
    assert "(gone too)" in reported[1]


def test_wrong_call_and_internal_error_end_a_watch() -> None:
    for error in (WrongCall("no"), RuntimeError("oh")):
        with pytest.raises(type(error)):
            repeat(options("--watch"), partial(_raise, error))


def _raise(error: Exception) -> int:
    raise error


def test_on_a_terminal_the_screen_is_cleared_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setattr(_watch.time, "sleep", until(2))  # type: ignore[attr-defined]  # the module's own clock
    repeat(options("--watch"), lambda: print("x") or 0)
    assert re.fullmatch(rf"({re.escape(CLEAR)}\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\nx\n){{2}}", terminal.getvalue())


@pytest.mark.parametrize(("arguments", "seconds"), [([], None), (["--watch"], 2.0), (["-w", "0.5"], 0.5)])
def test_watch_accepts_an_interval(arguments: list[str], seconds: float | None) -> None:
    assert options(*arguments).watch == seconds


def test_watch_that_loses_its_terminal_raises_hung_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang_up(_: float) -> None:
        raise HungUp

    monkeypatch.setattr(_watch, "sleep_while_read", hang_up)
    with pytest.raises(HungUp):
        repeat(options("--watch"), lambda: 0)
