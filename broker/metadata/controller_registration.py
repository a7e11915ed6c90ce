"""The controller's registration with the active controller (KIP-919; Kafka: `ControllerRegistrationManager`).

Each start is a new incarnation. The registration is sent to the active controller, and to its successors, until the
metadata contains it. Tools and brokers read the controllers' addresses from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from controller.image import MetadataImage
    from protocol.messages.controller_registration import ControllerRegistrationRequest
    from protocol.schema import Message

_TIMEOUT_S = 5.0
_RETRY_S = 1.0

_log = logging.getLogger("broker.controller")


class Quorum(Protocol):
    """The part of the raft driver that is used here."""

    @property
    def image(self) -> MetadataImage:
        """Return the metadata as it is committed and applied here."""

    def leader_change(self) -> asyncio.Future[None]:
        """Return a future that is done when the leader changes, or there is none."""


class ControllerRegistrationManager:
    """The registration of one run of a controller."""

    def __init__(
        self, quorum: Quorum, call: Callable[[Message, float], Awaitable[Any]], loop: asyncio.AbstractEventLoop
    ) -> None:
        """`call` sends a request to the active controller; its second argument is a timeout in seconds."""
        self._quorum = quorum
        self._call = call
        self._loop = loop
        self._task: asyncio.Task[None] | None = None

    def begin(self, request: ControllerRegistrationRequest) -> None:
        """Start registering this controller with `request`; retried until the metadata contains it."""
        self._task = self._loop.create_task(self._register(request))

    async def stop(self) -> None:
        """Stop registering."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _register(self, request: ControllerRegistrationRequest) -> None:
        last_error = ErrorCode.NONE
        while not self._is_known(request):
            changed = self._quorum.leader_change()
            try:
                response = await self._call(request, _TIMEOUT_S)
                code = ErrorCode(response.error_code)
            except KafkaError as error:
                code = error.code
            if code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, last_error):
                last_error = code
                _log.warning("Registration of this controller failed: %s", code.name)
            if not self._is_known(request):
                await asyncio.wait([changed], timeout=_RETRY_S)

    def _is_known(self, request: ControllerRegistrationRequest) -> bool:
        known = self._quorum.image.controllers.get(request.controller_id)
        return known is not None and known.incarnation_id == request.incarnation_id
