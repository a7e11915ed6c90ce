"""Clients with valid requests and abusive behaviour: they connect and disconnect, send slowly, or do not read.

For invalid requests see `tests/clients/test_bad_input.py`.
"""

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from tests.abuse import TIMEOUT_S, WellBehavedClient, abused, connect, frame, head
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient

QUEUED_BYTES = 16 << 20
DROPPED = int(os.environ.get("BARNABAS_TEST_DROPPED_CONNECTIONS", "2000"))
AT_ONCE = 500
TOPIC, GROUP = "data", "waiting"
STORED_BATCHES, BATCH_BYTES = 16, 900_000


@contextmanager
def connected(broker: BrokerProcess, count: int, *, receive_bytes: int | None = None) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(connect(broker, receive_bytes=receive_bytes)) for _ in range(count)]


def send_without_blocking(client: socket.socket, data: bytes) -> None:
    """Send as much as possible without blocking; the broker may have closed the connection, too."""
    client.setblocking(False)
    with suppress(BlockingIOError, ConnectionError):
        client.send(data)


def produce_request(size_bytes: int) -> ProduceRequest:
    partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([(None, bytes(size_bytes))]))
    topic = ProduceRequest.Topic(name=TOPIC, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])


class Bystander:
    """A well-behaved client that needs small and large requests to be served."""

    def __init__(self, bootstrap: str) -> None:
        self._client = RawClient(bootstrap)
        self.close = self._client.close

    def create_topic(self) -> None:
        topic = CreateTopicsRequest.Topic(
            name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        (created,) = self._client.call(ApiKey.CREATE_TOPICS, 5, topics=[topic]).topics
        assert created.error_code == ErrorCode.NONE

    def wait_for_coordinator(self, group: str) -> None:
        """Create the group's coordinator: the offsets topic is created on demand."""
        self._client.call(ApiKey.FIND_COORDINATOR, 0, key=group)
        while self._heartbeat(group) != ErrorCode.UNKNOWN_MEMBER_ID:
            self._client.call(ApiKey.FIND_COORDINATOR, 0, key=group)

    def _heartbeat(self, group: str) -> int:
        answer = self._client.call(ApiKey.HEARTBEAT, 0, group_id=group, generation_id=0, member_id="")
        code: int = answer.error_code
        return code

    def check(self) -> None:
        """Require that all its requests are served."""
        for size_bytes in (10, BATCH_BYTES):
            request = produce_request(size_bytes)
            answer = self._client.call(
                ApiKey.PRODUCE, 9, acks=-1, timeout_ms=request.timeout_ms, topic_data=request.topic_data
            )
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    properties = {"queued.max.request.bytes": QUEUED_BYTES, "group.initial.rebalance.delay.ms": 600_000}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), properties) as running:
        first = Bystander(running.bootstrap)
        first.create_topic()
        for _ in range(STORED_BATCHES):
            first.check()
        first.close()
        yield running
    running.check_log()


@pytest.fixture
def bystander(broker: BrokerProcess) -> Iterator[Bystander]:
    client = Bystander(broker.bootstrap)
    client.check()
    yield client
    client.close()


@pytest.fixture
def neighbour(broker: BrokerProcess, bystander: Bystander) -> Iterator[WellBehavedClient]:
    with abused(broker, QUEUED_BYTES) as served:
        yield served
        bystander.check()


def descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the number of open descriptors is unknown here")
def test_opened_and_dropped_connections_leak_nothing(broker: BrokerProcess, neighbour: WellBehavedClient) -> None:
    before = descriptors(broker)
    for _ in range(DROPPED // AT_ONCE):
        with connected(broker, AT_ONCE) as clients:
            for client in clients[::2]:
                client.sendall(b"\0")
            neighbour.wait_for_responses(1)
    deadline = time.monotonic() + TIMEOUT_S
    while descriptors(broker) > before:
        assert time.monotonic() < deadline
        neighbour.wait_for_responses(1)


def test_slow_large_requests_stay_below_memory_limit_and_others_are_served(
    broker: BrokerProcess, neighbour: WellBehavedClient, bystander: Bystander
) -> None:
    """Each of many clients announces a request of 50 MB, sends a part of it, then one byte at a time."""
    begun = (50 << 20).to_bytes(4, "big") + bytes(60_000)
    with connected(broker, 800) as clients:
        for client in clients:
            send_without_blocking(client, begun)
        for _ in range(3):
            bystander.check()
            for client in clients:
                send_without_blocking(client, b"\0")
        with connected(broker, 1) as (honest,):
            honest.sendall(frame(head(ApiKey.PRODUCE, 9) + produce_request(BATCH_BYTES).encode(9)))
            assert len(honest.recv(4, socket.MSG_WAITALL)) == 4
        bystander.check()


def test_clients_that_send_byte_by_byte_are_served(broker: BrokerProcess, neighbour: WellBehavedClient) -> None:
    request = frame(head(ApiKey.API_VERSIONS, 3) + b"\x02a\x02b\x00")
    with connected(broker, 50) as clients:
        for at in range(len(request)):
            for client in clients:
                client.sendall(request[at : at + 1])
        for client in clients:
            (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
            assert struct.unpack_from(">ih", client.recv(size, socket.MSG_WAITALL)) == (1, ErrorCode.NONE)


def test_unread_fetch_responses_take_bounded_memory(
    broker: BrokerProcess, neighbour: WellBehavedClient, bystander: Bystander
) -> None:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)
    topic = FetchRequest.Topic(topic=TOPIC, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, topics=[topic])
    fetches = frame(head(ApiKey.FETCH, 11) + request.encode(11)) * 100
    with connected(broker, 40, receive_bytes=4096) as clients:
        for client in clients:
            client.sendall(fetches)
        neighbour.wait_for_responses(20)
        for _ in range(5):
            bystander.check()


def test_endless_requests_behind_a_deferred_one_take_bounded_memory(
    broker: BrokerProcess, neighbour: WellBehavedClient, bystander: Bystander
) -> None:
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
    join = JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=30_000, member_id="", protocol_type="consumer", protocols=[protocol]
    )
    bystander.wait_for_coordinator(GROUP)
    heartbeat = HeartbeatRequest(group_id=GROUP, generation_id=0, member_id="")
    flood = frame(head(ApiKey.HEARTBEAT, 0) + heartbeat.encode(0)) * 40_000
    with connected(broker, 400) as clients:
        for client in clients:
            client.sendall(frame(head(ApiKey.JOIN_GROUP, 0) + join.encode(0)))
        for client in clients:
            send_without_blocking(client, flood)
        neighbour.wait_for_responses(20)
        for _ in range(5):
            bystander.check()
        for client in clients:
            with pytest.raises(BlockingIOError):
                client.recv(1)
