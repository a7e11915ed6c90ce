"""Clients that connect without end, send slowly, or do not read: memory is bounded, and others are served."""

import contextlib
import os
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.api import ApiKey
from protocol.headers import RequestHeader, encode_request_header
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient

QUEUED_BYTES = 16 << 20
SPARE_BYTES = 64 << 20
DROPPED = int(os.environ.get("BARNABAS_TEST_DROPPED_CONNECTIONS", "10000"))
AT_ONCE = 500
TOPIC = "data"
STORED_BATCHES, BATCH_BYTES = 16, 900_000


def address(broker: BrokerProcess) -> tuple[str, int]:
    host, _, port = broker.bootstrap.rpartition(":")
    return host, int(port)


def frame(key: ApiKey, version: int, body: bytes) -> bytes:
    request = encode_request_header(RequestHeader(key, version, 1, "bad")) + body
    return len(request).to_bytes(4, "big") + request


def resident_bytes(broker: BrokerProcess) -> int:
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@contextlib.contextmanager
def connected(broker: BrokerProcess, count: int, **options: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        sockets = []
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            if "receive_bytes" in options:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options["receive_bytes"])
            client.settimeout(30)
            client.connect(address(broker))
            sockets.append(client)
        yield sockets


class Bystander:
    """A client that behaves, and what the bad ones cost the broker since it came."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self._client = RawClient(broker.bootstrap, timeout_s=20)
        self._use_all()
        self.before_bytes = resident_bytes(broker)

    def close(self) -> None:
        self._client.close()

    def produce(self, size_bytes: int) -> int:
        """Append one record and return its offset."""
        partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([(None, bytes(size_bytes))]))
        topic = ProduceRequest.Topic(name=TOPIC, partition_data=[partition])
        answer = self._client.call(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=10_000, topic_data=[topic])
        (done,) = answer.responses[0].partition_responses
        assert done.error_code == 0
        offset: int = done.base_offset
        return offset

    def check(self) -> None:
        """Be served, with small requests and large ones, while the broker has grown by no more than it may."""
        self.produce(10)
        self.produce(BATCH_BYTES)
        grown_bytes = resident_bytes(self.broker) - self.before_bytes
        assert grown_bytes < SPARE_BYTES + QUEUED_BYTES, f"{grown_bytes >> 20} MB more than before"

    def _use_all(self) -> None:
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        from protocol.messages.create_topics import CreateTopicsRequest

        self._client.call(ApiKey.CREATE_TOPICS, 5, topics=[CreateTopicsRequest.Topic(**topic)])
        for _ in range(STORED_BATCHES):
            self.produce(BATCH_BYTES)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    properties = {"queued.max.request.bytes": QUEUED_BYTES, "group.initial.rebalance.delay.ms": 600_000}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), properties) as running:
        yield running
    running.check_log()


@pytest.fixture
def bystander(broker: BrokerProcess) -> Iterator[Bystander]:
    client = Bystander(broker)
    yield client
    client.close()


def test_connections_that_are_opened_and_dropped_leave_nothing_behind(
    broker: BrokerProcess, bystander: Bystander
) -> None:
    for _ in range(DROPPED // AT_ONCE):
        with connected(broker, AT_ONCE) as clients:
            for client in clients[::2]:
                client.sendall(b"\0")
            bystander.produce(10)
    bystander.check()
    deadline = time.monotonic() + 30
    while len(os.listdir(f"/proc/{broker.pid}/fd")) > AT_ONCE:
        assert time.monotonic() < deadline
        bystander.produce(10)


def test_requests_that_come_slowly_take_no_more_memory_than_is_set_and_are_answered(
    broker: BrokerProcess, bystander: Bystander
) -> None:
    """Each of many claims a request of 50 MB, sends some of it, and from then on a byte at a time."""
    begun = (50 << 20).to_bytes(4, "big") + bytes(60_000)
    with connected(broker, 800) as clients:
        for client in clients:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.send(begun)
        for _ in range(3):
            bystander.check()
            for client in clients:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    client.send(b"\0")
        with connected(broker, 1) as (honest,):
            partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([(None, bytes(BATCH_BYTES))]))
            topic = ProduceRequest.Topic(name=TOPIC, partition_data=[partition])
            request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic])
            honest.sendall(frame(ApiKey.PRODUCE, 9, request.encode(9)))
            assert len(honest.recv(4, socket.MSG_WAITALL)) == 4
        bystander.check()


def test_fetches_that_nobody_reads_take_a_bounded_part_of_memory(broker: BrokerProcess, bystander: Bystander) -> None:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)
    topic = FetchRequest.Topic(topic=TOPIC, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, topics=[topic])
    fetches = frame(ApiKey.FETCH, 11, request.encode(11)) * 100
    with connected(broker, 40, receive_bytes=4096) as clients:
        for client in clients:
            client.sendall(fetches)
        for _ in range(5):
            bystander.check()


def test_requests_without_end_behind_one_that_waits_take_a_bounded_part_of_memory(
    broker: BrokerProcess, bystander: Bystander
) -> None:
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
    join = JoinGroupRequest(
        group_id="waiting", session_timeout_ms=30_000, member_id="", protocol_type="consumer", protocols=[protocol]
    )
    heartbeat = HeartbeatRequest(group_id="", generation_id=0, member_id="")
    flood = frame(ApiKey.HEARTBEAT, 0, heartbeat.encode(0)) * 40_000
    with connected(broker, 200) as clients:
        for client in clients:
            client.sendall(frame(ApiKey.JOIN_GROUP, 0, join.encode(0)))
        for client in clients:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.send(flood)
        for _ in range(5):
            bystander.check()
