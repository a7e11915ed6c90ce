"""Invariants of transactions that are checked in the brokers after every event.

    TransactionLog      the committed part of one partition: which transactions are open, and where each was ended
    StateLog            that of `__transaction_state`: the state of each transactional id, and all decisions

Both are fed with committed batches, each once, by the first replica whose high watermark passes it; `Invariants`
compares the replicas. From the log alone follow the last stable offset at any high watermark, and whether a marker was
allowed. Records name their transaction; group offsets name it in their metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controller.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.errors import DecodeError
from protocol.record_batch import end_txn_marker, iter_records
from protocol.records.offsets import OffsetCommitValue, decode_value
from protocol.records.transactions import TransactionLogValue, decode_transaction_key, decode_transaction_value
from simulation.violation import Invariant
from tests.simulation.committed import headed
from tests.simulation.transaction_history import Place, Producer, Transaction, TransactionHistory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.replication.partition import Partition
    from protocol.record_batch import BatchHeader
    from simulation.cluster import Host, World
    from storage.log.log import Log

_EMPTY, _ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT, _COMPLETE_COMMIT, _COMPLETE_ABORT = range(6)
_IDLE = frozenset({_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT})
_BEFORE = {
    _EMPTY: _IDLE,
    _ONGOING: _IDLE | {_ONGOING},
    _PREPARE_COMMIT: frozenset({_ONGOING}),
    _PREPARE_ABORT: _IDLE | {_ONGOING},
    _COMPLETE_COMMIT: frozenset({_PREPARE_COMMIT}),
    _COMPLETE_ABORT: frozenset({_PREPARE_ABORT}),
}
_PREPARED = {_PREPARE_COMMIT: True, _PREPARE_ABORT: False}


class Decision(NamedTuple):
    """A result that a coordinator has decided for a transaction, by the id and epoch of its markers."""

    producer: Producer
    committed: bool


class _Open:
    """The open transaction of a producer in a partition."""

    def __init__(self, first_offset: int, producer: Producer) -> None:
        self.first_offset = first_offset
        self.producer = producer
        self.transactions: dict[str, Transaction] = {}


class TransactionLog:
    """The transactions in the committed part of a partition."""

    def __init__(self, world: World, history: TransactionHistory, place: Place) -> None:
        self._check = world.check
        self._history = history
        self._place = place
        self.end = 0
        self.open: dict[int, _Open] = {}
        """The open transactions, by producer id."""
        self.markers: set[Decision] = set()
        self._ended: set[str] = set()
        self._completed: list[tuple[int, int]] = []
        """The first offset and the marker's offset of each completed transaction."""
        self._epochs: dict[int, int] = {}

    def advance(self, log: Log, end: int) -> None:
        """Read the committed batches up to `end` that no replica has shown before."""
        for header, data in headed(log, max(self.end, log.log_start_offset), end):
            if header.base_offset >= self.end:
                self.append(header, data)

    def append(self, header: BatchHeader, data: memoryview) -> None:
        """Apply the next batch."""
        self.end = header.next_offset
        if header.producer_id < 0:
            return
        producer = Producer(header.producer_id, header.producer_epoch)
        known = self._epochs.get(header.producer_id, -1)
        self._check(
            Invariant.FENCED_PRODUCERS_STAY_FENCED,
            header.producer_epoch >= known,
            f"{self._place} has {producer} at {header.base_offset}, after epoch {known}",
        )
        self._epochs[header.producer_id] = header.producer_epoch
        if header.is_control:
            marker = end_txn_marker(data)
            if marker is not None:
                self._end(producer, header.base_offset, marker.committed)
        elif header.is_transactional:
            opened = self.open.setdefault(header.producer_id, _Open(header.base_offset, producer))
            for transaction in self._transactions_of(data):
                self._check(
                    Invariant.NO_RECORD_AFTER_MARKER,
                    transaction.name not in self._ended,
                    f"{self._place} has a record of {transaction} at {header.base_offset}, after its marker",
                )
                opened.transactions[transaction.name] = transaction
            self._check(
                Invariant.NO_RECORD_AFTER_MARKER,
                len(opened.transactions) < 2,
                f"{self._place} has no marker between {[*opened.transactions]} at {header.base_offset}",
            )

    def _transactions_of(self, data: memoryview) -> Iterable[Transaction]:
        for record in iter_records(data):
            found = self._history.transaction_of(record.headers)
            if self._place.topic == CONSUMER_OFFSETS and record.value is not None:
                found = self._history.transactions.get(_metadata(record.value))
            if found is not None:
                yield found

    def _end(self, producer: Producer, offset: int, committed: bool) -> None:
        self.markers.add(Decision(producer, committed))
        opened = self.open.pop(producer.producer_id, None)
        if opened is None:
            return
        self._completed.append((opened.first_offset, offset))
        for transaction in opened.transactions.values():
            self._ended.add(transaction.name)
            rises = transaction.version == 1 or producer.epoch > opened.producer.epoch
            self._check(
                Invariant.TRANSACTIONAL_EPOCHS_RISE,
                rises,
                f"{self._place}: the marker of {transaction} at {offset} has the epoch of its records, {producer}",
            )
            self._history.marked(self._place, transaction, committed)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset of a replica with this high watermark, at most `end`."""
        first = min((one.first_offset for one in self.open.values()), default=high_watermark)
        for begun, ended in reversed(self._completed):
            if ended >= high_watermark:
                first = min(first, begun)
        return min(first, high_watermark)


def _metadata(value: bytes) -> bytes:
    """Return the metadata of a committed offset; empty for another record."""
    try:
        return decode_value(OffsetCommitValue, value).metadata.encode()
    except DecodeError:
        return b""


class _Id:
    """The latest committed state of a transactional id."""

    def __init__(self, value: TransactionLogValue) -> None:
        self.value = value
        self.producer = Producer(value.producer_id, value.producer_epoch)
        self.status = value.transaction_status
        self.places = {
            Place(topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        }


class StateLog:
    """The transactional ids in the committed part of all partitions of `__transaction_state`."""

    def __init__(self, world: World) -> None:
        self._check = world.check
        self._world = world
        self._ends: dict[int, int] = {}
        self.ids: dict[str, _Id] = {}
        self.decided: set[Decision] = set()
        self.completed: list[tuple[str, Decision, set[Place]]] = []
        """The ids whose completion is committed, with their markers; not checked yet."""

    @property
    def unfinished(self) -> list[str]:
        """Return the ids with an open or prepared transaction."""
        return [name for name, one in self.ids.items() if one.status not in _IDLE]

    def is_ongoing(self, name: str) -> bool:
        """Return whether an id has an open transaction that is not decided."""
        return name in self.ids and self.ids[name].status == _ONGOING

    def advance(self, index: int, log: Log, end: int) -> None:
        """Read the committed records of a partition that no replica has shown before."""
        begin = max(self._ends.get(index, 0), log.log_start_offset)
        for header, data in headed(log, begin, end):
            if header.base_offset < begin:
                continue
            self._ends[index] = header.next_offset
            for record in iter_records(data):
                key = decode_transaction_key(record.key or b"")
                if key is not None:
                    self.apply(key.transactional_id, record.value)

    def apply(self, name: str, value: bytes | None) -> None:
        """Apply the next record of a transactional id."""
        if value is None:
            self.ids.pop(name, None)
            return
        before, now = self.ids.get(name), _Id(decode_transaction_value(value))
        self.ids[name] = now
        self._world.count("committed states of transactions")
        if now.status in _PREPARED:
            self.decided.add(Decision(now.producer, _PREPARED[now.status]))
        if before is None:
            return
        self._check(
            Invariant.TRANSACTION_STATES_FOLLOW,
            before.status in _BEFORE[now.status],
            f"{name} goes from state {before.status} to {now.status}",
        )
        self._check(
            Invariant.TRANSACTIONAL_EPOCHS_RISE,
            now.producer >= before.producer or now.producer.producer_id != before.producer.producer_id,
            f"{name} goes from {before.producer} to {now.producer}",
        )
        if before.status in _PREPARED and now.status in (_COMPLETE_COMMIT, _COMPLETE_ABORT):
            self.completed.append((name, Decision(before.producer, _PREPARED[before.status]), before.places))

    def check_completed(self, logs: dict[Place, TransactionLog]) -> None:
        """Check that the markers of completed transactions are committed."""
        for name, decision, places in self.completed:
            for place in places:
                self._check(
                    Invariant.MARKED_BEFORE_COMPLETED,
                    place in logs and decision in logs[place].markers,
                    f"{name} is completed, and {place} has no marker of {decision}",
                )
        self.completed.clear()


class TransactionInvariants:
    """Check the replicas of a host that an event has changed."""

    def __init__(self, world: World, history: TransactionHistory) -> None:
        self._world = world
        self._history = history
        self.logs: dict[Place, TransactionLog] = {}
        self.states = StateLog(world)
        self._scanned: dict[tuple[str, int, bytes, int], int] = {}

    def log_of(self, place: Place) -> TransactionLog:
        found = self.logs.get(place)
        if found is None:
            found = self.logs[place] = TransactionLog(self._world, self._history, place)
        return found

    def after(self, host: Host, changed: list[Partition]) -> None:
        """Check the changed replicas of a host.

        `__transaction_state` comes first, since one event may commit a decision and append its markers; completions
        come last, since one event may commit markers and the completion of a broker that is alone.
        """
        logs = [partition for partition in changed if not partition.log.offline]
        host.disk.observed = True
        for partition in logs:
            if partition.topic == TRANSACTION_STATE:
                self.states.advance(partition.index, partition.log, partition.log.high_watermark)
        for partition in logs:
            if partition.topic != TRANSACTION_STATE:
                self._check_replica(host, partition)
        self.states.check_completed(self.logs)
        host.disk.observed = False

    def _check_replica(self, host: Host, partition: Partition) -> None:
        log, place = partition.log, Place(partition.topic, partition.index)
        key = (host.name, host.starts, partition.topic_id, partition.index)
        end = log.log_end_offset
        begin = max(min(self._scanned.get(key, 0), end), log.log_start_offset)
        self._scanned[key] = end
        for header, data in headed(log, begin, end):
            if header.is_control and header.base_offset >= begin:
                self._check_marker(host, place, header, data)
        known = self.log_of(place)
        if log.high_watermark > known.end:
            known.advance(log, log.high_watermark)
        expected = max(known.last_stable_offset(log.high_watermark), log.log_start_offset)
        self._world.check(
            Invariant.STABLE_OFFSET_IS_EXACT,
            log.last_stable_offset == expected,
            f"{place} on {host.name}: the last stable offset is {log.last_stable_offset}, not {expected}, at the high"
            f" watermark {log.high_watermark}",
        )

    def _check_marker(self, host: Host, place: Place, header: BatchHeader, data: memoryview) -> None:
        marker = end_txn_marker(data)
        if marker is not None:
            decision = Decision(Producer(header.producer_id, header.producer_epoch), marker.committed)
            self._world.check(
                Invariant.DECIDED_BEFORE_MARKERS,
                decision in self.states.decided,
                f"{place} on {host.name} has a marker at {header.base_offset}, and {decision} is not committed",
            )

    @property
    def open_transactions(self) -> dict[str, list[str]]:
        """Return the names of the open transactions by partition, as far as they are known."""
        return {
            str(place): [name for one in log.open.values() for name in one.transactions]
            for place, log in self.logs.items()
            if log.open
        }

    def check_all_complete(self) -> None:
        """Check that no transaction is open, at the end of the run."""
        self._world.check(
            Invariant.TRANSACTIONS_COMPLETE, not self.open_transactions, f"open are {self.open_transactions}"
        )

    def check_coordinators(self) -> None:
        """Check that the coordinators, while they are idle, have the states of their log and no others."""
        found: dict[str, tuple[Producer, int]] = {}
        for host in self._world.hosts:
            if host.broker is not None and host.broker.transaction_coordinator is not None:
                for name, one in host.broker.transaction_coordinator.states():
                    found[name] = Producer(one.producer_id, one.producer_epoch), int(one.state)
        expected = {name: (one.producer, one.status) for name, one in self.states.ids.items()}
        self._world.check(
            Invariant.COORDINATOR_HAS_ITS_LOG,
            found == expected,
            f"the coordinators have {found}, and their logs {expected}",
        )
