"""What kafka-python's connections do otherwise; `test_refusals` has what the commands print."""

from __future__ import annotations

import socket

from kafka.errors import KafkaConnectionError
from kafka.net.transport import KafkaTCPTransport

from barnabas.commands._kafka_client import _DataFirst


def test_response_that_comes_with_the_end_of_the_stream_is_read() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"refused")
    theirs.close()
    ours.setblocking(False)
    read = _DataFirst(KafkaTCPTransport(None, ours)._sock_recv)
    assert read.receive() == (b"refused", None)
    received, error = read.receive()
    assert received == b""
    assert isinstance(error, KafkaConnectionError)
    ours.close()
