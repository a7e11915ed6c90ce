"""The controller event queue: commands, from their submission to their response (Kafka: `QuorumController`).

A command is decided when this node leads, on the image after all earlier commands (`pending`), committed or not: so one
fsync makes many commands durable. Its caller gets the response when its records, and all that the decision was based
on, are committed, applied and published to every subscriber. At the caller's timeout, committed is enough: publishing
may take long, for example with thousands of new partitions.

    submit     queue a command for the next `decide`
    decide     decide each in order: propose its records, or set its error, which is based on earlier commands too
    applied    an entry of the log is applied: respond to the commands that are based on nothing later
    fail_from  the proposals from an offset on were withdrawn: fail every command that is based on them
    fail       fail all commands: they will not be decided or committed, or this node will not learn of it

The log is not touched here: `raft_driver` writes, sends and commits what is proposed to `RaftNode`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from controller.commands.controller_result import Command, ControllerResult
from controller.image import MetadataImage
from controller.image_builder import apply_records
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from controller.raft.raft_node import RaftNode

R = TypeVar("R")


class _Decided(NamedTuple):
    """A decided command: final once the log is committed and applied up to `next_offset`."""

    next_offset: int
    image: MetadataImage
    outcome: Any
    """The response, or the exception to raise instead."""
    future: asyncio.Future[Any]
    has_records: bool

    def result(self) -> Any:
        """Return the response, or raise the error."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def reply(self) -> None:
        """Complete the caller's future, unless it was cancelled."""
        if self.future.done():
            return
        if isinstance(self.outcome, Exception):
            self.future.set_exception(self.outcome)
        else:
            self.future.set_result(self.outcome)


class ControllerEventQueue:
    """The commands that wait to be decided, or to be committed and applied."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queued: deque[tuple[Command[Any], asyncio.Future[Any]]] = deque()
        self._decided: deque[_Decided] = deque()
        self._pending: MetadataImage | None = None

    def __bool__(self) -> bool:
        """Return whether a command waits to be decided."""
        return bool(self._queued)

    def submit(self, command: Command[R]) -> asyncio.Future[R]:
        """Queue a command; return a future of its response or error."""
        future: asyncio.Future[R] = self._loop.create_future()
        self._queued.append((command, future))
        return future

    def decide(self, node: RaftNode, image: MetadataImage) -> None:
        """Decide the queued commands and propose their records. This node leads; `image` is its applied metadata."""
        pending = self._pending or image
        while self._queued:
            command, future = self._queued.popleft()
            try:
                result: ControllerResult[Any] = command(pending)
                if result.records:
                    # Apply before proposing: records that cannot be applied must never be in the log.
                    last_offset = node.end_offset + len(result.records) - 1
                    after = apply_records(pending, result.records, offset=last_offset, epoch=node.epoch)
                    node.propose(result.records)
                    self._pending = pending = after
            except Exception as error:
                # The error may rest on uncommitted records, such as the deletion of a topic: hold it back as well.
                decided = _Decided(node.end_offset, pending, error, future, has_records=False)
                if not self._decided:
                    decided.reply()
                    continue
            else:
                has_records = bool(result.records)
                decided = _Decided(node.end_offset, pending, result.response, future, has_records)
            self._decided.append(decided)

    def image_after(self, next_offset: int) -> MetadataImage | None:
        """Return the image after the records before `next_offset`, if a command decided here proposed the last one."""
        for decided in self._decided:
            if decided.next_offset == next_offset and decided.has_records:
                return decided.image
            if decided.next_offset > next_offset:
                break
        return None

    async def wait_for(self, future: asyncio.Future[R], timeout_ms: int | None, committed_end: Callable[[], int]) -> R:
        """Wait for a response. After `timeout_ms`, return what was decided if everything it is based on is committed.

        KafkaError REQUEST_TIMED_OUT if it is not. The log is committed up to `committed_end()`.
        """
        try:
            # Not wait_for: the response and the timeout can come in the same turn.
            await asyncio.wait((future,), timeout=None if timeout_ms is None else timeout_ms / 1000)
            if future.done():
                return future.result()
        finally:
            future.cancel()
        end_offset = committed_end()
        for decided in self._decided:
            if decided.future is future and decided.next_offset <= end_offset:
                response: R = decided.result()
                return response
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The command was not committed in time.")

    def applied(self, next_offset: int) -> None:
        """Complete the commands that are based on nothing from `next_offset` on."""
        while self._decided and self._decided[0].next_offset <= next_offset:
            self._decided.popleft().reply()
        if not self._decided:
            self._pending = None

    def fail_from(self, offset: int, error: Exception) -> None:
        """Fail with `error` the commands that are based on proposals from `offset` on."""
        while self._decided and self._decided[-1].next_offset > offset:
            future = self._decided.pop().future
            if not future.done():
                future.set_exception(error)
        self._pending = self._decided[-1].image if self._decided else None

    def fail(self, error: Exception) -> None:
        """Fail all commands with `error`."""
        self.fail_from(0, error)
        for _, future in self._queued:
            if not future.done():
                future.set_exception(error)
        self._queued.clear()


def not_controller() -> KafkaError:
    """Return the error of a node that does not lead."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This node does not lead the quorum.")
