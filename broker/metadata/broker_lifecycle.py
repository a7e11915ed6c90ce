"""The broker's lifecycle: registered, fenced, active, shutting down (KIP-631; Kafka: `BrokerLifecycleManager`).

    registering      retried every 0.1 s: there may be no active controller yet, or the previous run of this broker
                     may not be fenced yet
    fenced           alive, but serves no clients, until it has applied the metadata of its own registration
    active           may lead partitions
    shutting down    requests controlled shutdown, until its leaderships have moved (KIP-841)

A heartbeat is sent every `broker.heartbeat.interval.ms`, and at once (`send_now`) when the active controller changes,
its connection is opened or lost, metadata was applied that another node waits for, a log directory fails, or
`cordoned.log.dirs` changes.

How a request reaches the controller: `controller_channel`. The controller's side: `controller.broker_heartbeat_manager`
and `controller.commands`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from protocol.schema import Message

Call: TypeAlias = Callable[[Message, float], Awaitable[Any]]
"""Sends a request to the active controller, with a timeout in seconds, after which it raises REQUEST_TIMED_OUT."""

_FATAL = frozenset({ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REGISTRATION, ErrorCode.UNSUPPORTED_VERSION})
_RETRY_S = 0.1
_SHUTDOWN_TIMEOUT_S = 1.5
_WARN_AFTER_S = 5.0
_WARN_INTERVAL_S = 10.0
_SHUTDOWN_INTERVAL_S = 0.05

_log = logging.getLogger("broker.lifecycle")


class RegistrationError(Exception):
    """The registration failed; the message is the reason."""


class BrokerLifecycleManager:
    """The registration and the heartbeats of one run of a broker."""

    def __init__(
        self,
        broker_id: int,
        call: Call,
        loop: asyncio.AbstractEventLoop,
        *,
        controller_change: Callable[[], asyncio.Future[None]],
        applied_offset: Callable[[], int],
        offline_directories: Callable[[], Sequence[bytes]],
        cordoned_directories: Callable[[], Sequence[bytes]],
        heartbeat_interval_s: float,
        session_timeout_s: float,
    ) -> None:
        """Start unregistered.

        `controller_change` returns a future that is done when the leader of the quorum changes, `applied_offset` the
        offset of the last metadata record applied here.
        """
        self.broker_epoch = -1
        self.fenced = True
        self._broker_id = broker_id
        self._call = call
        self._loop = loop
        self._controller_change = controller_change
        self._applied_offset = applied_offset
        self._offline_directories = offline_directories
        self._cordoned_directories = cordoned_directories
        self._interval_s = heartbeat_interval_s
        self._timeout_s = session_timeout_s / 2
        self._shutting_down = False
        self._send_requested: asyncio.Future[None] = loop.create_future()
        self._waiting: list[asyncio.Future[None]] = []
        self._heartbeats: asyncio.Task[None] | None = None
        self._active: asyncio.Future[None] = loop.create_future()
        self._shut_down_allowed: asyncio.Future[bool] = loop.create_future()
        self._last_error = ErrorCode.NONE

    async def register(self, request: BrokerRegistrationRequest, timeout_s: float) -> int:
        """Register with the active controller; return the broker epoch.

        RegistrationError on an error that no retry can resolve, at once; on any other error, or without a response,
        after `timeout_s`. A failing registration is logged after 5 s and then every 10 s.
        """
        deadline_s = self._loop.time() + timeout_s
        warn_at_s = self._loop.time() + _WARN_AFTER_S
        while True:
            code = await self._try_to_register(request, min(deadline_s - self._loop.time(), _WARN_AFTER_S))
            if code is ErrorCode.NONE:
                return self.broker_epoch
            now = self._loop.time()
            if code in _FATAL:
                raise RegistrationError(_cause(code, request))
            if now + _RETRY_S >= deadline_s:
                raise RegistrationError(
                    f"not registered with the controllers within {timeout_s:g} s "
                    f"(initial.broker.registration.timeout.ms): {_cause(code, request)}"
                )
            if now >= warn_at_s:
                warn_at_s = now + _WARN_INTERVAL_S
                _log.warning(
                    "Not registered with the controllers yet; giving up in %.0f s "
                    "(initial.broker.registration.timeout.ms): %s",
                    deadline_s - now,
                    _cause(code, request),
                )
            await asyncio.sleep(_RETRY_S)

    async def _try_to_register(self, request: BrokerRegistrationRequest, timeout_s: float) -> ErrorCode:
        try:
            response: BrokerRegistrationResponse = await self._call(request, timeout_s)
        except KafkaError as error:
            return error.code
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            self.broker_epoch = response.broker_epoch
        return code

    def begin(self) -> None:
        """Start sending heartbeats."""
        self._heartbeats = self._loop.create_task(self._send_heartbeats())

    def send_now(self) -> None:
        """Send the next heartbeat now, or right after the one in flight."""
        if not self._send_requested.done():
            self._send_requested.set_result(None)

    async def send_and_wait(self) -> None:
        """Send a heartbeat, and wait until it is answered or fails."""
        responded: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(responded)
        self.send_now()
        await responded

    async def until_active(self) -> None:
        """Wait until the controller has unfenced this broker."""
        self.send_now()
        await asyncio.shield(self._active)

    async def shut_down(self, timeout_s: float) -> bool:
        """Request controlled shutdown; return whether the controller granted it within `timeout_s`.

        Return False early if no controller answers a heartbeat in time (at most 1.5 s), as when a whole cluster stops.
        """
        self._shutting_down = True
        self._timeout_s = min(self._timeout_s, _SHUTDOWN_TIMEOUT_S)
        self.send_now()
        await asyncio.wait([self._shut_down_allowed], timeout=timeout_s)
        return self._shut_down_allowed.done() and self._shut_down_allowed.result()

    async def stop(self) -> None:
        """Stop sending heartbeats."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.wait([self._heartbeats])

    async def _send_heartbeats(self) -> None:
        while True:
            self._send_requested = self._loop.create_future()
            changed = self._controller_change()
            waiting, self._waiting = self._waiting, []
            await self._send()
            for responded in waiting:
                if not responded.done():
                    responded.set_result(None)
            interval_s = _SHUTDOWN_INTERVAL_S if self._shutting_down else self._interval_s
            await asyncio.wait([self._send_requested, changed], timeout=interval_s, return_when=asyncio.FIRST_COMPLETED)

    async def _send(self) -> None:
        try:
            response: BrokerHeartbeatResponse = await self._call(self._heartbeat_request(), self._timeout_s)
            code = ErrorCode(response.error_code)
        except KafkaError as error:
            code = error.code
        except Exception:
            _log.exception("A heartbeat failed")
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        if code is not self._last_error:
            self._last_error = code
            if code is not ErrorCode.NONE:
                _log.warning("Heartbeat to the controller failed: %s", code.name)
        if code is ErrorCode.NONE:
            self._response_received(response)
        elif self._shutting_down and code is ErrorCode.REQUEST_TIMED_OUT and not self._shut_down_allowed.done():
            self._shut_down_allowed.set_result(False)

    def _heartbeat_request(self) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._applied_offset(),
            want_fence=False,
            want_shut_down=self._shutting_down,
            offline_log_dirs=list(self._offline_directories()),
            cordoned_log_dirs=list(self._cordoned_directories()),
        )

    def _response_received(self, response: BrokerHeartbeatResponse) -> None:
        if response.is_fenced != self.fenced and self._active.done() and not self._shutting_down:
            _log.warning("The controller has %s this broker", "fenced" if response.is_fenced else "unfenced")
        self.fenced = response.is_fenced
        if not self.fenced and not self._active.done():
            self._active.set_result(None)
        if response.should_shut_down and not self._shut_down_allowed.done():
            self._shut_down_allowed.set_result(True)


def _cause(code: ErrorCode, request: BrokerRegistrationRequest) -> str:
    """Return the cause of a failed registration, and its remedy."""
    if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
        return (
            f"another broker with node.id={request.broker_id} is running in this cluster:"
            " give each broker a unique node.id"
        )
    if code is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return (
            f"the data directory belongs to cluster {request.cluster_id}, the controllers of "
            "controller.quorum.voters to another: use that cluster's controllers, or start with an empty directory"
        )
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return (
            "the controllers do not authorize this broker: add its principal to their super.users, or give it an ACL"
            " for CLUSTER_ACTION on the cluster"
        )
    if code is ErrorCode.REQUEST_TIMED_OUT:
        return (
            "no controller answered: check that a majority of controller.quorum.voters is running, reachable, and that "
            "all of them have this node's principal in super.users, if they have an authorizer"
        )
    return f"the controller rejected the registration: {code.name}"
