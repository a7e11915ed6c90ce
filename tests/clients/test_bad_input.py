"""Invalid input on real sockets to a real broker: it responds or disconnects, stays small and continues to serve.

For abusive clients with valid requests see `tests/chaos/test_bad_clients.py`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.checksum import crc32c
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.produce import ProduceRequest
from protocol.primitives import put_uvarint
from protocol.record_batch import build_batch
from tests import abuse
from tests.abuse import connect, frame, head
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient

QUEUED_BYTES = 32 << 20
CRC_AT, CRC_FROM, ATTRIBUTES_AT, MAGIC_AT, LAST_DELTA_AT, COUNT_AT = 17, 21, 21, 16, 23, 57


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for these tests alone; at the end, its log must have no traceback."""
    settings = {"queued.max.request.bytes": QUEUED_BYTES, "auto.create.topics.enable": "false"}
    with BrokerProcess(tmp_path_factory.mktemp("abused"), settings) as running:
        warm_up(running)
        yield running
        assert running.stop() == 0
    running.check_log()


@pytest.fixture
def abused(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """The broker, with another client that must be served, and a limit of its memory."""
    with abuse.abused(broker, QUEUED_BYTES):
        yield broker


def warm_up(broker: BrokerProcess) -> None:
    """Create the topics, and make the broker import the modules that these tests use."""
    client = RawClient(broker.bootstrap)
    for name, configs in (("plain", {}), ("packed", {"compression.type": "gzip"})):
        settings = [CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in configs.items()]
        topics = [
            CreateTopicsRequest.Topic(
                name=name, num_partitions=1, replication_factor=1, assignments=[], configs=settings
            )
        ]
        client.call(ApiKey.CREATE_TOPICS, 5, topics=topics, timeout_ms=10_000)
        assert produce(broker, bytes(batch()), topic=name) == ErrorCode.NONE
    client.close()


def is_closed(client: socket.socket) -> bool:
    """Wait until the broker closes the connection."""
    with suppress(ConnectionResetError, BrokenPipeError):
        while client.recv(1 << 16):
            pass
    return True


def disconnect_log_lines(broker: BrokerProcess, *requests: bytes) -> int:
    """Send each on its own connection, until the broker closes it; return the log lines about them."""
    before = len(broker.log.read_text().splitlines())
    for request in requests:
        with connect(broker) as client:
            with suppress(ConnectionResetError, BrokenPipeError):
                client.sendall(request)
            assert is_closed(client)
    return len(broker.log.read_text().splitlines()) - before


def batch(*values: bytes, **options: Any) -> bytearray:
    return bytearray(build_batch([(b"key", value) for value in values or (b"value",)], **options))


def sealed(data: bytearray) -> bytearray:
    """Update the CRC for the batch's current bytes."""
    struct.pack_into(">I", data, CRC_AT, crc32c(memoryview(data)[CRC_FROM:]))
    return data


def produce(broker: BrokerProcess, records: bytes, topic: str = "plain") -> ErrorCode:
    """Send one batch and return the error code."""
    client = RawClient(broker.bootstrap)
    partition = ProduceRequest.Topic.Partition(index=0, records=records)
    topics = [ProduceRequest.Topic(name=topic, partition_data=[partition])]
    answer = client.call(ApiKey.PRODUCE, 9, acks=1, timeout_ms=5000, topic_data=topics)
    client.close()
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def test_random_bytes_close_connection_with_log_line_for_each_reason(abused: BrokerProcess) -> None:
    random = Random(1)
    requests = [frame(random.randbytes(random.randrange(200))) for _ in range(50)]
    logged = disconnect_log_lines(abused, *requests)
    reasons = [line.partition("WARNING ")[2] for line in abused.log.read_text().splitlines()[-logged:]]
    assert len(requests) > logged == len(set(reasons)) > 40


@pytest.mark.parametrize("size", [2**31 - 1, -1, -(2**31), 101 << 20], ids=str)
def test_invalid_frame_length_closes_connection(abused: BrokerProcess, size: int) -> None:
    assert disconnect_log_lines(abused, struct.pack(">i", size) + bytes(100)) == 1


def test_incomplete_frame_takes_no_memory_beyond_its_received_bytes(abused: BrokerProcess) -> None:
    clients = [connect(abused) for _ in range(100)]
    for client in clients:
        client.sendall(struct.pack(">i", 100 << 20) + head(ApiKey.METADATA, 12))
    for client in clients:
        client.close()


LYING = {
    "topics": (ApiKey.METADATA, 8, struct.pack(">i", 2**31 - 1)),
    "fewer topics than none": (ApiKey.PRODUCE, 7, struct.pack(">hhii", -1, 1, 100, -5)),
    "topics, flexible": (ApiKey.METADATA, 12, b"\xff\xff\xff\xff\x07"),
    "partitions": (ApiKey.PRODUCE, 7, struct.pack(">hhiihi", -1, 1, 100, 1, 0, 2**30)),
    "tagged fields": (ApiKey.METADATA, 12, b"\x00\x00\x00\xff\xff\xff\xff\x07"),
    "bytes of records": (ApiKey.PRODUCE, 7, struct.pack(">hhiihiii", -1, 1, 100, 1, 0, 1, 0, 2**31 - 1)),
}


@pytest.mark.parametrize("what", LYING)
def test_wrong_array_count_closes_connection(abused: BrokerProcess, what: str) -> None:
    key, version, body = LYING[what]
    assert disconnect_log_lines(abused, frame(head(key, version) + body + bytes(50))) == 1


def test_thirty_million_one_byte_elements_close_connection(abused: BrokerProcess) -> None:
    body = bytearray(head(ApiKey.METADATA, 9))
    put_uvarint(body, 30_000_001)
    assert disconnect_log_lines(abused, frame(bytes(body) + b"\x01" * 30_000_000)) == 1


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (3, 99), (0, 2), (1, -1)])
def test_unknown_api_or_version_closes_connection(abused: BrokerProcess, key: int, version: int) -> None:
    assert disconnect_log_lines(abused, frame(struct.pack(">hhih", key, version, 1, -1) + bytes(20))) == 1


def test_unknown_version_of_api_versions_returns_supported_versions(abused: BrokerProcess) -> None:
    with connect(abused) as client:
        client.sendall(frame(struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1) + b"\0"))
        (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
        answer = client.recv(size, socket.MSG_WAITALL)
    assert struct.unpack_from(">ihi", answer)[:2] == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert struct.unpack_from(">ihi", answer)[2] > 0


def changed(change: Callable[[bytearray], object], *, seal: bool = True) -> bytearray:
    data = batch(b"one", b"two", b"three")
    change(data)
    return sealed(data) if seal else data


BAD_BATCHES = {
    "a corrupt CRC": (changed(lambda data: data.__setitem__(-1, 1), seal=False), ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (changed(lambda data: data.__setitem__(MAGIC_AT, 0)), ErrorCode.INVALID_RECORD),
    "magic 1": (changed(lambda data: data.__setitem__(MAGIC_AT, 1)), ErrorCode.INVALID_RECORD),
    "magic 3": (changed(lambda data: data.__setitem__(MAGIC_AT, 3)), ErrorCode.CORRUPT_MESSAGE),
    "fewer records than it counts": (
        changed(lambda data: struct.pack_into(">i", data, COUNT_AT, 1000)),
        ErrorCode.INVALID_RECORD,
    ),
    "a count that is negative": (
        changed(lambda data: struct.pack_into(">i", data, COUNT_AT, -3)),
        ErrorCode.INVALID_RECORD,
    ),
    "a gap before its last offset": (
        changed(lambda data: struct.pack_into(">i", data, LAST_DELTA_AT, 7)),
        ErrorCode.INVALID_RECORD,
    ),
    "a control batch": (changed(lambda data: data.__setitem__(ATTRIBUTES_AT + 1, 0x20)), ErrorCode.INVALID_RECORD),
    "a codec that does not exist": (
        changed(lambda data: data.__setitem__(ATTRIBUTES_AT + 1, 7)),
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
    "two batches": (batch() + batch(), ErrorCode.INVALID_RECORD),
    "half a batch": (batch()[:-5], ErrorCode.INVALID_RECORD),
    "no batch": (bytearray(b"nonsense"), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("what", BAD_BATCHES)
def test_invalid_batch_is_rejected_with_error_code_of_kafka(abused: BrokerProcess, what: str) -> None:
    records, expected = BAD_BATCHES[what]
    assert produce(abused, bytes(records)) == expected
    assert produce(abused, bytes(batch())) == ErrorCode.NONE


def zstd_of_zeros(size: int) -> bytes:
    """Return a zstd frame that decompresses to `size` bytes, of blocks of one repeated byte (RFC 8878)."""
    block = 128 << 10
    whole, rest = divmod(size, block)
    sizes = [block] * whole + ([rest] if rest else [])
    magic_and_window = bytes.fromhex("28b52ffd 00 38")
    blocks = (
        ((one << 3) | (1 << 1) | (at == len(sizes) - 1)).to_bytes(3, "little") + b"\0" for at, one in enumerate(sizes)
    )
    return magic_and_window + b"".join(blocks)


def packed(content: bytes, codec: int, count: int = 1) -> bytes:
    """Return a batch with `content` as its compressed records section, valid or not."""
    data = batch()[: COUNT_AT + 4]
    data[ATTRIBUTES_AT + 1] = codec
    struct.pack_into(">i", data, LAST_DELTA_AT, count - 1)
    struct.pack_into(">i", data, COUNT_AT, count)
    data += content
    struct.pack_into(">i", data, 8, len(data) - 12)
    return bytes(sealed(data))


def test_batch_that_decompresses_to_ten_gigabytes_is_rejected(abused: BrokerProcess) -> None:
    bomb = packed(zstd_of_zeros(10 << 30), codec=4)
    assert len(bomb) < 400_000
    assert produce(abused, bomb, topic="packed") in {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}


def test_compressed_batch_with_wrong_count_is_rejected(
    abused: BrokerProcess,
) -> None:
    for count in (2, 100_000):
        assert produce(abused, packed(zstd_of_zeros(1000), codec=4, count=count), topic="packed") == (
            ErrorCode.INVALID_RECORD
        )
