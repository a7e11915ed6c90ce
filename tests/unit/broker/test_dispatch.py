"""The dispatcher, with scripted handlers in place of the real ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Never

import pytest

from broker.dispatch import Dispatcher
from broker.monitoring.counters import Metrics
from broker.monitoring.request_errors import RequestErrors, with_errors
from broker.monitoring.request_times import TimedDispatcher, Times
from broker.network.connection import Connection, Disconnect, RequestContext
from broker.network.connection_protocol import DeferredResponse
from broker.routes import served_apis
from broker.runtime.deferred import Deferred
from protocol.api import APIS, ApiKey, request_class, response_class
from protocol.errors import DecodeError, ErrorCode, InvariantError, KafkaError
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import ProduceRequest
from protocol.primitives import read_parts
from tests.typed import instance, present

CONNECTION = Connection(5, "PLAINTEXT", "192.0.2.7")
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def dispatcher(event_loop: asyncio.AbstractEventLoop) -> Dispatcher:
    broker: Any = SimpleNamespace(loop=event_loop, metrics=Metrics())  # all that the dispatcher uses
    return Dispatcher(broker, "broker")


@pytest.fixture
def event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def handled_by(
    dispatcher: Dispatcher,
    handle: Callable[..., object] | None,
    key: ApiKey = ApiKey.HEARTBEAT,
    handle_frame: Callable[..., object] | None = None,
) -> Dispatcher:
    """Replace the API's handler by `handle`."""
    handlers: dict[ApiKey, Any] = dispatcher._handlers
    handlers[key] = (APIS[key].versions, request_class(key), handle, handle_frame)
    return dispatcher


def request(
    key: ApiKey,
    version: int,
    message: DescribeClusterRequest | HeartbeatRequest | ProduceRequest | None = None,
    correlation_id: int = 77,
) -> memoryview:
    header = encode_request_header(RequestHeader(key, version, correlation_id, "me"))
    return memoryview(bytearray(header + (message.encode(version) if message else b"")))


def answer(parts: Any, key: ApiKey, version: int) -> Any:
    data = read_parts(parts)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    correlation_id, at = decode_response_header(key, version, data[4:])
    assert correlation_id == 77
    return response_class(key).decode(data, version, at + 4)


def test_handler_receives_request_and_its_context(dispatcher: Dispatcher) -> None:
    seen = []

    def handle(broker: Any, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        seen.append((broker, context, request))
        return HeartbeatResponse(error_code=27)

    parts = handled_by(dispatcher, handle)(request(ApiKey.HEARTBEAT, 4, HEARTBEAT), CONNECTION)
    assert answer(parts, ApiKey.HEARTBEAT, 4).error_code == 27
    ((broker, context, got),) = seen
    assert broker is dispatcher._node
    assert got == HEARTBEAT
    assert (context.api_key, context.api_version, context.correlation_id) == (ApiKey.HEARTBEAT, 4, 77)
    assert (context.client_id, context.client_host, context.listener) == ("me", "192.0.2.7", "PLAINTEXT")
    assert (context.connection_id, context.principal) == (5, "User:ANONYMOUS")


def test_bytes_of_frame_handler_are_sent_unmodified(dispatcher: Dispatcher) -> None:
    seen = []

    def handle_frame(*arguments: Any) -> bytes:
        seen.append(arguments)
        return b"answer"

    frame = request(ApiKey.HEARTBEAT, 4, HEARTBEAT)
    assert handled_by(dispatcher, None, handle_frame=handle_frame)(frame, CONNECTION) == [b"answer"]
    ((broker, header, connection, got, body_at),) = seen
    assert (broker, connection, got) == (dispatcher._node, CONNECTION, frame)
    assert header == RequestHeader(ApiKey.HEARTBEAT, 4, 77, "me")
    assert HeartbeatRequest.decode(got, 4, body_at) == HEARTBEAT


def test_frame_declined_by_frame_handler_is_decoded(dispatcher: Dispatcher) -> None:
    handled_by(dispatcher, lambda *_: HeartbeatResponse(error_code=27), handle_frame=lambda *_: None)
    parts = dispatcher(request(ApiKey.HEARTBEAT, 4, HEARTBEAT), CONNECTION)
    assert answer(parts, ApiKey.HEARTBEAT, 4).error_code == 27


def test_frame_handler_may_return_response_object(dispatcher: Dispatcher) -> None:
    handled_by(dispatcher, None, handle_frame=lambda *_: HeartbeatResponse(error_code=27))
    parts = dispatcher(request(ApiKey.HEARTBEAT, 4, HEARTBEAT), CONNECTION)
    assert answer(parts, ApiKey.HEARTBEAT, 4).error_code == 27


def test_exception_in_frame_handler_is_answered(dispatcher: Dispatcher) -> None:
    def handle_frame(*_: object) -> Never:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    handled_by(dispatcher, None, handle_frame=handle_frame)
    parts = dispatcher(request(ApiKey.HEARTBEAT, 4, HEARTBEAT), CONNECTION)
    assert answer(parts, ApiKey.HEARTBEAT, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_awaitable_of_handler_is_answered_later(dispatcher: Dispatcher, event_loop: asyncio.AbstractEventLoop) -> None:
    gate = event_loop.create_future()

    async def later() -> HeartbeatResponse:
        return HeartbeatResponse(error_code=await gate)

    waiting = handled_by(dispatcher, lambda *_: later())(request(ApiKey.HEARTBEAT, 4, HEARTBEAT), CONNECTION)
    assert isinstance(waiting, DeferredResponse)
    assert waiting.api_key == ApiKey.HEARTBEAT
    gate.set_result(25)
    parts = event_loop.run_until_complete(waiting.response)
    assert answer(parts, ApiKey.HEARTBEAT, 4).error_code == 25


def test_handler_without_response_sends_nothing(dispatcher: Dispatcher) -> None:
    handle = handled_by(dispatcher, lambda *_: None)
    assert handle(request(ApiKey.HEARTBEAT, 4, HEARTBEAT), CONNECTION) is None


@pytest.mark.parametrize("waits", [False, True])
def test_a_kafka_error_is_answered_with_its_code_and_not_logged(
    dispatcher: Dispatcher, event_loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture, waits: bool
) -> None:
    def handle(*_: RequestContext | HeartbeatRequest | SimpleNamespace) -> Never:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    async def later() -> None:
        handle()

    handled_by(dispatcher, (lambda *_: later()) if waits else handle)
    with caplog.at_level(logging.INFO):
        parts = dispatcher(request(ApiKey.HEARTBEAT, 3, HEARTBEAT), CONNECTION)
        parts = event_loop.run_until_complete(instance(DeferredResponse, parts).response) if waits else parts
    assert answer(parts, ApiKey.HEARTBEAT, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert not caplog.records


@pytest.mark.parametrize("waits", [False, True])
def test_an_unexpected_exception_is_answered_and_logged_with_its_traceback(
    dispatcher: Dispatcher, event_loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture, waits: bool
) -> None:
    def handle(*_: RequestContext | HeartbeatRequest | SimpleNamespace) -> Never:
        raise ZeroDivisionError("oops")

    async def later() -> None:
        handle()

    handled_by(dispatcher, (lambda *_: later()) if waits else handle)
    parts = dispatcher(request(ApiKey.HEARTBEAT, 3, HEARTBEAT), CONNECTION)
    parts = event_loop.run_until_complete(instance(DeferredResponse, parts).response) if waits else parts
    assert answer(parts, ApiKey.HEARTBEAT, 3).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (record,) = caplog.records
    assert present(record.exc_info)[0] is ZeroDivisionError
    assert record.getMessage() == "Heartbeat v3 of me failed"
    assert dispatcher._metrics.handler_failures == 1


def test_a_response_that_cannot_be_encoded_is_an_unexpected_exception(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    handled_by(dispatcher, lambda *_: HeartbeatResponse(error_code="nonsense"))  # type: ignore[arg-type]  # wrong on purpose
    parts = dispatcher(request(ApiKey.HEARTBEAT, 3, HEARTBEAT), CONNECTION)
    assert answer(parts, ApiKey.HEARTBEAT, 3).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert caplog.records


@pytest.mark.parametrize("waits", [False, True])
def test_a_response_that_its_version_cannot_carry_is_an_unexpected_exception(
    dispatcher: Dispatcher, event_loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture, waits: bool
) -> None:
    response = DescribeClusterResponse(endpoint_type=2, cluster_id="c", brokers=[])  # Version 0 has no type field.

    async def later() -> DescribeClusterResponse:
        return response

    handled_by(dispatcher, (lambda *_: later()) if waits else (lambda *_: response), ApiKey.DESCRIBE_CLUSTER)
    message = DescribeClusterRequest(include_cluster_authorized_operations=False)
    parts = dispatcher(request(ApiKey.DESCRIBE_CLUSTER, 0, message), CONNECTION)
    parts = event_loop.run_until_complete(instance(DeferredResponse, parts).response) if waits else parts
    assert answer(parts, ApiKey.DESCRIBE_CLUSTER, 0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert caplog.records[0].exc_info
    assert dispatcher._metrics.handler_failures == 1


def test_a_failed_request_that_has_no_response_closes_the_connection(dispatcher: Dispatcher) -> None:
    def handle(*_: RequestContext | ProduceRequest | SimpleNamespace) -> Never:
        raise ZeroDivisionError("oops")

    handled_by(dispatcher, handle, ApiKey.PRODUCE)
    produce = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    with pytest.raises(Disconnect):
        dispatcher(request(ApiKey.PRODUCE, 9, produce), CONNECTION)


def test_a_broken_invariant_reaches_the_loops_exception_handler(
    dispatcher: Dispatcher, event_loop: asyncio.AbstractEventLoop
) -> None:
    def handle(*_: RequestContext | HeartbeatRequest | SimpleNamespace) -> Never:
        raise InvariantError("the log would be corrupted")

    reported = []
    event_loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    with pytest.raises(Disconnect):
        handled_by(dispatcher, handle)(request(ApiKey.HEARTBEAT, 3, HEARTBEAT), CONNECTION)
    assert [type(error) for error in reported] == [InvariantError]


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (b"", "header ends early"),
        (b"\x7f\xff\0\0\0\0\0\0\xff\xff", "unknown API key 32767"),
        (request(ApiKey.PRODUCE, 2), "Produce has no version 2"),
        (request(ApiKey.PRODUCE, 14), "Produce has no version 14"),
        (request(ApiKey.VOTE, 0), "the API Vote is not served on this listener"),
        (request(ApiKey.DESCRIBE_CLUSTER, 2), "DescribeClusterRequest v2 ends early"),
        (request(ApiKey.DESCRIBE_CLUSTER, 0).tobytes() + b"\1\0x", "ends at byte"),
    ],
)
def test_invalid_request_closes_connection(dispatcher: Dispatcher, frame: memoryview | bytes, problem: str) -> None:
    with pytest.raises((Disconnect, DecodeError), match=problem):
        dispatcher(memoryview(frame), CONNECTION)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(dispatcher: Dispatcher) -> None:
    parts = dispatcher(request(ApiKey.API_VERSIONS, 99), CONNECTION)
    data = read_parts(parts)  # type: ignore[arg-type]  # always this type here
    response = ApiVersionsResponse.decode(data, 0, 8)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [(18, 0, 4)]


def test_only_apis_with_a_handler_are_served() -> None:
    served = served_apis("broker")
    assert ApiKey.PRODUCE in served
    assert ApiKey.STREAMS_GROUP_HEARTBEAT not in served
    assert all("broker" in APIS[key].listeners for key in served)


def test_controller_serves_controller_apis() -> None:
    served = served_apis("controller")
    assert ApiKey.API_VERSIONS in served
    assert ApiKey.PRODUCE not in served


class Counted:
    """A dispatcher with request statistics, and what they counted."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.errors = RequestErrors()
        self.dispatcher = Dispatcher(dispatcher._node, "broker", with_errors)
        self._times: dict[int, Times] = {}
        self.dispatch = TimedDispatcher(self.dispatcher, self._times, self.errors, lambda: 0.0)

    def answered(self, key: ApiKey) -> int:
        return self._times[key].count


def test_the_answer_to_an_unknown_version_counts_as_an_error(dispatcher: Dispatcher) -> None:
    counted = Counted(dispatcher)
    counted.dispatch(request(ApiKey.API_VERSIONS, 99), CONNECTION)
    assert counted.errors.codes == {(ApiKey.API_VERSIONS, ErrorCode.UNSUPPORTED_VERSION): 1}
    assert (counted.answered(ApiKey.API_VERSIONS), counted.errors.failed[ApiKey.API_VERSIONS]) == (1, 1)


@pytest.mark.parametrize("waits", [False, True])
def test_unencodable_response_counts_only_sent_error(
    dispatcher: Dispatcher, event_loop: asyncio.AbstractEventLoop, waits: bool
) -> None:
    response = DescribeClusterResponse(error_code=41, endpoint_type=2, cluster_id="c", brokers=[])

    async def later() -> DescribeClusterResponse:
        return response

    counted = Counted(dispatcher)
    handled_by(counted.dispatcher, (lambda *_: later()) if waits else (lambda *_: response), ApiKey.DESCRIBE_CLUSTER)
    message = DescribeClusterRequest(include_cluster_authorized_operations=False)
    parts = counted.dispatch(request(ApiKey.DESCRIBE_CLUSTER, 0, message), CONNECTION)
    if waits:
        event_loop.run_until_complete(instance(DeferredResponse, parts).response)
    assert counted.errors.codes == {(ApiKey.DESCRIBE_CLUSTER, ErrorCode.UNKNOWN_SERVER_ERROR): 1}
    assert counted.errors.failed[ApiKey.DESCRIBE_CLUSTER] == 1


def test_an_error_counts_in_the_same_step_as_its_request(
    dispatcher: Dispatcher, event_loop: asyncio.AbstractEventLoop
) -> None:
    counted, promise = Counted(dispatcher), Deferred[Any](event_loop)
    handled_by(counted.dispatcher, lambda *_: promise)
    counted.dispatch(request(ApiKey.HEARTBEAT, 4, HEARTBEAT), CONNECTION)
    promise.answer_soon(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID))
    assert (counted.answered(ApiKey.HEARTBEAT), counted.errors.failed[ApiKey.HEARTBEAT]) == (0, 0)
    event_loop.run_until_complete(asyncio.sleep(0))
    assert (counted.answered(ApiKey.HEARTBEAT), counted.errors.failed[ApiKey.HEARTBEAT]) == (1, 1)


def test_a_request_without_an_answer_that_fails_counts_without_an_error(
    dispatcher: Dispatcher, event_loop: asyncio.AbstractEventLoop
) -> None:
    counted, promise = Counted(dispatcher), Deferred[Any](event_loop)
    handled_by(counted.dispatcher, lambda *_: promise)
    counted.dispatch(request(ApiKey.HEARTBEAT, 4, HEARTBEAT), CONNECTION)
    promise.answer(DecodeError("closes the connection"))
    assert (counted.answered(ApiKey.HEARTBEAT), counted.errors.failed[ApiKey.HEARTBEAT]) == (1, 0)


def test_an_error_inside_an_envelope_does_not_count_without_its_request(
    dispatcher: Dispatcher, event_loop: asyncio.AbstractEventLoop
) -> None:
    def handle(*_: object) -> Never:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    counted = Counted(dispatcher)
    handled_by(counted.dispatcher, handle)
    inside = counted.dispatcher.embedded(request(ApiKey.HEARTBEAT, 4, HEARTBEAT), CONNECTION)
    parts = event_loop.run_until_complete(inside)
    assert answer(parts, ApiKey.HEARTBEAT, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert counted.errors.codes == counted.errors.failed == {}
