"""The ring of the last exchanges: bounded in number and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.control.transcript import exchange
from broker.control.transcript.exchange import Exchange, ExchangeRing
from protocol.api import ApiKey
from protocol.headers import RequestHeader
from storage.disk import OsDisk
from storage.log.file_slice import FileSlice

HEADER = RequestHeader(ApiKey.METADATA, 12, 1, "c")


def begin(ring: ExchangeRing, size: int = 10) -> Exchange:
    return ring.begin(HEADER, "127.0.0.1", memoryview(bytes(size)), 0)


def test_the_oldest_exchanges_are_dropped_at_the_largest_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MOST_EXCHANGES", 3)
    ended: list[Exchange] = []
    ring = ExchangeRing(ended.append)
    for _ in range(5):
        ring.end(begin(ring), [b"abc"], 1.0)
    assert [one.number for one in ring] == [3, 4, 5]
    assert [one.number for one in ended] == [1, 2, 3, 4, 5]
    assert ring.count == 5


def test_the_oldest_exchanges_are_dropped_at_the_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MOST_BYTES", 10_000)
    ring = ExchangeRing(lambda _: None)
    for _ in range(10):
        ring.end(begin(ring, 2_000), [bytes(1_000)], 1.0)
    assert [one.number for one in ring] == [8, 9, 10]
    assert sum(one.size_bytes for one in ring) <= 10_000


def test_a_large_frame_is_kept_as_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MOST_FRAME_BYTES", 100)
    ring = ExchangeRing(lambda _: None)
    large = begin(ring, 101)
    ring.end(large, [bytes(60), bytes(60)], 1.0)
    assert (large.request, large.response) == (101, 120)


def test_of_records_in_a_file_the_header_of_the_first_batch_is_kept(tmp_path: Path) -> None:
    file = OsDisk().open_file(str(tmp_path / "log"), create=True)
    file.pwrite(b"\x01" * 100, 0)
    ring = ExchangeRing(lambda _: None)
    fetched = begin(ring)
    ring.end(fetched, [b"head", FileSlice(file, 0, 100)], 1.0)
    assert fetched.response == b"head" + b"\x01" * 61 + bytes(39)


def test_a_response_to_a_forgotten_request_leaves_the_size_as_it_is() -> None:
    ring = ExchangeRing(lambda _: None)
    forgotten = begin(ring)
    ring.clear()
    ring.end(forgotten, [bytes(1_000)], 1.0)
    assert list(ring) == []
    assert ring._size_bytes == 0
    assert begin(ring).number == 2


def test_the_reason_of_a_closed_connection_is_kept() -> None:
    ring = ExchangeRing(lambda _: None)
    closed = begin(ring)
    ring.end(closed, None, 2.0, "closed: x")
    assert (closed.response, closed.took_ms, closed.reason) == (None, 2.0, "closed: x")
