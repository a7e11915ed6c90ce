"""A shard at work: what it decides is written to its journal, and answered when that is committed.

Records are appended in the same step in which they are decided, so the log has them in that order. Whoever
waits for them is answered once they are below the high watermark. Reads wait too, until everything that
they could see is committed, so nothing is ever shown that a new leader might not know.

`ask`, `write` and `after` give an `Outcome[T]`: a `T` if they can answer at once, else a future of one.
KafkaError comes out of them, or out of the future, with an error of the coordinator protocol.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from broker.coordinator.group.context import Answer, Record, Turn
from broker.coordinator.runtime.partition_log import Journal, Marker, Stored
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.plural import count_of

if TYPE_CHECKING:
    from broker.coordinator.group.shard import Shard
    from storage.steps import Search

T = TypeVar("T")
R = TypeVar("R")
Outcome: TypeAlias = T | asyncio.Future[T]

_log = logging.getLogger("broker.coordinator.group")

_RECORDS_A_TURN = 200
_GROUPS_A_TURN = 200
# A step is one of several in a turn (`broker.turns`).
_RECORDS_A_STEP = 50
_GROUPS_A_STEP = 500

# What is written aside at a time: well below the default of max.message.bytes, with what a batch adds to each record.
_PIECE_BYTES = 256 * 1024
_PIECE_RECORDS = 5_000

_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # It is below the high watermark, and that is all that counts here.
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.NONE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def then(outcome: Outcome[T], respond: Callable[[T], R]) -> R | Awaitable[R]:
    """Give what `respond` makes of `outcome`, now or once it is there; its KafkaError stays one."""
    return _respond_later(outcome, respond) if isinstance(outcome, asyncio.Future) else respond(outcome)


async def _respond_later(outcome: asyncio.Future[T], respond: Callable[[T], R]) -> R:
    return respond(await outcome)


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """Put an error of the log in terms that clients of a coordinator act on."""
    return _COORDINATOR_ERRORS.get(error, error)


class ShardHost:
    """A shard with its journal, for as long as this broker leads their partition."""

    __slots__ = (
        "_deleted_topics", "_loop", "_new_turn", "_written_end", "journal", "leader_epoch", "open", "ready", "shard",
    )  # fmt: skip

    def __init__(
        self,
        shard: Shard,
        journal: Journal,
        leader_epoch: int,
        loop: asyncio.AbstractEventLoop,
        new_turn: Callable[[], Turn],
    ) -> None:
        """Serve nobody until `load` is done, which sets `ready`; nor after `close`, which takes back `open`."""
        self.shard = shard
        self.journal = journal
        self.leader_epoch = leader_epoch
        self.ready = False
        self.open = True
        self._loop = loop
        self._new_turn = new_turn
        self._written_end = 0
        self._deleted_topics: list[tuple[str, bytes]] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to load."""
        return self.journal.end_offset == 0

    async def load(self) -> None:
        """Replay the journal, some records in a turn of the loop, then serve. A thread waits for the disk.

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
                self.shard.offsets.end_transaction(stored.producer_id, stored.committed)
            elif isinstance(stored, Stored):
                self._replay(stored, now_ms)
            else:
                answer = await self._loop.run_in_executor(None, stored)
            if count % _RECORDS_A_TURN == 0:
                await asyncio.sleep(0)
        if self.open:
            self.serve()

    def _replay(self, stored: Stored, now_ms: int) -> None:
        try:
            self.shard.replay(now_ms, stored.offset, stored.key, stored.value, stored.producer_id)
        except DecodeError as error:
            _log.error("Passed over record %d of offsets partition %d: %s", stored.offset, self.shard.partition, error)

    def serve(self) -> None:
        """Begin to serve: expect the members' heartbeats."""
        self.ready = True
        self._written_end = self.journal.end_offset
        turn = self._new_turn()
        self.shard.loaded(turn)
        self.perform(turn)
        if self.shard.groups:
            _log.info(
                "Loaded %s of offsets partition %d", count_of(len(self.shard.groups), "group"), self.shard.partition
            )

    def close(self) -> None:
        """Answer everyone who waits with NOT_COORDINATOR."""
        self.open = self.ready = False
        turn = self._new_turn()
        self.shard.unloaded(turn)
        for effect in turn.effects:
            if isinstance(effect, Answer):
                _give(effect)

    def ask(self, rule: Callable[[Turn, object], None]) -> Outcome[Any]:
        """Have `rule` answer, in a turn of its own."""
        to: asyncio.Future[Any] = self._loop.create_future()
        turn = self._new_turn()
        rule(turn, to)
        self.perform(turn)
        return to.result() if to.done() else to

    def perform(self, turn: Turn) -> None:
        """Perform the effects of `turn`, and those of the sequels that can run at once."""
        effects = deque(turn.effects)
        while effects:
            effect = effects.popleft()
            if isinstance(effect, Answer):
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
        """Append `records` and return their outcome, None while it is not known; a closed host appends nothing."""
        if not self.open:
            # The partition may be led here again, by another host that has not seen these records.
            return ErrorCode.NOT_COORDINATOR
        try:
            self._written_end = self.journal.append(records) + len(records)
            outcome = self.journal.outcome(self._written_end)
        except KafkaError as error:
            outcome = error.code
        return None if outcome is None else coordinator_error(outcome)

    def _perform_later(self, then: Callable[[Turn, ErrorCode], None], end: int) -> None:
        def on_outcome(outcomes: asyncio.Future[list[ErrorCode]]) -> None:
            turn = self._new_turn()
            then(turn, self._settled(outcomes))
            self.perform(turn)

        self.journal.outcome_later(end).add_done_callback(on_outcome)

    def write(self, records: list[Record], result: T) -> Outcome[T]:
        """Append `records` and take them over; give `result` once they are committed.

        KafkaError, and nothing has changed, if they could not be written.
        """
        if records:
            self._store(records)
        return self.after(result)

    def write_in_pieces(self, records: list[Record], result: T) -> Outcome[T]:
        """Append `records`, however many, and take them over; give `result` once they are committed.

        Each of them has to be good by itself: KafkaError if they could not all be written.
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
        """Write records that no request waits for, and that are decided again later if they cannot be written.

        However much it is, and not at a stroke: each piece is good by itself.
        """
        for piece in _pieces(records):
            try:
                outcome = self.write(piece, None)
            except KafkaError as error:
                _log.warning(
                    "%s of offsets partition %d: %s", count_of(len(piece), "record"), self.shard.partition, error
                )
                return
            if outcome is not None:
                outcome.add_done_callback(lambda future: future.cancelled() or future.exception())

    async def expire(self) -> None:
        """Forget what is past its retention; all of a group in the turn in which that is decided, not all groups."""
        expired: list[Record] = []
        for looked_at, group_id in enumerate(list(self.shard.groups), 1):
            group = self.shard.groups.get(group_id)
            if self.ready and group is not None:
                expired += self.shard.expire(self._new_turn(), group)
            if looked_at % _GROUPS_A_TURN == 0 or len(expired) >= _RECORDS_A_TURN:
                self.write_aside(expired)
                expired = []
                await asyncio.sleep(0)
        self.write_aside(expired)

    def forget_topics(self, topics: list[tuple[str, bytes]]) -> Search[None]:
        """Forget the offsets of deleted topics, each given by name and id: some groups a step, or all once loaded."""
        if not self.ready:
            self._deleted_topics += topics
            return
        for topic, topic_id in topics:
            found: list[Record] = []
            for looked_at, group_id in enumerate(self.shard.offsets.group_ids(), 1):
                if not self.open:
                    return
                found += self.shard.forget_topic(topic, topic_id, (group_id,))
                if looked_at % _GROUPS_A_STEP == 0 or len(found) >= _RECORDS_A_STEP:
                    self.write_aside(found)
                    found = []
                    yield None
            if found:
                self.write_aside(found)
                yield None

    def forget_topics_deleted_meanwhile(self) -> Search[None]:
        """Forget the offsets of topics that were deleted while the shard was loaded."""
        topics, self._deleted_topics = self._deleted_topics, []
        yield from self.forget_topics(topics)

    def after(self, result: T) -> Outcome[T]:
        """Give `result` once everything that was written so far is committed."""
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
        """Say how a write came out; a shard that is gone cannot tell."""
        if not self.open or outcomes.cancelled():
            return ErrorCode.NOT_COORDINATOR
        return coordinator_error(outcomes.result()[0])


def _given(error: ErrorCode, result: T) -> T:
    if error != ErrorCode.NONE:
        raise KafkaError(error)
    return result


def _pieces(records: list[Record]) -> Iterator[list[Record]]:
    """Cut `records` into lists that fit into a batch each."""
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


def _give(answer: Answer) -> None:
    to = cast("asyncio.Future[Any]", answer.to)
    if not to.done():
        to.set_result(answer.result)
