"""This controller's life as the cluster knows it: registered, by itself, with whoever leads the quorum (KIP-919).

Each start is a new incarnation. It is told to the active controller, and to the next one, until the metadata has it:
what says where controllers listen, to tools and to brokers, is there.
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
    """What is asked of the raft driver."""

    @property
    def image(self) -> MetadataImage:
        """Return the metadata as it is committed and applied here."""
        ...

    def leader_change(self) -> asyncio.Future[None]:
        """Return a future that is done when the leader is another, or none."""
        ...


class ControllerLife:
    """The registration of one run of a controller."""

    def __init__(
        self, quorum: Quorum, call: Callable[[Message, float], Awaitable[Any]], loop: asyncio.AbstractEventLoop
    ) -> None:
        """`call` sends the active controller a request, with the seconds until REQUEST_TIMED_OUT is raised."""
        self._quorum = quorum
        self._call = call
        self._loop = loop
        self._task: asyncio.Task[None] | None = None

    def begin(self, request: ControllerRegistrationRequest) -> None:
        """Have this controller registered as `request` says, as soon as somebody leads."""
        self._task = self._loop.create_task(self._register(request))

    async def stop(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _register(self, request: ControllerRegistrationRequest) -> None:
        trouble = ErrorCode.NONE
        while not self._is_known(request):
            changed = self._quorum.leader_change()
            try:
                answer = await self._call(request, _TIMEOUT_S)
                code = ErrorCode(answer.error_code)
            except KafkaError as error:
                code = error.code
            if code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, trouble):
                trouble = code
                _log.warning("The active controller does not register this one: %s", code.name)
            if not self._is_known(request):
                await asyncio.wait([changed], timeout=_RETRY_S)

    def _is_known(self, request: ControllerRegistrationRequest) -> bool:
        known = self._quorum.image.controllers.get(request.controller_id)
        return known is not None and known.incarnation_id == request.incarnation_id
