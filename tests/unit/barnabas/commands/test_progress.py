from __future__ import annotations

import io
import sys
import threading

import pytest

from barnabas.commands import _progress
from barnabas.commands._progress import Progress, waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "INTERVAL_S", 0)


def test_a_bar_is_drawn_on_a_terminal_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress(4, "record") as progress:
        progress.advance(1)
        progress.advance(1)
    assert f"[{'#' * 6:<24}]  25%  1 record, " in terminal.getvalue()
    assert f"[{'#' * 12:<24}]  50%  2 records, " in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_where_the_total_is_not_known_there_is_a_count() -> None:
    progress = Progress(None, "record")
    progress.advance(1200)
    assert progress.line().startswith("1,200 records, ")


def test_nothing_is_drawn_for_who_does_not_want_it_or_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress(4, "record", hidden=True) as progress:
        progress.advance(1)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    with Progress(4, "record") as progress:
        progress.advance(1)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("terminal", "said"), [(True, "barnabas health: waiting for it\n"), (False, "")])
def test_what_is_waited_for_is_said_on_a_terminal(monkeypatch: pytest.MonkeyPatch, terminal: bool, said: str) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

        def write(self, text: str) -> int:
            written.set()
            return super().write(text)

    written = threading.Event()
    monkeypatch.setattr(_progress, "WAITING_S", 0)
    monkeypatch.setattr(sys, "stderr", stream := Stream())
    with waiting("health", "it"):
        assert written.wait(30 if terminal else 0) is terminal
    assert stream.getvalue() == said


def test_what_ends_soon_is_not_said_to_be_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with waiting("health", "it"):
        pass
    assert stream.getvalue() == ""
