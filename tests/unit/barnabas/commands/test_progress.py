from __future__ import annotations

import io
import sys

import pytest

from barnabas.commands import _progress
from barnabas.commands._progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "INTERVAL_S", 0)


def test_a_bar_is_drawn_on_a_terminal_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress(4, "records") as progress:
        progress.advance(1)
        progress.advance(1)
    assert f"[{'#' * 6:<24}]  25%  1 records, " in terminal.getvalue()
    assert f"[{'#' * 12:<24}]  50%  2 records, " in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_where_the_total_is_not_known_there_is_a_count() -> None:
    progress = Progress(None, "records")
    progress.advance(1200)
    assert progress.line().startswith("1,200 records, ")


def test_nothing_is_drawn_for_who_does_not_want_it_or_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress(4, "records", hidden=True) as progress:
        progress.advance(1)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    with Progress(4, "records") as progress:
        progress.advance(1)
    assert stream.getvalue() == ""
