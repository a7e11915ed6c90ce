"""The fault injector: a dispatcher that lets the rules of faults act on requests, in front of a listener's dispatcher.

It exists only while the control API is on. Without rules, a request costs it one look at their number. It sees requests
before any of their fast paths, and responses after them.

    error         `before`: the handler gets the request without the partitions that the rule names, or not at all, and
                  the response has their errors; `after`: the handler gets all of it
    delay, hold   `before`: a copy of the request waits, and the connection with it, so that its order stays; `after`:
                  the response waits
    disconnect    `before`: the request is not handled; `after`: its response is dropped, a lost acknowledgement
    throttle      the response has a throttle time, and the connection's next requests wait for as long: Kafka mutes it
    corrupt       the response is damaged; one that is cut short closes the connection

A request that cannot be decoded is left to the dispatcher, which closes the connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.control.faults.error_faults import error_of, merge, read_response
from broker.control.faults.fetch_faults import add_errors, requested_partitions, resend
from broker.control.faults.outcomes import (
    Dispatched,
    FaultOutcome,
    Response,
    changed,
    dispatched_after,
    sent_after,
)
from broker.control.faults.request_content import content_of, selected
from broker.control.faults.response_frames import corrupted, throttled
from broker.control.faults.rule import (
    CorruptFault,
    DelayFault,
    DisconnectFault,
    ErrorFault,
    FaultHit,
    HoldFault,
    RequestContent,
    RequestFacts,
    ThrottleFault,
)
from broker.control.peers import sending_node
from broker.dispatch import encode_response
from broker.network.connection import Connection, Disconnect
from broker.replication.fetch_sessions import TOPIC_IDS_FROM_VERSION
from protocol.api import APIS, request_class
from protocol.errors import DecodeError
from protocol.headers import RequestHeader, decode_request_header, encode_request_header
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.metadata import MetadataRequest
from protocol.primitives import Part
from protocol.schema import Message

if TYPE_CHECKING:
    import asyncio
    from random import Random

    from broker.control.faults.held_requests import HeldRequests
    from broker.control.faults.rule import FaultRules
    from broker.dispatch import WithErrors
    from broker.replication.fetch_sessions import FetchSessions
    from broker.runtime.deferred import Deferred
    from controller.image import MetadataImage

_log = logging.getLogger("broker.control")


class FaultInjector:
    """Lets rules act on the requests of one listener."""

    def __init__(
        self,
        dispatch: Dispatched,
        rules: FaultRules,
        held: HeldRequests,
        *,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        image: Callable[[], MetadataImage],
        fetch_sessions: FetchSessions | None,
        close: Callable[[Connection], object],
        with_errors: WithErrors | None,
    ) -> None:
        """`close` closes a connection after what has been sent; `with_errors` is the dispatcher's."""
        self._dispatch = dispatch
        self._rules = rules
        self._held = held
        self._loop = loop
        self._random = random
        self._image = image
        self._fetch_sessions = fetch_sessions
        self._close = close
        self._with_errors = with_errors
        self.last_rule: int | None = None
        """The rule that acted on the last request, for the transcript, which resets it."""
        self._muted_until: dict[int, float] = {}
        """The loop time until which the requests of a connection wait, by its id."""

    def __call__(self, frame: memoryview, connection: Connection) -> FaultOutcome:
        """Handle one request; raises as the dispatcher."""
        if self._muted_until and connection.connection_id in self._muted_until:
            return self._muted(frame, connection)
        return self._handle(frame, connection)

    def _handle(self, frame: memoryview, connection: Connection) -> FaultOutcome:
        if not self._rules:
            return self._dispatch(frame, connection)
        try:
            requested = _Requested(frame, connection)
            hit = self._rules.take(self._facts(requested))
        except DecodeError:
            return self._dispatch(frame, connection)
        return self._dispatch(frame, connection) if hit is None else self._perform(hit, requested)

    def _facts(self, requested: _Requested) -> RequestFacts:
        header = requested.header
        node = sending_node(header, requested.connection, requested.frame, requested.body_at)
        return RequestFacts(
            header.api_key, header.client_id, node is not None, lambda: self._content(requested.message())
        )

    def _content(self, request: Message) -> RequestContent:
        content = content_of(request, self._topic_name)
        if isinstance(request, FetchRequest) and self._fetch_sessions is not None:
            session = self._fetch_sessions.find(request.session_id)
            return content._replace(partitions=requested_partitions(request, session, self._topic_name))
        if isinstance(request, MetadataRequest) and request.topics is None:
            return content._replace(partitions=tuple((topic.name, None) for topic in self._image().topics()))
        return content

    def _topic_name(self, topic_id: bytes) -> str | None:
        topic = self._image().topic_by_id(topic_id)
        return None if topic is None else topic.name

    # Actions.

    def _perform(self, hit: FaultHit, requested: _Requested) -> FaultOutcome:
        fault, header = hit.fault, requested.header
        self.last_rule = hit.rule_id
        _log.debug("Fault %d: %s on %s of %s", hit.rule_id, fault, APIS[header.api_key].name, header.client_id)
        if isinstance(fault, ErrorFault):
            return self._fail(hit, fault, requested)
        if isinstance(fault, DelayFault):
            gate = self._held.delay(fault.delay_ms / 1000, self._loop)
            return self._wait(requested, gate, after=fault.after)
        if isinstance(fault, HoldFault):
            gate = self._held.hold(hit.rule_id, requested.connection, self._loop)
            return self._wait(requested, gate, after=fault.after)
        if isinstance(fault, DisconnectFault) and not fault.after:
            raise _disconnect(hit, header)
        outcome = self._dispatch(requested.frame, requested.connection)
        if isinstance(fault, DisconnectFault):
            return changed(outcome, lambda _: _lose(_disconnect(hit, header)), self._loop)
        if isinstance(fault, ThrottleFault):
            return changed(outcome, partial(self._throttle, fault, requested), self._loop)
        return changed(outcome, partial(self._corrupt, fault, requested), self._loop)

    def _wait(self, requested: _Requested, gate: Deferred[None], *, after: bool) -> FaultOutcome:
        frame, connection = requested.frame, requested.connection
        if not after:
            return dispatched_after(frame, connection, self._dispatch, gate, self._loop)
        outcome = self._dispatch(frame, connection)
        return sent_after(outcome, requested.header.api_key, gate, self._loop)

    def _throttle(self, fault: ThrottleFault, requested: _Requested, parts: Response) -> Response:
        connection_id = requested.connection.connection_id
        self._muted_until[connection_id] = self._loop.time() + fault.throttle_ms / 1000
        requested.connection.on_close(self, partial(self._unmute, connection_id))
        return None if parts is None else throttled(requested.header, parts, fault.throttle_ms)

    def unmute_all(self) -> None:
        """Let no connection wait any longer because of its throttle time."""
        self._muted_until.clear()

    def _unmute(self, connection_id: int) -> None:
        self._muted_until.pop(connection_id, None)

    def _muted(self, frame: memoryview, connection: Connection) -> FaultOutcome:
        """Handle a request once its connection is no longer muted."""
        until = self._muted_until[connection.connection_id]
        if until <= self._loop.time():
            del self._muted_until[connection.connection_id]
            return self._handle(frame, connection)
        gate = self._held.delay(until - self._loop.time(), self._loop)
        return dispatched_after(frame, connection, self, gate, self._loop)

    def _corrupt(self, fault: CorruptFault, requested: _Requested, parts: Response) -> Response:
        if parts is None:
            return None
        if fault.what == "truncate":
            self._loop.call_soon(self._close, requested.connection)
        return corrupted(requested.header, parts, fault.what, self._random)

    # Errors.

    def _fail(self, hit: FaultHit, fault: ErrorFault, requested: _Requested) -> FaultOutcome:
        """Return the outcome in which what the rule names has failed."""
        header, request = requested.header, requested.message()
        if getattr(request, "acks", None) == 0:  # it has no response: an error closes the connection
            if fault.after:
                self._dispatch(requested.frame, requested.connection)
            raise _disconnect(hit, header)
        if isinstance(request, FetchRequest) and hit.partitions:
            return self._fail_fetch(hit, fault, requested, request)
        key, version, _, _ = header
        try:
            errors = error_of(key, version, request, fault.code, hit.partitions, self._topic_name)
            failed = self._encoded(header, errors)
        except LookupError as error:
            raise _disconnect(hit, header) from error
        rest = requested.frame if fault.after else self._rest(hit, requested, request)
        if rest is None:
            return failed
        outcome = self._dispatch(rest, requested.connection)
        return changed(outcome, partial(self._merged, header, errors, whole=not hit.partitions), self._loop)

    def _rest(self, hit: FaultHit, requested: _Requested, request: Message) -> memoryview | None:
        """Return the frame of a request without the partitions that failed; None if nothing is left of it."""
        if not hit.partitions:
            return None
        if isinstance(request, MetadataRequest) and request.topics is None:
            return requested.frame  # of all topics
        rest = selected(request, lambda one: one not in hit.partitions, self._topic_name)
        if not content_of(rest, self._topic_name).partitions:
            return None
        return _frame_of(requested.header, rest)

    def _merged(self, header: RequestHeader, errors: Message, parts: Response, *, whole: bool) -> Response:
        """Return the response with the errors in their places, or with `whole` in place of all of it."""
        if whole or parts is None:
            return self._encoded(header, errors)
        response = read_response(header.api_key, header.api_version, parts)
        merge(response, errors)
        return self._encoded(header, response)

    def _fail_fetch(
        self, hit: FaultHit, fault: ErrorFault, requested: _Requested, request: FetchRequest
    ) -> FaultOutcome:
        """Return the outcome of a Fetch, without waiting for records, in which some partitions have an error."""
        header = requested.header
        request.max_wait_ms = 0
        outcome = self._dispatch(_frame_of(header, request), requested.connection)

        def with_errors(parts: Response) -> Response:
            response: Any = read_response(header.api_key, header.api_version, parts or [])
            if not isinstance(response, FetchResponse) or response.error_code:
                return parts
            by_id = header.api_version >= TOPIC_IDS_FROM_VERSION
            topic_ids = {topic.name: topic.topic_id for topic in self._image().topics()} if by_id else {}
            add_errors(response, fault.code, hit.partitions, topic_ids, self._topic_name)
            session = None if self._fetch_sessions is None else self._fetch_sessions.find(response.session_id)
            if session is not None:
                resend(session, hit.partitions, self._topic_name)
            return self._encoded(header, response)

        return changed(outcome, with_errors, self._loop)

    def _encoded(self, header: RequestHeader, response: Message) -> list[Part]:
        parts = encode_response(header, response)
        return parts if self._with_errors is None else self._with_errors(parts, response)


class _Requested:
    """A request's frame, its header, and its message once it is needed."""

    def __init__(self, frame: memoryview, connection: Connection) -> None:
        """DecodeError if the header is damaged."""
        self.frame = frame
        self.connection = connection
        self.header, self.body_at = decode_request_header(frame)
        self._message: Message | None = None

    def message(self) -> Message:
        """Return the message; DecodeError if it is damaged or of an unknown version."""
        if self._message is None:
            key, version, _, _ = self.header
            if version not in APIS[key].versions:
                raise DecodeError(f"{APIS[key].name} has no version {version}")
            self._message = request_class(key).decode(self.frame, version, self.body_at)
        return self._message


def _frame_of(header: RequestHeader, request: Message) -> memoryview:
    return memoryview(bytearray(encode_request_header(header) + request.encode(header.api_version)))


def _disconnect(hit: FaultHit, header: RequestHeader) -> Disconnect:
    return Disconnect(f"fault rule {hit.rule_id} acts on {APIS[header.api_key].name}")


def _lose(reason: Disconnect) -> Response:
    raise reason
