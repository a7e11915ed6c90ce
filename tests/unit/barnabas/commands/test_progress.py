from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from functools import partial

import pytest

from barnabas.commands import _progress
from barnabas.commands._progress import Progress, waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "INTERVAL_S", 0)


def test_progress_bar_is_drawn_on_a_terminal_and_cleared_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress(4, "record") as progress:
        progress.advance(1)
        progress.advance(1)
    assert f"[{'#' * 6:<24}]  25%  1 record, " in terminal.getvalue()
    assert f"[{'#' * 12:<24}]  50%  2 records, " in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_unknown_total_shows_a_count() -> None:
    progress = Progress(None, "record")
    progress.advance(1200)
    assert progress.line().startswith("1,200 records, ")


def test_nothing_is_drawn_if_hidden_or_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress(4, "record", hidden=True) as progress:
        progress.advance(1)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    with Progress(4, "record") as progress:
        progress.advance(1)
    assert stream.getvalue() == ""


class Timer:
    """A timer that the test fires."""

    due: Callable[[], None] | None = None

    def __init__(self, interval_s: float, function: Callable[..., None], arguments: tuple[str, ...]) -> None:
        assert interval_s == _progress.WAITING_S
        self.daemon = False
        self._function = partial(function, *arguments)

    def start(self) -> None:
        Timer.due = self._function

    def cancel(self) -> None:
        Timer.due = None


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> type[Timer]:
    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setattr(Timer, "due", None)
    return Timer


@pytest.mark.parametrize("terminal", [True, False])
def test_wait_reason_is_printed_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, timer: type[Timer], terminal: bool
) -> None:
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with waiting("health", "it"):
        assert (timer.due is not None) is terminal
        if timer.due is not None:
            timer.due()
    assert stream.getvalue() == "barnabas health: waiting for it\n" * terminal


def test_short_wait_is_not_printed(monkeypatch: pytest.MonkeyPatch, timer: type[Timer]) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with waiting("health", "it"):
        assert stream.getvalue() == ""
    assert timer.due is None, "it was not cancelled"
