"""The dispatcher: from a request's frame to its handler, and from the response to bytes (Kafka: `KafkaApis`).

An API is served if `broker.routes` has a row for it, on the listeners and in the versions of `protocol.api`.
Handlers and messages are imported with the first request that needs them, to keep the start short.

A handler returns a message, the parts of the frame, an awaitable of a message, or a `Deferred` where the extra turns of
the loop that an awaitable costs matter. It is called while the frame is valid: views of the frame (`Records`) must
not be used after it returns. The module of a route with a fast path also has `handle_frame`, which serves the most
common form of a request from bytes to bytes. For any other form it returns None, without any effect, and `handle` is
called.

Errors:

    no request, or an API or version not served    the connection closes with one log line, as in Kafka
    ApiVersions in an unknown version              answered in version 0 (KIP-511)
    KafkaError from a handler                      its code, in that API's response
    any other exception                            UNKNOWN_SERVER_ERROR likewise, and a traceback in the log
    InvariantError                                 passed to the loop's exception handler, which stops the broker
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from broker.error_responses import error_response, unsupported_api_versions
from broker.metadata.controller_channel import NOT_LEADER_ERRORS
from broker.network.connection import Connection, Disconnect, RequestContext, context_of
from broker.network.connection_protocol import DeferredResponse
from broker.routes import CONTROLLER, ROUTES, Handlers, served_apis
from broker.runtime.deferred import Deferred
from protocol.api import APIS, ApiKey, request_class
from protocol.errors import DecodeError, ErrorCode, InvariantError, KafkaError
from protocol.headers import RequestHeader, decode_request_header, response_prefix
from protocol.primitives import Part, part_size
from protocol.schema import Message

if TYPE_CHECKING:
    from broker.authorization.request_authorizer import RequestAuthorizer
    from broker.monitoring.counters import Metrics
    from broker.routes import Route

HandlerResponse: TypeAlias = "Message | list[Part] | None"
Handler: TypeAlias = Callable[[Any, RequestContext, Any], "HandlerResponse | Deferred[Any] | Awaitable[Message | None]"]
FrameResponse: TypeAlias = "bytes | Message"
FrameHandler: TypeAlias = Callable[
    [Any, RequestHeader, Connection, memoryview, int], "FrameResponse | Deferred[Any] | None"
]
OwnPart: TypeAlias = Callable[[Any, RequestContext, Any], Awaitable[Message] | None]
WithErrors: TypeAlias = Callable[[list[Part], Message], list[Part]]
_Route: TypeAlias = tuple[range, type[Message], Handler, FrameHandler | None]

NO_CONNECTION = -1
"""The connection id of a request that did not come through a connection."""

_SIZE = Struct(">i")
_ROOM_FOR_SIZE = bytes(_SIZE.size)

_log = logging.getLogger("broker.dispatch")


class HandlerNode(Protocol):
    """What handlers get: a `BrokerServer` or a `ControllerServer`."""

    @property
    def metrics(self) -> Metrics:
        """The counters of the process."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""


class Dispatcher:
    """Handles the requests of one listener."""

    def __init__(
        self,
        node: HandlerNode,
        listener_type: str,
        with_errors: WithErrors | None = None,
        authorizer: RequestAuthorizer | None = None,
    ) -> None:
        """Serve one type of listener.

        `with_errors` adds the errors of a response to its parts, for metrics. Without `authorizer` every client may do
        everything.
        """
        self._node = node
        self._listener_type = listener_type
        self._metrics = node.metrics
        self._loop = node.loop
        self._with_errors = with_errors
        self._authorizer = authorizer
        self.apis = served_apis(listener_type)
        self._handlers: dict[ApiKey, _Route] = {}
        # The loop holds only weak references to tasks.
        self._tasks: set[asyncio.Task[list[Part] | None]] = set()

    def serve_up_to(self, key: ApiKey, version: int) -> None:
        """Serve and advertise an API up to `version`, which Kafka does not advertise by default."""
        self.apis[key] = self.apis[key]._replace(max_version=version)

    def __call__(self, frame: memoryview, connection: Connection) -> list[Part] | DeferredResponse | None:
        """Handle one request. `DecodeError` and `Disconnect` mean that the connection must be closed."""
        header, body_at = decode_request_header(frame)
        key, version, _, _ = header
        versions, requests, handle, handle_frame = self._handlers.get(key) or self._find(key)
        self._metrics.requests += 1
        if version not in versions:
            return self._reject_version(header)
        if handle_frame is not None:
            try:
                answer = handle_frame(self._node, header, connection, frame, body_at)
            except Exception as error:
                return self._failed(header, requests.decode(frame, version, body_at), error)
            if isinstance(answer, bytes):
                return [answer]
            if isinstance(answer, Deferred):
                return DeferredResponse(key, answer.then(partial(self._encode_deferred, header)))
            if answer is not None:
                return self._encode(header, answer)
        request = requests.decode(frame, version, body_at)
        try:
            outcome = handle(self._node, context_of(header, connection), request)
            if isinstance(outcome, Deferred):
                return DeferredResponse(key, outcome.then(partial(self._respond_deferred, header, request)))
            if outcome is None or isinstance(outcome, (list, Message)):
                return self._encode(header, outcome)
            return DeferredResponse(key, self._start(self._respond_later(header, request, outcome)))
        except Exception as error:
            return self._failed(header, request, error)

    def _find(self, key: ApiKey) -> _Route:
        api = self.apis.get(key)
        if api is None:
            raise Disconnect(f"the API {APIS[key].name} is not served on this listener")
        route = ROUTES[key]
        handle, handle_frame, own_part = self._guarded(route, route.load(self._listener_type))
        if route.forwarded and self._listener_type != CONTROLLER:
            handle = partial(decide_or_forward, handle, own_part)
        found = self._handlers[key] = (api.versions, request_class(key), handle, handle_frame)
        return found

    def _guarded(self, route: Route, handlers: Handlers) -> Handlers:
        """Return the functions with those that authorize their requests, if there is an authorizer."""
        if self._authorizer is None:
            return handlers
        from broker.authorization.guards import guard_function, guarded

        handle, handle_frame, own_part = handlers
        is_other = self._listener_type == CONTROLLER and bool(route.on_controller)
        guard = "" if is_other else route.guard
        handle = guarded(self._authorizer, route.requirements(self._listener_type), guard, handle)
        if handle_frame is not None:
            may_write = guard_function(f"{route.guard}:FastPathCheck")(self._authorizer)
            handle_frame = partial(handle_frame, may_write=may_write)
        return Handlers(handle, handle_frame, own_part)

    async def handle_authorized(self, context: RequestContext, request: Message) -> Message:
        """Return the response to a request of a client that another dispatcher of this process received."""
        _, _, handle, _ = self._handlers.get(ApiKey(context.api_key)) or self._find(ApiKey(context.api_key))
        return cast("Message", await _handled(handle, self._node, context, request))

    async def embedded(self, frame: memoryview, connection: Connection) -> list[Part]:
        """Return the response frame of a request in an Envelope. KafkaErrors in `NOT_LEADER_ERRORS` are raised."""
        header, body_at = decode_request_header(frame)
        versions, requests, handle, _ = self._handlers.get(header.api_key) or self._find(header.api_key)
        if header.api_version not in versions:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{header.api_key.name} does not support this version")
        request = requests.decode(frame, header.api_version, body_at)
        try:
            answer = await _handled(handle, self._node, context_of(header, connection), request)
            return _encode_answer(header, answer) or []
        except Exception as error:
            if isinstance(error, KafkaError) and error.code in NOT_LEADER_ERRORS:
                raise
            return self._failed(header, request, error)

    def _start(self, later: Coroutine[Any, Any, list[Part] | None]) -> asyncio.Task[list[Part] | None]:
        task = self._loop.create_task(later)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _respond_later(
        self, header: RequestHeader, request: Message, outcome: Awaitable[Message | None]
    ) -> list[Part] | None:
        try:
            return self._encode(header, await outcome)
        except Exception as error:
            return self._failed(header, request, error)

    def _respond_deferred(
        self, header: RequestHeader, request: Message, outcome: HandlerResponse | BaseException
    ) -> list[Part] | None:
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            return self._encode(header, outcome)
        except Exception as error:
            return self._failed(header, request, error)

    def _reject_version(self, header: RequestHeader) -> list[Part]:
        api = APIS[header.api_key]
        if header.api_key is not ApiKey.API_VERSIONS:
            raise Disconnect(f"{api.name} has no version {header.api_version}")
        answer = unsupported_api_versions()
        parts = encode_response(header._replace(api_version=0), answer)
        return parts if self._with_errors is None else self._with_errors(parts, answer)

    def _encode(self, header: RequestHeader, response: HandlerResponse) -> list[Part] | None:
        parts = _encode_answer(header, response)
        if self._with_errors is not None and parts is not None and isinstance(response, Message):
            return self._with_errors(parts, response)
        return parts

    def _encode_deferred(self, header: RequestHeader, answer: FrameResponse | BaseException) -> list[Part] | None:
        """Return the response of a `handle_frame` that completed later.

        Its frame is gone by then, so an error can only close the connection.
        """
        if isinstance(answer, bytes):
            return [answer]
        if isinstance(answer, BaseException):
            raise Disconnect(f"{APIS[header.api_key].name} failed") from answer
        return self._encode(header, answer)

    def _failed(self, header: RequestHeader, request: Message, error: Exception) -> list[Part]:
        """Return the response to a request that failed with `error`, or raise to close the connection."""
        name = APIS[header.api_key].name
        if isinstance(error, (Disconnect, DecodeError)):
            raise error
        if isinstance(error, InvariantError):
            self._loop.call_exception_handler({"message": f"{name} broke an invariant", "exception": error})
            raise Disconnect("the broker is stopping") from error
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, ""
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
        else:
            self._metrics.handler_failures += 1
            _log.error("%s v%d of %s failed", name, header.api_version, header.client_id, exc_info=error)
        if getattr(request, "acks", None) == 0:
            raise Disconnect(f"a {name} with acks=0 failed with {code.name}")
        try:
            answer = error_response(header.api_key, header.api_version, request, code, message)
            parts = encode_response(header, answer)
        except (LookupError, KafkaError) as impossible:
            raise Disconnect(f"{name} failed with {code.name}") from impossible
        return parts if self._with_errors is None else self._with_errors(parts, answer)


async def handle_locally(controller: Any, request: Message) -> Message:
    """Return the response of a `ControllerServer` to this node's own request. KafkaError NOT_CONTROLLER is raised."""
    key = ApiKey(cast("int", request.API_KEY))
    api = APIS[key]
    handle: Handler = ROUTES[key].load(CONTROLLER).handle
    context = RequestContext(key, api.max_version, 0, None, NO_CONNECTION, "", "localhost")
    try:
        return cast("Message", await _handled(handle, controller, context, request))
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        return error_response(key, api.max_version, request, error.code, error.message)


async def decide_or_forward(
    handle: Handler, own_part: OwnPart | None, broker: Any, context: RequestContext, request: Message
) -> Any:
    """Return the response to a request that a `BrokerServer` does not decide.

    The controller of this node handles it while it is the active one; else it is forwarded. `own_part` may take it
    before.
    """
    answer = None if own_part is None else own_part(broker, context, request)
    if answer is not None:
        return await answer

    here = partial(_handled, handle, broker.controller, context, request)
    timeout_s = broker.settings["request.timeout.ms"] / 1000
    return await broker.controller_channel.forward(context, request, here, timeout_s)


async def _handled(handle: Handler, node: Any, context: RequestContext, request: Message) -> Any:
    """Return a handler's response, awaited if necessary."""
    outcome = handle(node, context, request)
    return await outcome if isinstance(outcome, Awaitable) else outcome


def _encode_answer(header: RequestHeader, response: HandlerResponse) -> list[Part] | None:
    """Return a handler's response as parts. RuntimeError if it cannot be encoded: a bug, not the client's error."""
    if response is None or isinstance(response, list):
        return response
    try:
        return encode_response(header, response)
    except KafkaError as error:
        raise RuntimeError(f"the handler's response cannot be encoded: {error}") from error


def encode_response(header: RequestHeader, response: Message) -> list[Part]:
    """Return the response's frame as parts."""
    key, version, correlation_id, _ = header
    parts = response.encode_parts(version, _ROOM_FOR_SIZE + response_prefix(key, version, correlation_id))
    # The first part is always the encoder's own buffer, or a view of it.
    head = cast("bytearray", parts[0])
    size = -_SIZE.size
    for part in parts:
        size += len(part) if isinstance(part, (bytearray, memoryview)) else part_size(part)
    _SIZE.pack_into(head, 0, size)
    return parts
