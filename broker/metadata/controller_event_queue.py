"""Commands to the controller, from the call to the answer.

A command waits until the node leads, and is then decided on the image that all commands before it lead to (`pending`),
though nothing of them may be committed yet: so many become durable with one sync. Its caller goes on when its records
are committed, applied and told to every subscriber, and so is everything that it was decided on; or when his time is
over and they are committed: being told may take long, as of thousands of new partitions.

    submit    waits for the next `decide`
    decide    each in turn: its records are proposed, or it has an error, which rests on the commands before it too
    applied   an entry of the log is applied: what was decided on it, and on nothing later, is answered
    refuse    the last proposals are not in the log after all, and whatever was decided on them is refused
    fail      nothing of what waits will come to be, or nobody here will learn of it

Nothing here touches the log: what is proposed to `RaftNode` is stored, sent and committed by `raft_driver`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from controller.commands.controller_result import Command, Decision
from controller.image import MetadataImage
from controller.image_builder import apply_records
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from controller.raft.node import RaftNode

R = TypeVar("R")


class _Decided(NamedTuple):
    """A command that holds once the log is committed and applied up to `next_offset`."""

    next_offset: int
    image: MetadataImage
    outcome: Any
    """The response, or the exception that is raised in its place."""
    answer: asyncio.Future[Any]
    has_records: bool

    def result(self) -> Any:
        """Return the response, or raise the error."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def reply(self) -> None:
        """Let the caller go on, unless it has stopped waiting."""
        if self.answer.done():
            return
        if isinstance(self.outcome, Exception):
            self.answer.set_exception(self.outcome)
        else:
            self.answer.set_result(self.outcome)


class CommandQueue:
    """The commands that wait for something."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queued: deque[tuple[Command[Any], asyncio.Future[Any]]] = deque()
        self._decided: deque[_Decided] = deque()
        self._pending: MetadataImage | None = None

    def __bool__(self) -> bool:
        """Say whether a command waits to be decided."""
        return bool(self._queued)

    def submit(self, command: Command[R]) -> asyncio.Future[R]:
        """Return the answer to come: the command's response, or its error."""
        answer: asyncio.Future[R] = self._loop.create_future()
        self._queued.append((command, answer))
        return answer

    def decide(self, node: RaftNode, image: MetadataImage) -> None:
        """Decide what waits as the leader, whose applied metadata is `image`, and propose the records."""
        pending = self._pending or image
        while self._queued:
            command, answer = self._queued.popleft()
            try:
                decision: Decision[Any] = command(pending)
                if decision.records:
                    # First of all: what cannot be applied must never be in the log.
                    last_offset = node.end_offset + len(decision.records) - 1
                    after = apply_records(pending, decision.records, offset=last_offset, epoch=node.epoch)
                    node.propose(decision.records)
                    self._pending = pending = after
            except Exception as error:
                # Of a topic whose deletion is not committed it is not known that it is unknown.
                decided = _Decided(node.end_offset, pending, error, answer, has_records=False)
                if not self._decided:
                    decided.reply()
                    continue
            else:
                records = bool(decision.records)
                decided = _Decided(node.end_offset, pending, decision.response, answer, records)
            self._decided.append(decided)

    def image_after(self, next_offset: int) -> MetadataImage | None:
        """Return the image that the records before `next_offset` lead to, if a command here has proposed the last."""
        for decided in self._decided:
            if decided.next_offset == next_offset and decided.has_records:
                return decided.image
            if decided.next_offset > next_offset:
                break
        return None

    async def outcome(self, answer: asyncio.Future[R], timeout_ms: int | None, committed_end: Callable[[], int]) -> R:
        """Wait for an answer; when the time is over, return what was decided if all that it rests on is committed.

        KafkaError REQUEST_TIMED_OUT if it is not. The log is committed up to `committed_end`.
        """
        try:
            # It may be there when the time is over, too: both can be in the same turn.
            await asyncio.wait((answer,), timeout=None if timeout_ms is None else timeout_ms / 1000)
            if answer.done():
                return answer.result()
        finally:
            answer.cancel()
        end_offset = committed_end()
        for decided in self._decided:
            if decided.answer is answer and decided.next_offset <= end_offset:
                response: R = decided.result()
                return response
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The controller is still busy.")

    def applied(self, next_offset: int) -> None:
        """Answer what was decided on no more than the log before `next_offset`."""
        while self._decided and self._decided[0].next_offset <= next_offset:
            self._decided.popleft().reply()
        if not self._decided:
            self._pending = None

    def refuse(self, error: Exception, from_offset: int = 0) -> None:
        """Answer with `error` what was decided on proposals from `from_offset` on, which were taken back."""
        while self._decided and self._decided[-1].next_offset > from_offset:
            answer = self._decided.pop().answer
            if not answer.done():
                answer.set_exception(error)
        self._pending = self._decided[-1].image if self._decided else None

    def fail(self, error: Exception) -> None:
        """Answer everything with `error`."""
        self.refuse(error)
        for _, answer in self._queued:
            if not answer.done():
                answer.set_exception(error)
        self._queued.clear()


def not_controller() -> KafkaError:
    """Return the error of a node that does not lead."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This node does not lead the quorum.")
