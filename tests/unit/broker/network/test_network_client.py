"""`NetworkClient` on real sockets; timing is in `test_network_client_timing.py`."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Never

import pytest

from broker.dispatch import encode_response
from broker.network.connection import Disconnect
from broker.network.connection_protocol import DeferredResponse
from broker.network.network_client import NetworkClient, NetworkClientLimits
from protocol.api import ApiKey
from protocol.errors import KafkaError
from protocol.headers import RequestHeader
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.schema import Message
from tests.typed import instance
from tests.unit.broker.conftest import Run, Served, Serving
from tests.unit.broker.peer_node import Node, vote, warnings

LIMITS = NetworkClientLimits(request_timeout_ms=20_000, backoff_ms=1, max_backoff_ms=2)


class Reported:
    """Records the callbacks of a `NetworkClient`."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.lost = asyncio.Event()

    def on_ready(self) -> None:
        self.events.append("ready")

    def on_lost(self) -> None:
        self.events.append("lost")
        self.lost.set()

    def on_refused(self) -> None:
        self.events.append("refused")


def peer_of(served: Served, limits: NetworkClientLimits = LIMITS, reported: Reported | None = None) -> NetworkClient:
    reported = reported or Reported()
    loop = asyncio.get_running_loop()
    return NetworkClient(
        loop,
        ("127.0.0.1", served.port),
        "node 1",
        Random(1),
        limits,
        on_ready=reported.on_ready,
        on_lost=reported.on_lost,
    )


@pytest.fixture
def talk(run: Run, serving: Serving) -> Callable[..., None]:
    """Run a client against a node, on each event loop; no task may remain."""

    def talk(body: Callable[[Served, Node], Any], **limits: Any) -> None:
        async def whole() -> None:
            async with serving(**limits) as served:
                before = asyncio.all_tasks()
                await body(served, Node(served))
                while left := {task for task in asyncio.all_tasks() - before if not task.done()}:
                    await asyncio.wait(left)

        run(whole())

    return talk


def test_request_gets_a_response(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        node.reply = lambda *_: VoteResponse(error_code=42, topics=[])
        peer = peer_of(served)
        assert await peer.call(vote()) == VoteResponse(error_code=42, topics=[])
        assert node.requested == [vote()]
        peer.close()

    talk(body)


def test_first_request_is_api_versions_with_the_software_name(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        peer = peer_of(served)
        await peer.call(vote())
        (first, requested), (second, _) = node.seen
        assert isinstance(requested, ApiVersionsRequest)
        assert requested.client_software_name == "barnabas"
        assert (first.client_id, second.client_id) == ("node 1", "node 1")
        peer.close()

    talk(body)


@pytest.mark.parametrize(("theirs", "chosen"), [((0, 2), 2), ((0, 1), 1), ((1, 9), 2), ((0, 0), 0)])
def test_request_uses_the_newest_common_version(
    talk: Callable[..., None], theirs: tuple[int, int], chosen: int
) -> None:
    async def body(served: Served, node: Node) -> None:
        node.versions[ApiKey.VOTE] = theirs
        peer = peer_of(served)
        await peer.call(vote())
        assert node.seen[-1][0].api_version == chosen
        peer.close()

    talk(body)


def test_api_versions_is_retried_in_a_version_of_the_node(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        node.versions[ApiKey.API_VERSIONS] = (0, 2)
        peer = peer_of(served)
        assert await peer.call(vote()) == VoteResponse(topics=[])
        assert node.seen[0][0].api_version == 2
        peer.close()

    talk(body)


def test_error_without_a_common_version_has_both_ranges(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        node.versions[ApiKey.VOTE] = (3, 5)
        peer = peer_of(served)
        with pytest.raises(
            KafkaError, match=rf"Vote: this node supports 0 to 2, 127.0.0.1:{served.port} supports 3 to 5"
        ):
            await peer.call(vote())
        assert node.requested == []
        peer.close()

    talk(body)


def test_request_may_have_a_minimum_version(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        node.versions[ApiKey.VOTE] = (0, 1)
        peer = peer_of(served)
        with pytest.raises(KafkaError, match=r"this node supports 2 to 2, .* supports 0 to 1"):
            await peer.call(vote(), min_version=2)
        assert await peer.call(vote(), min_version=1) == VoteResponse(topics=[])
        peer.close()

    talk(body)


def test_unsupported_api_is_an_error(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        del node.versions[ApiKey.VOTE]
        peer = peer_of(served)
        with pytest.raises(KafkaError, match="does not serve it"):
            await peer.call(vote())
        peer.close()

    talk(body)


def test_value_not_in_the_common_version_is_an_error(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        node.versions[ApiKey.LIST_GROUPS] = (0, 3)
        node.reply = lambda *_: ListGroupsResponse(error_code=0, groups=[])
        peer = peer_of(served)
        with pytest.raises(KafkaError, match="ListGroupsRequest"):
            await peer.call(ListGroupsRequest(states_filter=["Stable"]))
        assert await peer.call(ListGroupsRequest()) == ListGroupsResponse(error_code=0, groups=[])
        peer.close()

    talk(body)


def test_pipelined_requests_match_their_responses(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        def reply(header: RequestHeader, request: Message) -> DeferredResponse:
            answer = asyncio.get_running_loop().create_future()
            waiting.append((header, request.voter_id, answer))  # type: ignore[attr-defined]  # of a type that is known here
            if len(waiting) == 3:
                for one, voter_id, future in reversed(waiting):
                    future.set_result(encode_response(one, VoteResponse(error_code=voter_id, topics=[])))
            return DeferredResponse(ApiKey.FETCH, answer)  # FETCH does not block later responses

        waiting: list[Any] = []
        node.reply = reply
        peer = peer_of(served)
        answers = await asyncio.gather(*(peer.call(vote(voter_id)) for voter_id in (5, 6, 7)))
        assert [instance(VoteResponse, answer).error_code for answer in answers] == [5, 6, 7]
        peer.close()

    talk(body)


def test_response_stays_intact_while_others_arrive(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        def reply(_: RequestHeader, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
            data = bytes([request.replica_id]) * 1000
            return FetchSnapshotResponse(topics=[snapshot_topic(data)])

        node.reply = reply  # type: ignore[assignment]  # replaced for this test
        peer = peer_of(served)
        answers = await asyncio.gather(
            *(peer.call(FetchSnapshotRequest(replica_id=replica_id, topics=[])) for replica_id in range(50))
        )
        found = [snapshot_data(answer) for answer in answers]
        assert found == [bytes([replica_id]) * 1000 for replica_id in range(50)]
        peer.close()

    talk(body)


def snapshot_data(answer: Message | None) -> bytes:
    """Return the content of the only partition in a response to FetchSnapshot."""
    records = instance(FetchSnapshotResponse, answer).topics[0].partitions[0].unaligned_records
    return bytes(instance(memoryview, records))


def snapshot_topic(data: bytes) -> Any:
    topic = FetchSnapshotResponse.Topic
    partition = topic.Partition
    return topic(
        name="t",
        partitions=[
            partition(
                index=0,
                snapshot_id=partition.SnapshotId(end_offset=1, epoch=1),
                size=len(data),
                position=0,
                unaligned_records=data,
            )
        ],
    )


def test_large_response_arrives_whole(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        data = bytes(range(256)) * 4096 * 3
        node.reply = lambda *_: FetchSnapshotResponse(topics=[snapshot_topic(data)])
        peer = peer_of(served)
        answer = await peer.call(FetchSnapshotRequest(topics=[]))
        assert snapshot_data(answer) == data
        peer.close()

    talk(body)


def test_a_response_beyond_the_limit_closes_the_connection_with_one_line(
    talk: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def body(served: Served, node: Node) -> None:
        node.reply = lambda *_: FetchSnapshotResponse(topics=[snapshot_topic(bytes(9000))])
        reported = Reported()
        peer = peer_of(served, LIMITS._replace(max_response_bytes=8000), reported)
        assert await peer.call(FetchSnapshotRequest(topics=[])) is None
        assert reported.events == ["ready", "lost"]
        (line,) = warnings(caplog)
        assert "the limit is 8000" in line
        peer.close()

    talk(body)


@pytest.mark.parametrize(
    ("garbage", "complaint"),
    [
        (b"\xff\xff\xff\xff", "frame of -1 bytes"),
        (b"\0\0\0\5\0\0\0\7\0", "response 7 instead of 1"),
        (b"\0\0\0\2\0\0", "a response header ends early"),
        (b"\0\0\0\6\0\0\0\1\0\0", "VoteResponse v2 ends early"),
    ],
)
def test_garbage_closes_the_connection_with_one_line(
    talk: Callable[..., None], caplog: pytest.LogCaptureFixture, garbage: bytes, complaint: str
) -> None:
    async def body(served: Served, node: Node) -> None:
        node.reply = lambda *_: [garbage]
        reported = Reported()
        peer = peer_of(served, reported=reported)
        assert await asyncio.gather(peer.call(vote()), peer.call(vote())) == [None, None]  # type: ignore[comparison-overlap]  # equal by content
        assert reported.events == ["ready", "lost"]
        (line,) = warnings(caplog)
        assert complaint in line
        peer.close()

    talk(body)


def test_response_without_a_pending_request_closes_the_connection(
    talk: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def body(served: Served, node: Node) -> None:
        answer = VoteResponse(topics=[])
        node.reply = lambda header, _: [*encode_response(header, answer), *encode_response(header, answer)]
        reported = Reported()
        peer = peer_of(served, reported=reported)
        assert await peer.call(vote()) == answer
        await reported.lost.wait()
        assert "a response without a pending request" in warnings(caplog)[0]
        peer.close()

    talk(body)


def test_garbage_instead_of_api_versions_is_a_failed_attempt(
    talk: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def body(served: Served, node: Node) -> None:
        served.script.answer = lambda *_: [b"\xff\xff\xff\xff"]
        reported = Reported()
        peer = peer_of(served, reported=reported)
        assert await peer.call(vote()) is None
        assert await peer.call(vote()) is None
        assert reported.events == []
        assert len(warnings(caplog)) == 1, "logged for the first attempt in a row"
        peer.close()

    talk(body)


def test_broken_connection_fails_all_requests_in_flight(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        def reply(*_: RequestHeader | VoteRequest) -> DeferredResponse:
            if len(node.requested) == 3:
                next(iter(served.server.connections)).abort()
            return DeferredResponse(ApiKey.FETCH, asyncio.get_running_loop().create_future())

        node.reply = reply  # type: ignore[assignment]  # replaced for this test
        reported = Reported()
        peer = peer_of(served, reported=reported)
        assert await asyncio.gather(*(peer.call(vote()) for _ in range(3))) == [None, None, None]
        assert reported.events == ["ready", "lost"]
        assert not peer.ready
        peer.close()

    talk(body)


def test_next_request_reopens_the_connection(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        def reply(*_: RequestHeader | VoteRequest) -> Never:
            raise Disconnect("once")

        node.reply = reply  # type: ignore[assignment]  # replaced for this test
        reported = Reported()
        peer = peer_of(served, reported=reported)
        assert await peer.call(vote()) is None
        node.reply = lambda *_: VoteResponse(topics=[])
        assert await peer.call(vote()) == VoteResponse(topics=[])
        assert reported.events == ["ready", "lost", "ready"]
        peer.close()

    talk(body)


def test_a_connection_is_ready_without_a_request(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        ready = asyncio.Event()
        loop = asyncio.get_running_loop()
        peer = NetworkClient(loop, ("127.0.0.1", served.port), "node 1", Random(1), LIMITS, on_ready=ready.set)
        assert not peer.ready
        peer.connect()
        peer.connect()
        await ready.wait()
        assert peer.ready
        assert len(node.seen) == 1  # type: ignore[unreachable]  # a call has changed it since
        peer.close()

    talk(body)


def test_close_fails_all_requests_and_runs_no_callback(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        requested = asyncio.Event()
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def reply(*_: RequestHeader | VoteRequest) -> DeferredResponse:
            requested.set()
            return DeferredResponse(ApiKey.FETCH, answer)  # type: ignore[arg-type]  # only this comes here

        node.reply = reply  # type: ignore[assignment]  # replaced for this test
        reported = Reported()
        peer = peer_of(served, reported=reported)
        call = peer.call(vote())
        await requested.wait()
        peer.close()
        assert await call is None
        assert await peer.call(vote()) is None, "for good"
        assert reported.events == ["ready"]
        answer.set_result(None)

    talk(body)


def test_close_while_connecting_leaves_no_state(talk: Callable[..., None]) -> None:
    async def body(served: Served, node: Node) -> None:
        peer = peer_of(served)
        call = peer.call(vote())
        peer.close()
        assert await call is None

    talk(body)


def test_new_address_opens_a_new_connection(talk: Callable[..., None], serving: Serving) -> None:
    async def body(served: Served, node: Node) -> None:
        async with serving() as elsewhere:
            other = Node(elsewhere)
            reported = Reported()
            peer = peer_of(served, reported=reported)
            await peer.call(vote(1))
            peer.address = ("127.0.0.1", elsewhere.port)
            await peer.call(vote(2))
            peer.address = ("127.0.0.1", elsewhere.port)
            await peer.call(vote(3))
            assert (node.requested, other.requested) == ([vote(1)], [vote(2), vote(3)])
            assert reported.events == ["ready", "ready"], "this side gave it up"
            peer.close()

    talk(body)


def test_refused_connection_fails_the_request(run: Run, caplog: pytest.LogCaptureFixture, unused_port: int) -> None:
    caplog.set_level(logging.DEBUG, "broker.peer")

    async def body() -> None:
        loop = asyncio.get_running_loop()
        peer = NetworkClient(loop, ("127.0.0.1", unused_port), "node 1", Random(1), LIMITS)
        assert await peer.call(vote()) is None
        assert f"Cannot connect to 127.0.0.1:{unused_port}: " in caplog.text
        assert "[Errno" not in caplog.text
        assert warnings(caplog) == []
        peer.close()

    run(body())


@pytest.fixture
def unused_port() -> Iterator[int]:
    """Yield a port that is bound, so that no process takes it, but not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize("host", ["a" * 70, "x..y", ""])
def test_unresolvable_host_fails_the_request(run: Run, host: str) -> None:
    async def body() -> None:
        peer = NetworkClient(asyncio.get_running_loop(), (host, 1), "node 1", Random(1), LIMITS)
        assert await peer.call(vote()) is None
        peer.close()

    run(body())
