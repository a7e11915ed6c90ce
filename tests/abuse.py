"""Shared parts of the tests of misbehaving clients: a well-behaved client, and bounds on the broker's memory."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol.api import ApiKey
from protocol.headers import RequestHeader, encode_request_header
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient

TIMEOUT_S = 30
SPARE_BYTES = 64 << 20


class WellBehavedClient:
    """A well-behaved client: a thread that sends Metadata requests in a loop."""

    def __init__(self, bootstrap: str) -> None:
        self._client = RawClient(bootstrap, TIMEOUT_S)
        self._answers = 0
        self._answered = threading.Condition()
        self._stopping = False
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._query)
        self._thread.start()

    def wait_for_responses(self, count: int) -> None:
        """Return when `count` more responses have arrived."""
        with self._answered:
            wanted = self._answers + count
            self._answered.wait_for(lambda: self._answers >= wanted or self._failure, TIMEOUT_S)
            assert self._answers >= wanted, f"{self._answers} of {wanted} answers came: {self._failure}"

    def stop(self) -> None:
        """Close the connection; fail if a request got no response."""
        self._stopping = True
        self._thread.join()
        assert self._failure is None

    def _query(self) -> None:
        try:
            while not self._stopping:
                self._client.call(ApiKey.METADATA, 12, topics=[])
                with self._answered:
                    self._answers += 1
                    self._answered.notify_all()
        except OSError as error:
            self._failure = error
        finally:
            self._client.close()


@contextmanager
def abused(broker: BrokerProcess, queued_bytes: int) -> Iterator[WellBehavedClient]:
    """Run the block, and fail unless a well-behaved client is served during and after it.

    The broker's resident size may grow by at most `queued_bytes`, its limit for queued requests, plus `SPARE_BYTES`.
    """
    neighbour = WellBehavedClient(broker.bootstrap)
    try:
        neighbour.wait_for_responses(1)
        before_bytes = _resident_bytes(broker.pid)
        yield neighbour
        neighbour.wait_for_responses(3)
    finally:
        neighbour.stop()
    grown_bytes = _resident_bytes(broker.pid, peak=True) - before_bytes
    assert grown_bytes < queued_bytes + SPARE_BYTES, f"{grown_bytes >> 20} MB more than before"


def connect(broker: BrokerProcess, *, receive_bytes: int | None = None) -> socket.socket:
    """Return a connected socket, with a receive buffer of `receive_bytes` unless None."""
    client = socket.socket()
    if receive_bytes is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.settimeout(TIMEOUT_S)
    host, _, port = broker.bootstrap.rpartition(":")
    client.connect((host, int(port)))
    return client


def frame(body: bytes) -> bytes:
    """Return a request with its size prefix."""
    return struct.pack(">i", len(body)) + body


def head(key: ApiKey, version: int) -> bytes:
    """Return the header of a request whose correlation id is 1."""
    return encode_request_header(RequestHeader(key, version, 1, "bad"))


def _resident_bytes(pid: int, *, peak: bool = False) -> int:
    """Return the resident size now, or with `peak` the largest since the last call without `peak`."""
    if sys.platform != "linux":
        return 0
    if not peak:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    status = Path(f"/proc/{pid}/status").read_text()
    wanted = "VmHWM:" if peak else "VmRSS:"
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(wanted)) * 1024
