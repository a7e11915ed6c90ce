"""Operations on one shard: appends its records, and responds once they are committed.

A shard is the state of one partition of a coordinator's topic, with the rules that decide on it. The host knows nothing
of what they mean. Records are appended in the step that decides them, so the log has them in that order. A response
that depends on records is sent once they are below the high watermark. Reads wait too, until everything they could see
is committed: no response shows state that a new leader might lack.

`run_rule`, `write`, `complete_transaction` and `after` return an `Outcome[T]`: a `T` if available at once, else a
future of one. They, or the future, raise KafkaError with an error of the coordinator protocol.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

from broker.coordinator.runtime.context import (
    CoordinatorContext,
    CoordinatorResponse,
    CoordinatorResult,
    ProducerIdAndEpoch,
    Record,
)
from broker.coordinator.runtime.partition_journal import Journal, Marker, Stored
from broker.coordinator.runtime.timers import Timers
from broker.runtime.cooperative import ONE_STEP, run_steps
from protocol.errors import DecodeError, ErrorCode, InvariantError, KafkaError
from protocol.plural import count_of
from storage.log.producer_state import COORDINATOR
from storage.steps import Steps

if TYPE_CHECKING:
    from protocol.record_batch import EndTxnMarker
    from storage.log.producer_state import AppendOrigin

T = TypeVar("T")
R = TypeVar("R")
Outcome: TypeAlias = T | asyncio.Future[T]

C = TypeVar("C", bound=CoordinatorContext)
C_contra = TypeVar("C_contra", bound=CoordinatorContext, contravariant=True)
S = TypeVar("S", bound="CoordinatorShard[Any]")

_log = logging.getLogger("broker.coordinator")

RECORDS_A_TURN = 200
_BYTES_A_RECORD = 160
"""So many bytes of a record count as one more: large records are loaded 32 KB a turn."""
_KEYS_A_TURN = 200
_RETRY_S = 0.1

# Well below the default max.message.bytes, including the overhead of each record.
_BATCH_BYTES = 256 * 1024
_BATCH_RECORDS = 5_000

_COORDINATOR_ERRORS = {
    # Of a verification: clients repeat the request to the same coordinator.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
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


class CoordinatorShard(Protocol[C_contra]):
    """The state of one partition of a coordinator's topic (Kafka: `CoordinatorShard`)."""

    @property
    def content(self) -> str:
        """What the shard holds, for the log: "3 groups", or empty if it holds nothing."""

    def replay(
        self, now_ms: int, offset: int, key: bytes, value: bytes | None, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        """Apply a record; DecodeError if it cannot be read. `producer` is that of its open transaction, if any."""

    def replay_end_transaction_marker(self, producer: ProducerIdAndEpoch, committed: bool) -> None:
        """Commit or drop the records of a producer's open transaction."""

    def fire(self, context: C_contra, event: Any) -> None:
        """Handle the event of a timer that is due."""

    def loaded(self, context: C_contra) -> None:
        """Start the timers of the loaded state."""

    def unloaded(self, context: C_contra) -> None:
        """Answer every waiting request with NOT_COORDINATOR."""


class ShardState(Enum):
    """The states of a shard; `coordinator_runtime` has their meaning."""

    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    CLOSED = auto()


StepwiseWrite: TypeAlias = Callable[[S, C], Iterable[list[Record]]]
"""Decides a write in steps: yields the records of one more key or group, possibly none. Each is valid on its own."""


class ShardHost(Generic[S, C]):
    """A shard with its journal and timers, while this broker leads their partition (Kafka: `CoordinatorContext`)."""

    __slots__ = (
        "_deferred", "_loop", "_new_context", "_on_change", "_serves_committed", "_written_end", "failure",
        "journal", "leader_epoch", "name", "shard", "state", "timers",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        shard: S,
        journal: Journal,
        leader_epoch: int,
        loop: asyncio.AbstractEventLoop,
        new_context: Callable[[Timers], C],
        on_timer: Callable[[float], object],
        on_change: Callable[[], object],
        *,
        serves_committed: bool = False,
    ) -> None:
        """Host the shard of partition `name`. Call `on_timer` when its earliest deadline becomes earlier.

        Call `on_change` when the state of the shard may have changed. With `serves_committed`, the shard is loading
        until all loaded records are committed: its timers and effects do not wait for a commit, and another leader
        might lack those records.
        """
        self._serves_committed = serves_committed
        self._on_change = on_change
        self.name = name
        self.shard = shard
        self.journal = journal
        self.leader_epoch = leader_epoch
        self.timers = Timers(on_timer)
        self.state = ShardState.LOADING
        self.failure = ""
        self._loop = loop
        self._new_context = new_context
        self._written_end = 0
        self._deferred: list[tuple[str, StepwiseWrite[S, C]]] = []

    @property
    def is_open(self) -> bool:
        """Whether the shard is loading or active."""
        return self.state is ShardState.LOADING or self.state is ShardState.ACTIVE

    async def load(self) -> None:
        """Replay the journal, `RECORDS_A_TURN` records a turn of the loop, then serve. Disk waits run in a thread.

        KafkaError, OSError or DecodeError if the journal is unreadable.
        """
        await run_steps(self._replay_journal(self._context().now_ms), self._loop, ONE_STEP)
        if self.is_open and self._serves_committed:
            await self._until_committed()
        if self.is_open:
            self.serve()

    async def _until_committed(self) -> None:
        """Wait until all records that were replayed are committed; KafkaError if the log failed."""
        end = self.journal.end_offset
        while self.is_open:
            outcome = self.journal.outcome(end)
            if outcome is None:
                [outcome] = await self.journal.await_outcome(end)
            if coordinator_error(outcome) == ErrorCode.NONE:
                return
            if outcome == ErrorCode.KAFKA_STORAGE_ERROR:
                raise KafkaError(outcome)
            # Too late, or in another leader epoch; if another broker leads, this host is about to be closed.
            await asyncio.sleep(_RETRY_S)

    def _replay_journal(self, now_ms: int) -> Steps[None]:
        reading, answer, work = self.journal.read(), None, 0
        while self.is_open:
            try:
                stored = reading.send(answer)
            except StopIteration:
                return
            answer, work = None, work + 1
            if isinstance(stored, Marker):
                self.shard.replay_end_transaction_marker(stored.producer, stored.committed)
            elif isinstance(stored, Stored):
                work += (len(stored.key) + len(stored.value or b"")) // _BYTES_A_RECORD
                try:
                    self.shard.replay(now_ms, *stored)
                except DecodeError as error:
                    _log.error("Skipped record %d of %s: %s", stored.offset, self.name, error)
            else:
                answer = yield stored
            if work >= RECORDS_A_TURN:
                work = 0
                yield None

    def serve(self) -> None:
        """Start serving, and the shard's timers."""
        self.state = ShardState.ACTIVE
        self._written_end = self.journal.end_offset
        context = self._context()
        self.shard.loaded(context)
        self.perform(context)
        if content := self.shard.content:
            _log.info("Loaded %s from %s", content, self.name)

    def close(self, failure: str = "") -> None:
        """Answer every waiting request with NOT_COORDINATOR; with `failure`, requests fail with it from now on."""
        was_open = self.is_open
        self.state, self.failure = ShardState.FAILED if failure else ShardState.CLOSED, failure
        if not was_open:
            return
        context = self._context()
        self.shard.unloaded(context)
        for effect in context.effects:
            if isinstance(effect, CoordinatorResponse):
                _send_response(effect)
        self._on_change()

    def _context(self) -> C:
        return self._new_context(self.timers)

    def fire(self, event: object) -> None:
        """Handle the event of a timer that is due."""
        if self.state is ShardState.ACTIVE:
            context = self._context()
            self.shard.fire(context, event)
            self.perform(context)

    def run_rule(self, rule: Callable[[C, object], None]) -> Outcome[Any]:
        """Run `rule` with a new context, and return its response."""
        to: asyncio.Future[Any] = self._loop.create_future()
        context = self._context()
        rule(context, to)
        self.perform(context)
        return to.result() if to.done() else to

    def run(self, work: Callable[[C], None]) -> None:
        """Run `work` with a new context; no request waits for it."""
        context = self._context()
        work(context)
        self.perform(context)

    def perform(self, context: C) -> None:
        """Perform the effects of `context`, and of the continuations that can run at once."""
        effects = deque(context.effects)
        while effects:
            effect = effects.popleft()
            if isinstance(effect, CoordinatorResponse):
                _send_response(effect)
                continue
            outcome = self._append(effect.records)
            if outcome is None:
                self._perform_later(effect.then, self._written_end)
                continue
            context.effects = []
            effect.then(context, outcome)
            effects.extend(context.effects)
        self._on_change()

    def _append(self, records: list[Record]) -> ErrorCode | None:
        """Append `records` and return the result of everything written so far, None while it is unknown.

        A closed host appends nothing.
        """
        if not self.is_open:
            # The partition may be led here again, with another host that has not replayed these records.
            return ErrorCode.NOT_COORDINATOR
        try:
            if records:
                self._written_end = self.journal.append(records) + len(records)
            outcome = self.journal.outcome(self._written_end)
        except KafkaError as error:
            outcome = error.code
        return None if outcome is None else coordinator_error(outcome)

    def _perform_later(self, then: Callable[[C, ErrorCode], None], end: int) -> None:
        def on_outcome(outcomes: asyncio.Future[list[ErrorCode]]) -> None:
            context = self._context()
            then(context, self._write_result(outcomes))
            self.perform(context)

        self.journal.await_outcome(end).add_done_callback(on_outcome)

    def write(self, decide: Callable[[S, C], CoordinatorResult[T]], origin: AppendOrigin = COORDINATOR) -> Outcome[T]:
        """Append and replay the records that `decide` returns; return its response once they are committed.

        `origin` shows that a transaction is verified. KafkaError, with no state changed, if `decide` refuses or a batch
        cannot be written; earlier batches stay.
        """
        records, response, producer, is_atomic = decide(self.shard, self._context())
        if records:
            for batch in [records] if is_atomic else _batches(records):
                self._store(batch, producer, origin)
        return self.after(response)

    def complete_transaction(
        self, producer: ProducerIdAndEpoch, marker: EndTxnMarker, transaction_version: int
    ) -> Outcome[None]:
        """Append and replay the marker of a producer's transaction; return once it is committed.

        KafkaError, untranslated and with no state changed, if the log refuses the marker: the transaction coordinator
        handles the errors of partitions.
        """
        self._written_end = self.journal.append_marker(producer, marker, transaction_version) + 1
        self.shard.replay_end_transaction_marker(producer, marker.committed)
        self._on_change()
        return self.after(None)

    def _store(
        self, records: list[Record], producer: ProducerIdAndEpoch | None = None, origin: AppendOrigin = COORDINATOR
    ) -> None:
        try:
            base = self.journal.append(records, producer, origin)
        except KafkaError as error:
            raise KafkaError(coordinator_error(error.code), error.message) from error
        now_ms = self._context().now_ms
        for offset, (key, value) in enumerate(records, base):
            self.shard.replay(now_ms, offset, key, value, producer)
        self._written_end = base + len(records)
        self._on_change()

    async def write_in_steps(self, failure: str, decide: StepwiseWrite[S, C]) -> None:
        """Write what `decide` yields, in turns of the loop; while the shard is loading, defer that.

        No request waits for these records: those that cannot be written are decided again later, and an exception is
        logged as `failure`.
        """
        if self.state is ShardState.LOADING:
            self._deferred.append((failure, decide))
            return
        found: list[Record] = []
        try:
            for count, records in enumerate(decide(self.shard, self._context()), 1):
                if not self.is_open:
                    return
                found += records
                if count % _KEYS_A_TURN == 0 or len(found) >= RECORDS_A_TURN:
                    self._write_unawaited(found)
                    found = []
                    await asyncio.sleep(0)
            if found:
                self._write_unawaited(found)
                await asyncio.sleep(0)
        except InvariantError:
            raise
        except Exception:
            _log.exception("%s: %s", self.name, failure)

    async def write_deferred(self) -> None:
        """Write what was deferred until the shard is loaded."""
        deferred, self._deferred = self._deferred, []
        for failure, decide in deferred:
            await self.write_in_steps(failure, decide)

    def _write_unawaited(self, records: list[Record]) -> None:
        for batch in _batches(records):
            try:
                self._store(batch)
            except KafkaError as error:
                _log.warning("Writing %s to %s failed: %s", count_of(len(batch), "record"), self.name, error)
                return

    def read(self) -> Outcome[S]:
        """Return the shard for reading, once everything written so far is committed."""
        return self.after(self.shard)

    def after(self, result: T) -> Outcome[T]:
        """Return `result` once everything written so far is committed."""
        outcome = self.journal.outcome(self._written_end)
        if outcome is not None:
            return _result_or_raise(coordinator_error(outcome), result)
        given: asyncio.Future[T] = self._loop.create_future()

        def on_outcome(outcomes: asyncio.Future[list[ErrorCode]]) -> None:
            if given.done():
                return
            try:
                given.set_result(_result_or_raise(self._write_result(outcomes), result))
            except KafkaError as failure:
                given.set_exception(failure)

        self.journal.await_outcome(self._written_end).add_done_callback(on_outcome)
        return given

    def _write_result(self, outcomes: asyncio.Future[list[ErrorCode]]) -> ErrorCode:
        """Return the result of a write; NOT_COORDINATOR if the shard is closed."""
        if not self.is_open or outcomes.cancelled():
            return ErrorCode.NOT_COORDINATOR
        return coordinator_error(outcomes.result()[0])


def _result_or_raise(error: ErrorCode, result: T) -> T:
    if error != ErrorCode.NONE:
        raise KafkaError(error)
    return result


def _batches(records: list[Record]) -> Iterator[list[Record]]:
    """Split `records` into lists, each for one batch."""
    batch: list[Record] = []
    size_bytes = 0
    for key, value in records:
        record_bytes = len(key) + len(value or b"")
        if batch and (size_bytes + record_bytes > _BATCH_BYTES or len(batch) == _BATCH_RECORDS):
            yield batch
            batch, size_bytes = [], 0
        batch.append((key, value))
        size_bytes += record_bytes
    if batch:
        yield batch


def _send_response(answer: CoordinatorResponse) -> None:
    to = cast("asyncio.Future[Any]", answer.to)
    if not to.done():
        to.set_result(answer.result)
