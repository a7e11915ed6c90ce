"""A dispatcher that throttles clients above their quotas, in front of that of a listener (KIP-13, KIP-124, KIP-219).

    producer_byte_rate    bytes of Produce requests
    consumer_byte_rate    bytes of Fetch responses
    request_percentage    time of the event loop until a request is handled or waits, as a percentage of it

The active controller counts the mutations of a `controller_mutation_rate` (`controller_mutations`); the throttle time
in its response is applied here.

A response is not delayed: it has the throttle time, and the connection is muted for as long, so that a client that
ignores the field is throttled as well. Followers are exempt, and so is what brokers send each other, unless there is an
authorizer and the client may not act as a broker (CLUSTER_ACTION). The response of a Fetch above the quota has its
records, where Kafka sends an empty one: the client gets the same bytes per second.

A listener has it only while there are quotas (`broker.node`), behind SASL: requests before the authentication do not
count.
Elsewhere: usage and limits (`quota_manager`), muting (`broker.network.connection_protocol`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from broker.dispatch import encode_response
from broker.network.connection_protocol import DeferredResponse
from broker.quotas.client_quotas import FETCH, PRODUCE, REQUEST
from broker.quotas.controller_mutations import STRICT_FROM
from broker.routes import ROUTES
from broker.runtime.deferred import Deferred
from controller.acls.acl import AclOperation
from protocol.api import APIS, ApiKey, request_class, response_class
from protocol.fields import fields_of
from protocol.headers import RequestHeader, decode_request_header, response_prefix
from protocol.primitives import Part, part_size, read_parts

if TYPE_CHECKING:
    import asyncio

    from broker.authorization.request_authorizer import MetadataHolder, RequestAuthorizer
    from broker.network.connection import Connection
    from broker.network.connection_protocol import Dispatch, Response
    from broker.quotas.quota_manager import QuotaManager

_FIELD = "throttle_time_ms"
_INT32 = Struct(">i")
_SIZE_BYTES = 4
_REPLICA_STATE_FROM_VERSION = 15


class ThrottlingDispatcher:
    """Throttles the clients of one listener."""

    def __init__(
        self,
        dispatch: Dispatch,
        quotas: QuotaManager,
        metadata: MetadataHolder,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        authorizer: RequestAuthorizer | None = None,
    ) -> None:
        """`quotas` is shared by all listeners; `clock` is in seconds, finer than the loop's."""
        self._authorizer = authorizer
        self._dispatch = dispatch
        self._quotas = quotas
        self._metadata = metadata
        self._loop = loop
        self._clock = clock

    def __call__(self, frame: memoryview, connection: Connection) -> list[Part] | DeferredResponse | None:
        """Handle one request; raises as the dispatcher."""
        quotas = self._metadata.image.client_quotas
        if not quotas:
            return self._dispatch(frame, connection)
        self._quotas.apply(quotas)
        begun, received_bytes = self._clock(), len(frame)
        header, body_at = decode_request_header(frame)
        is_exempt = _is_of_a_broker(header, frame, body_at) and self._may_be_a_broker(connection)
        outcome = self._dispatch(frame, connection)
        if is_exempt:
            return outcome
        percentage_s = 100 * (self._clock() - begun)
        finish = partial(self._throttle, header, connection, received_bytes, percentage_s)
        if not isinstance(outcome, DeferredResponse):
            return finish(outcome)
        return DeferredResponse(outcome.api_key, _then(outcome.response, finish, self._loop))

    def _may_be_a_broker(self, connection: Connection) -> bool:
        authorizer = self._authorizer
        return authorizer is None or authorizer.may_on_cluster(connection, AclOperation.CLUSTER_ACTION)

    def _throttle(
        self,
        header: RequestHeader,
        connection: Connection,
        received_bytes: int,
        percentage_s: float,
        parts: list[Part] | None,
    ) -> list[Part] | None:
        """Record what a request used; mute its connection if that is above a quota, and return the response."""
        now_s = self._loop.time()
        user, client_id = connection.principal.partition(":")[2], header.client_id or ""
        record = partial(self._quotas.record, user=user, client_id=client_id, now_ms=1000 * now_s)
        throttle_ms = record(REQUEST, value=percentage_s)
        if header.api_key is ApiKey.PRODUCE:
            throttle_ms = max(throttle_ms, record(PRODUCE, value=received_bytes))
        elif header.api_key is ApiKey.FETCH:
            throttle_ms = max(throttle_ms, record(FETCH, value=sum(map(part_size, parts or ()))))
        elif header.api_key in STRICT_FROM and parts:
            throttle_ms = max(throttle_ms, _throttle_time_of(header, parts))
        if throttle_ms <= 0:
            return parts
        connection.mute(now_s + throttle_ms / 1000)
        return parts and with_throttle_time(header, parts, throttle_ms)


def _is_of_a_broker(header: RequestHeader, frame: memoryview, body_at: int) -> bool:
    """Return whether a request is of the kind that brokers send each other; the dispatcher reports a damaged one."""
    key, version, _, _ = header
    if key is not ApiKey.FETCH:
        route = ROUTES.get(key)
        requirements = () if route is None else route.requires
        return bool(requirements) and all(one.operation is AclOperation.CLUSTER_ACTION for one in requirements)
    if version < _REPLICA_STATE_FROM_VERSION:
        return len(frame) >= body_at + _INT32.size and _INT32.unpack_from(frame, body_at)[0] >= 0
    try:
        request: Any = request_class(key).decode(frame, version, body_at)
    except ValueError:
        return False
    return bool(request.replica_state.replica_id >= 0)


def _then(
    response: Response, finish: Callable[[list[Part] | None], list[Part] | None], loop: asyncio.AbstractEventLoop
) -> Deferred[list[Part] | None]:
    """Return the response that `finish` makes of one that comes later; an exception stays as it is.

    Cancelling it cancels a Fetch that waits.
    """

    def continuation(result: list[Part] | BaseException | None) -> list[Part] | None:
        if isinstance(result, BaseException):
            raise result
        return finish(result)

    if isinstance(response, Deferred):
        return response.then(continuation)
    later: Deferred[list[Part] | None] = Deferred(loop)

    def complete(done: Any) -> None:
        if done.cancelled():
            later.cancel()
        else:
            later.answer(done.exception() or done.result())

    response.add_done_callback(complete)
    return later.then(continuation)


def _throttle_time_of(header: RequestHeader, parts: list[Part]) -> int:
    """Return the throttle time in the response of an API that has it as its first field."""
    key, version, correlation_id, _ = header
    body_at = _SIZE_BYTES + len(response_prefix(key, version, correlation_id))
    throttle_ms: int = _INT32.unpack_from(cast("bytes", parts[0]), body_at)[0]
    return throttle_ms


def with_throttle_time(header: RequestHeader, parts: list[Part], throttle_ms: int) -> list[Part]:
    """Return a response's frame with a throttle time; as it is if this version has none."""
    key, version, correlation_id, _ = header
    names = [field.name for field in fields_of(response_class(key)) if field.is_plain_at(version)]
    if _FIELD not in names or version not in APIS[key].versions:  # the answer to an unknown version is in version 0
        return parts
    body_at = _SIZE_BYTES + len(response_prefix(key, version, correlation_id))
    if names[0] == _FIELD:  # the rest stays as it is, slices of files included
        head = bytearray(cast("bytes", parts[0]))
        _INT32.pack_into(head, body_at, throttle_ms)
        return [head, *parts[1:]]
    response: Any = response_class(key).decode(memoryview(bytearray(read_parts(parts))), version, body_at)
    response.throttle_time_ms = throttle_ms
    return encode_response(header, response)
