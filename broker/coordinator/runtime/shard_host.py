"""Hosting of one shard: appends its records, and responds once they are committed (Kafka: `CoordinatorRuntime`).

A shard is the state of one partition of a coordinator's topic, with the rules that decide on it. The host knows nothing
of what they mean. Records are appended in the step that decides them, so the log has them in that order. A response
that depends on records is sent once they are below the high watermark. Reads wait too, until everything they could see
is committed: no response shows state that a new leader might lack.

`ask`, `write` and `after` return an `Outcome[T]`: a `T` if it is available at once, else a future of one. They, or the
future, raise KafkaError with an error of the coordinator protocol.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

from broker.coordinator.runtime.context import CoordinatorContext, CoordinatorResponse, Record
from broker.coordinator.runtime.partition_log import Journal, Marker, Stored
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.plural import count_of

T = TypeVar("T")
R = TypeVar("R")
Outcome: TypeAlias = T | asyncio.Future[T]

C = TypeVar("C", bound=CoordinatorContext)
C_contra = TypeVar("C_contra", bound=CoordinatorContext, contravariant=True)
S = TypeVar("S", bound="Shard[Any]")

_log = logging.getLogger("broker.coordinator")

RECORDS_A_TURN = 200

# Size of a batch of `_pieces`: well below the default max.message.bytes, including the overhead of each record.
_PIECE_BYTES = 256 * 1024
_PIECE_RECORDS = 5_000

_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # The records are below the high watermark, which suffices here.
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.NONE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def then(outcome: Outcome[T], respond: Callable[[T], R]) -> R | Awaitable[R]:
    """Return `respond(result)` for the result of `outcome`, now or in a coroutine; its KafkaError is raised."""
    return _respond_later(outcome, respond) if isinstance(outcome, asyncio.Future) else respond(outcome)


async def _respond_later(outcome: asyncio.Future[T], respond: Callable[[T], R]) -> R:
    return respond(await outcome)


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """Translate an error of the log to the one that coordinator clients handle."""
    return _COORDINATOR_ERRORS.get(error, error)


class Shard(Protocol[C_contra]):
    """The state of one partition of a coordinator's topic (Kafka: `CoordinatorShard`)."""

    @property
    def content(self) -> str:
        """What the shard holds, for the log: "3 groups", or empty if it holds nothing."""

    def replay(self, now_ms: int, record_offset: int, key: bytes, value: bytes | None, producer_id: int = -1) -> None:
        """Apply a record; DecodeError if it cannot be read. `producer_id` is -1 outside a transaction."""

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Commit or drop the records of a producer's open transaction."""

    def loaded(self, turn: C_contra) -> None:
        """Start the timers of the loaded state."""

    def unloaded(self, turn: C_contra) -> None:
        """Answer every waiting request with NOT_COORDINATOR."""


class ShardHost(Generic[S, C]):
    """A shard with its journal, while this broker leads their partition (Kafka: `CoordinatorContext`)."""

    __slots__ = ("_loop", "_name", "_new_turn", "_written_end", "journal", "leader_epoch", "open", "ready", "shard")

    def __init__(
        self,
        name: str,
        shard: S,
        journal: Journal,
        leader_epoch: int,
        loop: asyncio.AbstractEventLoop,
        new_turn: Callable[[], C],
    ) -> None:
        """Host the shard of partition `name`. Requests are refused until `load` sets `ready`, and after `close`."""
        self._name = name
        self.shard = shard
        self.journal = journal
        self.leader_epoch = leader_epoch
        self.ready = False
        self.open = True
        self._loop = loop
        self._new_turn = new_turn
        self._written_end = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to load."""
        return self.journal.end_offset == 0

    async def load(self) -> None:
        """Replay the journal, `RECORDS_A_TURN` records a turn of the loop, then serve. Disk waits run in a thread.

        KafkaError, OSError or DecodeError if the journal is unreadable.
        """
        now_ms = self._new_turn().now_ms
        reading, answer, count = self.journal.read(), None, 0
        while self.open:
            try:
                stored = reading.send(answer)
            except StopIteration:
                break
            answer, count = None, count + 1
            if isinstance(stored, Marker):
                self.shard.end_transaction(stored.producer_id, stored.committed)
            elif isinstance(stored, Stored):
                self._replay(stored, now_ms)
            else:
                answer = await self._loop.run_in_executor(None, stored)
            if count % RECORDS_A_TURN == 0:
                await asyncio.sleep(0)
        if self.open:
            self.serve()

    def _replay(self, stored: Stored, now_ms: int) -> None:
        try:
            self.shard.replay(now_ms, stored.offset, stored.key, stored.value, stored.producer_id)
        except DecodeError as error:
            _log.error("Skipped record %d of %s: %s", stored.offset, self._name, error)

    def serve(self) -> None:
        """Start serving, and the shard's timers."""
        self.ready = True
        self._written_end = self.journal.end_offset
        turn = self._new_turn()
        self.shard.loaded(turn)
        self.perform(turn)
        if content := self.shard.content:
            _log.info("Loaded %s from %s", content, self._name)

    def close(self) -> None:
        """Answer every waiting request with NOT_COORDINATOR."""
        self.open = self.ready = False
        turn = self._new_turn()
        self.shard.unloaded(turn)
        for effect in turn.effects:
            if isinstance(effect, CoordinatorResponse):
                _give(effect)

    def ask(self, rule: Callable[[C, object], None]) -> Outcome[Any]:
        """Run `rule` in a new turn, and return its answer."""
        to: asyncio.Future[Any] = self._loop.create_future()
        turn = self._new_turn()
        rule(turn, to)
        self.perform(turn)
        return to.result() if to.done() else to

    def perform(self, turn: C) -> None:
        """Perform the effects of `turn`, and of the continuations that can run at once."""
        effects = deque(turn.effects)
        while effects:
            effect = effects.popleft()
            if isinstance(effect, CoordinatorResponse):
                _give(effect)
                continue
            outcome = self._append(effect.records)
            if outcome is None:
                self._perform_later(effect.then, self._written_end)
                continue
            turn.effects = []
            effect.then(turn, outcome)
            effects.extend(turn.effects)

    def _append(self, records: list[Record]) -> ErrorCode | None:
        """Append `records` and return their result, None while it is unknown; a closed host appends nothing."""
        if not self.open:
            # The partition may be led here again, with another host that has not replayed these records.
            return ErrorCode.NOT_COORDINATOR
        try:
            self._written_end = self.journal.append(records) + len(records)
            outcome = self.journal.outcome(self._written_end)
        except KafkaError as error:
            outcome = error.code
        return None if outcome is None else coordinator_error(outcome)

    def _perform_later(self, then: Callable[[C, ErrorCode], None], end: int) -> None:
        def on_outcome(outcomes: asyncio.Future[list[ErrorCode]]) -> None:
            turn = self._new_turn()
            then(turn, self._settled(outcomes))
            self.perform(turn)

        self.journal.outcome_later(end).add_done_callback(on_outcome)

    def write(self, records: list[Record], result: T) -> Outcome[T]:
        """Append `records` and replay them; return `result` once they are committed.

        KafkaError, with no state changed, if they could not be written.
        """
        if records:
            self._store(records)
        return self.after(result)

    def write_in_pieces(self, records: list[Record], result: T) -> Outcome[T]:
        """Append `records`, split into batches, and replay them; return `result` once they are committed.

        Each record must be valid on its own: KafkaError if not all could be written.
        """
        for piece in _pieces(records):
            self._store(piece)
        return self.after(result)

    def _store(self, records: list[Record]) -> None:
        try:
            base = self.journal.append(records)
        except KafkaError as error:
            raise KafkaError(coordinator_error(error.code), error.message) from error
        now_ms = self._new_turn().now_ms
        for offset, (key, value) in enumerate(records, base):
            self.shard.replay(now_ms, offset, key, value)
        self._written_end = base + len(records)

    def write_aside(self, records: list[Record]) -> None:
        """Write records that no request waits for, split into batches; log a failure.

        Each batch must be valid on its own. Records that were not written are decided again later.
        """
        for piece in _pieces(records):
            try:
                outcome = self.write(piece, None)
            except KafkaError as error:
                _log.warning("Writing %s to %s failed: %s", count_of(len(piece), "record"), self._name, error)
                return
            if outcome is not None:
                outcome.add_done_callback(lambda future: future.cancelled() or future.exception())

    def after(self, result: T) -> Outcome[T]:
        """Return `result` once everything written so far is committed."""
        outcome = self.journal.outcome(self._written_end)
        if outcome is not None:
            return _given(coordinator_error(outcome), result)
        given: asyncio.Future[T] = self._loop.create_future()

        def on_outcome(outcomes: asyncio.Future[list[ErrorCode]]) -> None:
            if given.done():
                return
            try:
                given.set_result(_given(self._settled(outcomes), result))
            except KafkaError as failure:
                given.set_exception(failure)

        self.journal.outcome_later(self._written_end).add_done_callback(on_outcome)
        return given

    def _settled(self, outcomes: asyncio.Future[list[ErrorCode]]) -> ErrorCode:
        """Return the result of a write; NOT_COORDINATOR if the shard is closed."""
        if not self.open or outcomes.cancelled():
            return ErrorCode.NOT_COORDINATOR
        return coordinator_error(outcomes.result()[0])


def _given(error: ErrorCode, result: T) -> T:
    if error != ErrorCode.NONE:
        raise KafkaError(error)
    return result


def _pieces(records: list[Record]) -> Iterator[list[Record]]:
    """Split `records` into lists, each for one batch."""
    piece: list[Record] = []
    size_bytes = 0
    for key, value in records:
        record_bytes = len(key) + len(value or b"")
        if piece and (size_bytes + record_bytes > _PIECE_BYTES or len(piece) == _PIECE_RECORDS):
            yield piece
            piece, size_bytes = [], 0
        piece.append((key, value))
        size_bytes += record_bytes
    if piece:
        yield piece


def _give(answer: CoordinatorResponse) -> None:
    to = cast("asyncio.Future[Any]", answer.to)
    if not to.done():
        to.set_result(answer.result)
