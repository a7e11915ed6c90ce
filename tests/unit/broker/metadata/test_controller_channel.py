"""Channel to the active controller across leader changes: virtual time, real connections, a simulated node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.metadata.controller_channel import MAX_FORWARDED, ControllerChannel
from broker.metadata.topic_creation import create_by_controller
from broker.network.connection import Connection, RequestContext, context_of
from broker.network.network_client import NetworkClient
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.headers import RequestHeader, decode_request_header, response_prefix
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.envelope import EnvelopeResponse
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from protocol.primitives import read_parts
from protocol.records.principal import decode_principal
from protocol.schema import Message
from tests.typed import instance
from tests.unit.broker.peer_node import Network

HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=4, broker_epoch=1, current_metadata_offset=1, want_fence=False, want_shut_down=False
)
CREATE = CreateTopicsRequest(topics=[], timeout_ms=5, validate_only=True)
HERE = "the answer from here"


class Quorum:
    """Stands in for the quorum: returns the current leader."""

    def __init__(self, loop: Network) -> None:
        self.loop = loop
        self.leads = False
        self.leader_id = -1
        self.epoch = 0
        self.is_in_other_cluster = False
        self._changed: asyncio.Future[None] = loop.create_future()

    def leader_change(self) -> asyncio.Future[None]:
        return self._changed

    def elect(self, leader_id: int, *, leads: bool = False) -> None:
        self.leader_id, self.leads = leader_id, leads
        self.epoch += leader_id >= 0
        was, self._changed = self._changed, self.loop.create_future()
        was.set_result(None)


class Broker:
    """A broker's controller channel, and the single node at the other end of all its connections."""

    def __init__(self) -> None:
        self.network = Network()
        self.quorum = Quorum(self.network)
        self.connected: list[int] = []
        self.refusals: list[Exception] = []
        self.answering: asyncio.Event | None = None  # Bound to this loop: `handle_locally` waits for it.
        self.channel = ControllerChannel(self.quorum, self.connect, self.handle_locally, self.network)
        self.network.node.reply = lambda *_: BrokerHeartbeatResponse(is_caught_up=True)

    def connect(self, node_id: int, on_change: Callable[[], None]) -> NetworkClient:
        self.connected.append(node_id)
        return self.network.peer()

    async def handle_locally(self, _request: Message | None = None) -> Any:
        if self.answering is not None:
            await self.answering.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        return HERE

    def run(self, awaitable: Awaitable[Any]) -> Any:
        return self.network.run_until_complete(awaitable)

    def let_pass(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.network.create_task(coroutine)

    def forward(
        self,
        timeout_s: float = 30.0,
        request: CreateTopicsRequest | DeleteTopicsRequest = CREATE,
        key: ApiKey = ApiKey.CREATE_TOPICS,
        version: int = 7,
    ) -> Coroutine[Any, Any, Any]:
        context = RequestContext(key, version, 99, "an app", 1, "PLAINTEXT", "10.1.2.3", "User:alice")
        return self.channel.forward(context, request, self.handle_locally, timeout_s)

    def crowd(self) -> list[asyncio.Task[Any]]:
        """Forward three times as many client requests as may be in flight; the controller answers none."""
        self.network.node.reply = lambda *_: []
        several = [self.start(self.forward()) for _ in range(3 * MAX_FORWARDED)]
        self.let_pass(1)
        return several

    @property
    def requested(self) -> list[Any]:
        return self.network.node.requested


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.channel.close()
    made.let_pass(60)  # Pending requests fail: the channel is closed.
    made.network.close()


def failure(requested: asyncio.Task[Any]) -> KafkaError:
    return instance(KafkaError, requested.exception())


def not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "another leads")


def test_request_is_sent_to_active_controller(broker: Broker) -> None:
    broker.quorum.elect(2)
    assert broker.run(broker.channel.call(HEARTBEAT, 5)).is_caught_up
    assert broker.connected == [2]
    assert broker.requested == [HEARTBEAT]


def test_connection_is_kept_until_leader_changes(broker: Broker) -> None:
    for leader in (2, 2, 3):
        broker.quorum.elect(leader)
        broker.run(broker.channel.call(HEARTBEAT, 5))
    assert broker.connected == [2, 3]
    assert [line.aborted for line in broker.network.lines] == [True, False]


def test_active_controller_handles_request_locally(broker: Broker) -> None:
    broker.quorum.elect(1, leads=True)
    assert broker.run(broker.channel.call(HEARTBEAT, 5)) == HERE
    assert broker.connected == []


def test_request_waits_until_leader_is_known(broker: Broker) -> None:
    querying = broker.start(broker.channel.call(HEARTBEAT, 5))
    broker.let_pass(2)
    assert not querying.done()
    broker.quorum.elect(3)
    assert broker.run(querying).is_caught_up
    assert broker.network.time() < 2.1


def test_request_without_leader_times_out(broker: Broker) -> None:
    with pytest.raises(KafkaError) as error:
        broker.run(broker.channel.call(HEARTBEAT, 5))
    assert error.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert broker.network.time() == pytest.approx(5)


def test_request_is_retried_on_not_controller_until_answered(broker: Broker) -> None:
    codes = [ErrorCode.NOT_CONTROLLER] * 3 + [ErrorCode.NONE]
    broker.network.node.reply = lambda *_: BrokerHeartbeatResponse(error_code=codes.pop(0))
    broker.quorum.elect(2)
    assert broker.run(broker.channel.call(HEARTBEAT, 5)).error_code == ErrorCode.NONE
    assert len(broker.requested) == 4
    assert broker.network.time() < 1


@pytest.mark.parametrize("codes", [[], [0], [ErrorCode.NOT_CONTROLLER, 0], [ErrorCode.NOT_CONTROLLER] * 2])
def test_response_is_not_controller_only_if_all_parts_are(broker: Broker, codes: list[int]) -> None:
    parts = [CreateTopicsResponse.Topic(name=f"t{code}", error_code=code, error_message=None) for code in codes]
    answers = [CreateTopicsResponse(topics=parts), CreateTopicsResponse(topics=[])]
    broker.network.node.reply = lambda *_: answers.pop(0)
    broker.quorum.elect(2)
    found = broker.run(broker.channel.call(CREATE, 5))
    requested_again = len(codes) > 0 and set(codes) == {ErrorCode.NOT_CONTROLLER}
    assert len(broker.requested) == 1 + requested_again
    assert len(found.topics) == (0 if requested_again else len(codes))


def test_request_without_known_error_field_is_not_sent(broker: Broker) -> None:
    broker.quorum.elect(2)
    with pytest.raises(KeyError):
        broker.run(broker.channel.call(ElectLeadersRequest(election_type=0, topic_partitions=[], timeout_ms=1), 5))
    assert broker.requested == []


def test_other_error_is_returned(broker: Broker) -> None:
    broker.network.node.reply = lambda *_: BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    broker.quorum.elect(2)
    assert broker.run(broker.channel.call(HEARTBEAT, 5)).error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_deposed_leader_sends_request_to_its_successor(broker: Broker, code: ErrorCode) -> None:
    broker.refusals = [KafkaError(code, "another leads")]
    broker.quorum.elect(1, leads=True)
    querying = broker.start(broker.channel.call(HEARTBEAT, 5))
    broker.let_pass(0.01)
    broker.quorum.elect(2)
    assert broker.run(querying).is_caught_up


def test_local_error_is_returned(broker: Broker) -> None:
    broker.refusals = [KafkaError(ErrorCode.POLICY_VIOLATION, "no")]
    broker.quorum.elect(1, leads=True)
    with pytest.raises(KafkaError) as error:
        broker.run(broker.channel.call(HEARTBEAT, 5))
    assert error.value.code is ErrorCode.POLICY_VIOLATION


def test_request_is_retried_after_connection_loss(broker: Broker) -> None:
    broker.network.down = True
    broker.quorum.elect(2)
    querying = broker.start(broker.channel.call(HEARTBEAT, 5))
    broker.let_pass(1)
    assert not querying.done()
    broker.network.down = False
    assert broker.run(querying).is_caught_up


def test_pending_request_moves_to_new_leader(broker: Broker) -> None:
    broker.quorum.elect(2)
    broker.run(broker.channel.call(HEARTBEAT, 5))
    broker.network.silent = True
    querying = broker.start(broker.channel.call(HEARTBEAT, 30))
    broker.let_pass(0.1)
    broker.network.silent = False
    broker.quorum.elect(3)
    assert broker.run(querying).is_caught_up
    assert broker.network.time() < 1
    assert broker.connected == [2, 3]


@pytest.mark.parametrize("between", [(), (-1,)])
def test_pending_request_is_sent_again_if_leader_is_reelected(broker: Broker, between: tuple[int, ...]) -> None:
    """After a power cut it does not know the request, and no broken connection reveals that."""
    broker.quorum.elect(2)
    broker.run(broker.channel.call(HEARTBEAT, 5))
    broker.network.silent = True
    querying = broker.start(broker.channel.call(HEARTBEAT, 30))
    broker.let_pass(0.1)
    broker.network.silent = False
    for leader in (*between, 2):
        broker.quorum.elect(leader)
        broker.let_pass(0.01)
    assert broker.run(querying).is_caught_up
    assert broker.network.time() < 1
    assert broker.connected == [2, 2]


def test_pending_request_is_not_resent_if_leader_epoch_is_unchanged(broker: Broker) -> None:
    broker.quorum.elect(2)
    epoch = broker.quorum.epoch
    broker.network.node.reply = lambda *_: []
    querying = broker.start(broker.channel.call(HEARTBEAT, 5))
    broker.let_pass(0.1)
    for leader in (-1, 2):
        broker.quorum.elect(leader)
        broker.quorum.epoch = epoch
        broker.let_pass(0.1)
    assert not querying.done()
    assert len(broker.requested) == 1


def test_request_fails_early_if_controllers_are_of_another_cluster(broker: Broker) -> None:
    broker.network.call_later(1, setattr, broker.quorum, "is_in_other_cluster", True)
    with pytest.raises(KafkaError) as refused:
        broker.run(broker.channel.call(HEARTBEAT, 60))
    assert refused.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert broker.network.time() < 2


def test_send_returns_none_on_timeout(broker: Broker) -> None:
    assert broker.run(broker.channel.send(HEARTBEAT)) is None
    broker.quorum.elect(2)
    assert broker.run(broker.channel.send(HEARTBEAT)).is_caught_up


def test_unsupported_request_is_logged(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.network.node.versions.pop(ApiKey.BROKER_HEARTBEAT)
    broker.quorum.elect(2)
    assert broker.run(broker.channel.send(HEARTBEAT)) is None
    assert "Request to the controller failed" in caplog.text


def test_envelope_carries_unmodified_request_with_principal_and_client_address(broker: Broker) -> None:
    broker.network.node.reply = lambda *_: EnvelopeResponse(response_data=b"the whole answer")
    broker.quorum.elect(2)
    frame = read_parts(broker.run(broker.forward()))
    assert frame == len(b"the whole answer").to_bytes(4, "big") + b"the whole answer"
    [envelope] = broker.requested
    header, body_at = decode_request_header(envelope.request_data)
    assert header == (ApiKey.CREATE_TOPICS, 7, 99, "an app")
    assert CreateTopicsRequest.decode(envelope.request_data, 7, body_at) == CREATE
    assert decode_principal(envelope.request_principal).name == "User:alice"
    assert envelope.client_host_address == bytes([10, 1, 2, 3])


def test_envelope_says_that_the_client_authenticated_by_a_delegation_token(broker: Broker) -> None:
    connection = Connection(1, "SASL", "10.1.2.3")
    connection.authenticated("User:alice", by_token=True)
    context = context_of(RequestHeader(ApiKey.CREATE_TOPICS, 7, 99, None), connection)
    broker.network.node.reply = lambda *_: EnvelopeResponse(response_data=b"answer")
    broker.quorum.elect(2)
    broker.run(broker.channel.forward(context, CREATE, broker.handle_locally, 5))
    [envelope] = broker.requested
    assert decode_principal(envelope.request_principal) == ("User:alice", True)


def test_active_controller_handles_client_request_without_envelope(broker: Broker) -> None:
    broker.quorum.elect(1, leads=True)
    assert broker.run(broker.forward()) == HERE


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_envelope_is_resent_to_next_leader_on_not_controller(broker: Broker, code: ErrorCode) -> None:
    answers = [EnvelopeResponse(error_code=code), EnvelopeResponse(response_data=b"x")]
    broker.network.node.reply = lambda *_: answers.pop(0)
    broker.quorum.elect(2)
    assert read_parts(broker.run(broker.forward()))[4:] == b"x"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST), ErrorCode.INVALID_REQUEST),
        (EnvelopeResponse(response_data=None), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_envelope_error_is_returned_to_client(broker: Broker, answer: EnvelopeResponse, code: ErrorCode) -> None:
    broker.network.node.reply = lambda *_: answer
    broker.quorum.elect(2)
    with pytest.raises(KafkaError) as error:
        broker.run(broker.forward(request=DeleteTopicsRequest(timeout_ms=1), key=ApiKey.DELETE_TOPICS, version=6))
    assert error.value.code is code


def test_request_does_not_wait_behind_another(broker: Broker) -> None:
    broker.quorum.elect(2)
    broker.network.node.reply = lambda header, _: (
        BrokerHeartbeatResponse(is_caught_up=True) if header.api_key is ApiKey.BROKER_HEARTBEAT else []
    )
    forwarding = broker.start(broker.forward())
    broker.let_pass(0.1)
    assert broker.run(broker.channel.call(HEARTBEAT, 5)).is_caught_up
    assert not forwarding.done()
    assert broker.connected == [2, 2]
    forwarding.cancel()
    broker.let_pass(0.1)


def test_forwarded_requests_share_limited_connections(broker: Broker) -> None:
    broker.quorum.elect(2)
    several = broker.crowd()
    assert len(broker.requested) == len(broker.connected) == MAX_FORWARDED
    broker.network.node.reply = lambda *_: EnvelopeResponse(response_data=b"x")
    broker.let_pass(3)
    assert all(read_parts(answered.result())[4:] == b"x" for answered in several)


def test_requests_on_behalf_of_clients_share_limited_connections(broker: Broker) -> None:
    node: Any = SimpleNamespace(controller_channel=broker.channel, settings={"request.timeout.ms": 1000})
    broker.quorum.elect(2)
    broker.network.node.reply = lambda *_: []
    several = [broker.start(create_by_controller(node, CREATE)) for _ in range(3 * MAX_FORWARDED)]
    broker.let_pass(2)
    assert [instance(KafkaError, requested.exception()).code for requested in several] == [
        ErrorCode.REQUEST_TIMED_OUT
    ] * len(several)
    assert len(broker.connected) == MAX_FORWARDED


def test_a_request_for_a_client_is_forwarded_with_its_principal_and_answered_as_a_message(broker: Broker) -> None:
    response = IncrementalAlterConfigsResponse(responses=[])
    context = RequestContext(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, 99, None, 1, "PLAINTEXT", "10.1.2.3", "User:alice")
    header = response_prefix(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, 99)
    broker.network.node.reply = lambda *_: EnvelopeResponse(response_data=header + response.encode(1))
    broker.quorum.elect(2)
    part = IncrementalAlterConfigsRequest(resources=[], validate_only=True)
    assert broker.run(broker.channel.call_for(context, part, broker.handle_locally, 5)) == response
    [envelope] = broker.requested
    assert decode_principal(envelope.request_principal).name == "User:alice"
    broker.quorum.elect(1, leads=True)
    assert broker.run(broker.channel.call_for(context, part, broker.handle_locally, 5)) == HERE


@pytest.mark.parametrize("code", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE])
def test_a_client_is_not_told_that_its_broker_is_not_authorized(
    broker: Broker, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    broker.quorum.elect(2)
    broker.network.node.reply = lambda *_: EnvelopeResponse(error_code=code)
    with pytest.raises(KafkaError) as raised:
        broker.run(broker.forward())
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    told = "The controller does not authorize this broker to forward requests (CLUSTER_ACTION)"
    assert (told in caplog.messages) == (code is not ErrorCode.NONE)


def test_active_controller_does_not_limit_concurrent_client_requests(broker: Broker) -> None:
    broker.quorum.elect(1, leads=True)
    broker.answering = asyncio.Event()
    several = broker.crowd()
    broker.answering = None
    assert broker.run(broker.forward(1)) == HERE
    assert not any(requested.done() for requested in several)
    for requested in several:
        requested.cancel()


def test_queued_requests_go_to_new_leader(broker: Broker) -> None:
    broker.quorum.elect(2)
    several = broker.crowd()
    broker.network.node.reply = lambda *_: EnvelopeResponse(response_data=b"x")
    broker.quorum.elect(3)
    broker.let_pass(1)
    assert all(read_parts(answered.result())[4:] == b"x" for answered in several)
    assert set(broker.connected[MAX_FORWARDED:]) == {3}


@pytest.mark.parametrize(("leader_id", "leads", "answer"), [(1, True, HERE), (-1, False, None)])
def test_queued_requests_are_not_sent_if_no_other_node_leads(
    broker: Broker, leader_id: int, leads: bool, answer: str | None
) -> None:
    broker.quorum.elect(2)
    several = broker.crowd()
    broker.quorum.elect(leader_id, leads=leads)
    broker.let_pass(10)
    assert [requested.result() if requested.done() else None for requested in several] == [answer] * len(several)
    assert len(broker.connected) == MAX_FORWARDED


def test_closing_fails_queued_requests(broker: Broker) -> None:
    broker.quorum.elect(2)
    several = broker.crowd()
    broker.channel.close()
    broker.let_pass(0.1)
    assert [instance(KafkaError, requested.exception()).code for requested in several] == [
        ErrorCode.REQUEST_TIMED_OUT
    ] * len(several)
    assert len(broker.connected) == MAX_FORWARDED


def test_timed_out_request_closes_its_connection(broker: Broker) -> None:
    broker.quorum.elect(2)
    broker.network.silent = True
    with pytest.raises(KafkaError):
        broker.run(broker.channel.call(HEARTBEAT, 1))
    broker.network.silent = False
    assert broker.run(broker.channel.call(HEARTBEAT, 1)).is_caught_up
    assert [line.aborted for line in broker.network.lines] == [True, False]


def test_closing_leaves_no_connection(broker: Broker) -> None:
    broker.quorum.elect(2)
    broker.run(broker.channel.call(HEARTBEAT, 5))
    broker.channel.close()
    assert broker.network.lines[0].aborted


def test_closed_channel_sends_no_request(broker: Broker) -> None:
    querying = broker.start(broker.channel.call(HEARTBEAT, 30))
    broker.let_pass(1)
    broker.channel.close()
    broker.quorum.elect(2)
    with pytest.raises(KafkaError) as error:
        broker.run(querying)
    assert error.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert broker.network.time() < 2
    assert broker.connected == []


def test_closing_ends_the_wait_for_a_leader_at_once(broker: Broker) -> None:
    querying = broker.channel.send(HEARTBEAT)
    broker.let_pass(0.01)
    began = broker.network.time()
    broker.channel.close()
    assert broker.run(querying) is None
    assert broker.network.time() == began
