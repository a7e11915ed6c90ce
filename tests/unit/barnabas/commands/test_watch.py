import argparse
import io
import sys

import pytest

from barnabas.commands import _watch
from barnabas.commands._watch import CLEAR, add_watch, repeat


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_watch(parser)
    return parser.parse_args(arguments)


def until(rounds: int):
    """Return something to be done, and what interrupts it after so many rounds."""
    left = iter(range(rounds - 1))

    def wait(_: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return wait


def test_without_watch_it_is_done_once(capsys):
    assert repeat(options(), lambda: print("x") or 3) == 3
    assert capsys.readouterr().out == "x\n"


def test_with_watch_it_is_done_until_an_interrupt(monkeypatch, capsys):
    monkeypatch.setattr(_watch.time, "sleep", until(3))
    assert repeat(options("--watch"), lambda: print("x") or 0) == 0
    assert capsys.readouterr().out == "x\n\nx\n\nx\n"


def test_on_a_terminal_the_screen_is_cleared_each_time(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setattr(_watch.time, "sleep", until(2))
    repeat(options("--watch"), lambda: print("x") or 0)
    assert terminal.getvalue() == f"{CLEAR}x\n{CLEAR}x\n"


@pytest.mark.parametrize(("arguments", "seconds"), [([], None), (["--watch"], 2.0), (["-w", "0.5"], 0.5)])
def test_the_interval_may_be_given(arguments, seconds):
    assert options(*arguments).watch == seconds
