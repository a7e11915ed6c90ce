"""The checker of the simulated transactions: what clients know, what logs show, and what consumers may get."""

from __future__ import annotations

import pytest

from protocol.record import Record
from protocol.record_batch import EndTxnMarker, build_batch, read_header
from protocol.records.transactions import TransactionLogValue
from simulation.violation import Invariant, Violation
from storage.log.transaction_marker import build_marker
from tests.simulation.committed_reader import without_aborted
from tests.simulation.history import ID_HEADER
from tests.simulation.simulation import Simulation
from tests.simulation.transaction_history import (
    TRANSACTION_HEADER,
    Place,
    Producer,
    Transaction,
    TransactionHistory,
)
from tests.simulation.transaction_invariants import Decision, StateLog, TransactionLog

FIRST, SECOND = Place("t", 0), Place("t", 1)
PRODUCER = Producer(7, 3)
HEADERS = ((TRANSACTION_HEADER, b"a"),)


class Partition:
    """A partition's log as bytes, and the checker's model of it."""

    def __init__(self, history: TransactionHistory, place: Place) -> None:
        self.place = place
        self.model = TransactionLog(Simulation(1, 0).world, history, place)
        self.data = b""
        self._history = history

    def write(self, transaction: Transaction | None, producer: Producer = PRODUCER) -> bytes:
        """Append a record of a transaction; return its identity."""
        identity = b"%d" % self.model.end
        headers: tuple[tuple[bytes, bytes], ...] = ((ID_HEADER, identity),)
        if transaction is not None:
            headers += ((TRANSACTION_HEADER, transaction.name.encode()),)
            transaction.sent[identity] = self.place
        self._append(
            build_batch(
                [Record(0, 0, None, b"", headers)],
                base_offset=self.model.end,
                is_transactional=transaction is not None,
                producer_id=producer.producer_id if transaction is not None else -1,
                producer_epoch=producer.epoch,
                base_sequence=0,
            )
        )
        return identity

    def mark(self, committed: bool, producer: Producer = PRODUCER) -> None:
        """Append a marker."""
        batch = build_marker(*producer, EndTxnMarker(committed, 0), 0)
        batch[:8] = self.model.end.to_bytes(8, "big")
        self._append(batch)

    def _append(self, batch: bytearray) -> None:
        self.data += bytes(batch)
        self.model.append(read_header(batch), memoryview(batch))


@pytest.fixture(name="history")
def empty_history() -> TransactionHistory:
    return TransactionHistory(Simulation(1, 0).world)


@pytest.fixture(name="partition")
def empty_partition(history: TransactionHistory) -> Partition:
    return Partition(history, FIRST)


@pytest.fixture(name="transaction")
def open_transaction(history: TransactionHistory) -> Transaction:
    return history.begin("a", "id", PRODUCER, 1)


def assert_breaks(invariant: Invariant, function: object, *args: object) -> None:
    with pytest.raises(Violation) as found:
        function(*args)  # type: ignore[operator]
    assert found.value.invariant is invariant


def test_a_transaction_that_was_not_committed_is_not_read(
    history: TransactionHistory, partition: Partition, transaction: Transaction
) -> None:
    identity = partition.write(transaction)
    transaction.requested = True
    assert_breaks(Invariant.READ_COMMITTED_IS_COMMITTED, history.read, FIRST, 0, identity, HEADERS)
    partition.mark(True)
    history.read(FIRST, 0, identity, HEADERS)
    assert_breaks(Invariant.TRANSACTIONAL_RECORDS_STAY, history.read, FIRST, 5, identity, HEADERS)
    assert_breaks(Invariant.TRANSACTIONAL_RECORDS_STAY, history.read, SECOND, 0, identity, HEADERS)


@pytest.mark.parametrize(("requested", "result"), [(None, None), (False, None), (False, False), (True, False)])
def test_only_a_requested_commit_may_be_committed(
    partition: Partition, transaction: Transaction, requested: bool | None, result: bool | None
) -> None:
    partition.write(transaction)
    transaction.requested, transaction.result = requested, result
    assert_breaks(Invariant.OUTCOME_AS_ANSWERED, partition.mark, True)


def test_an_acknowledged_commit_is_not_aborted(partition: Partition, transaction: Transaction) -> None:
    partition.write(transaction)
    transaction.requested = transaction.result = True
    assert_breaks(Invariant.OUTCOME_AS_ANSWERED, partition.mark, False)


def test_a_transaction_has_one_outcome_in_all_partitions(history: TransactionHistory, transaction: Transaction) -> None:
    first, second = Partition(history, FIRST), Partition(history, SECOND)
    first.write(transaction)
    second.write(transaction)
    transaction.requested = True
    first.mark(True)
    assert_breaks(Invariant.ONE_OUTCOME, second.mark, False)


def test_all_records_of_a_transaction_are_visible_or_none(
    history: TransactionHistory, transaction: Transaction
) -> None:
    transaction.sent = {b"1": FIRST, b"2": SECOND}
    transaction.requested = True
    history.complete({FIRST: {}, SECOND: {}})
    history.complete({FIRST: {0: b"1"}, SECOND: {5: b"2"}})
    assert_breaks(Invariant.TRANSACTIONS_ARE_ATOMIC, history.complete, {FIRST: {0: b"1"}})
    transaction.result = True
    assert_breaks(Invariant.OUTCOME_AS_ANSWERED, history.complete, {})
    transaction.offsets = {b"1": 9}
    assert_breaks(Invariant.TRANSACTIONAL_RECORDS_STAY, history.complete, {FIRST: {0: b"1"}, SECOND: {5: b"2"}})


def test_no_record_of_a_transaction_follows_its_marker(partition: Partition, transaction: Transaction) -> None:
    partition.write(transaction)
    partition.mark(False)
    assert_breaks(Invariant.NO_RECORD_AFTER_MARKER, partition.write, transaction)


def test_two_transactions_have_a_marker_between_them(
    history: TransactionHistory, partition: Partition, transaction: Transaction
) -> None:
    partition.write(transaction)
    later = history.begin("b", "id", PRODUCER, 1)
    assert_breaks(Invariant.NO_RECORD_AFTER_MARKER, partition.write, later)


def test_a_transaction_of_version_2_ends_with_a_higher_epoch(partition: Partition, transaction: Transaction) -> None:
    transaction.version = 2
    partition.write(transaction)
    assert_breaks(Invariant.TRANSACTIONAL_EPOCHS_RISE, partition.mark, False)


def test_a_partition_has_no_batch_of_an_earlier_epoch(partition: Partition, transaction: Transaction) -> None:
    partition.write(transaction)
    partition.mark(False, Producer(7, 4))
    assert_breaks(Invariant.FENCED_PRODUCERS_STAY_FENCED, partition.write, transaction, PRODUCER)


def test_last_stable_offset_is_before_the_first_open_transaction(
    history: TransactionHistory, partition: Partition, transaction: Transaction
) -> None:
    """Offset 0 is plain, 1 and 3 begin transactions, 2 is plain, 4 and 5 are markers."""
    other = history.begin("b", "other", Producer(8, 0), 1)
    partition.write(None)
    partition.write(transaction)
    partition.write(None)
    partition.write(other, Producer(8, 0))
    assert [partition.model.last_stable_offset(at) for at in range(5)] == [0, 1, 1, 1, 1]
    partition.mark(False)
    assert [partition.model.last_stable_offset(at) for at in range(6)] == [0, 1, 1, 1, 1, 3]
    partition.mark(False, Producer(8, 0))
    assert [partition.model.last_stable_offset(at) for at in range(7)] == [0, 1, 1, 1, 1, 3, 6]


def test_a_consumer_drops_aborted_transactions(partition: Partition, transaction: Transaction) -> None:
    partition.write(None)
    partition.write(transaction)
    partition.mark(False)
    assert without_aborted(partition.data, 0, [(1, 7)])[1] == 3
    assert [one.offset for one in without_aborted(partition.data, 0, [(1, 7)])[0]] == [0]
    assert [one.offset for one in without_aborted(partition.data, 0, [])[0]] == [0, 1]
    assert [one.offset for one in without_aborted(partition.data, 1, [(5, 7)])[0]] == [1]


def test_epochs_of_a_transactional_id_rise(history: TransactionHistory) -> None:
    history.initialized("id", Producer(7, 0), Producer(-1, -1))
    history.initialized("id", Producer(7, 2), Producer(7, 1))
    assert history.newest("id") == (7, 2)
    assert_breaks(Invariant.TRANSACTIONAL_EPOCHS_RISE, history.initialized, "id", Producer(7, 2), Producer(7, 2))
    assert_breaks(Invariant.TRANSACTIONAL_EPOCHS_RISE, history.continued, "id", Producer(7, 3), Producer(7, 3))
    assert_breaks(
        Invariant.FENCED_PRODUCERS_STAY_FENCED, history.accepted, "id", Producer(7, 1), Producer(7, 2), "EndTxn"
    )


def state(status: int, epoch: int = 3) -> bytes:
    partitions = [TransactionLogValue.PartitionsSchema(topic="t", partition_ids=[0])]
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=epoch,
        transaction_timeout_ms=1,
        transaction_status=status,
        transaction_partitions=partitions if status else None,
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=0,
    )
    return b"\0\0" + value.encode(0)


def test_states_of_a_transactional_id_follow_each_other() -> None:
    states = StateLog(Simulation(1, 0).world)
    states.apply("id", state(0))
    assert_breaks(Invariant.TRANSACTION_STATES_FOLLOW, states.apply, "id", state(2))
    states = StateLog(Simulation(1, 0).world)
    states.apply("id", state(1))
    assert_breaks(Invariant.TRANSACTIONAL_EPOCHS_RISE, states.apply, "id", state(1, epoch=2))


def test_a_transaction_is_completed_after_its_markers(partition: Partition, transaction: Transaction) -> None:
    states = StateLog(Simulation(1, 0).world)
    for status in (0, 1, 3):
        states.apply("id", state(status))
    assert states.decided == {Decision(PRODUCER, False)}
    assert states.unfinished == ["id"]
    states.apply("id", state(5))
    assert states.unfinished == []
    partition.write(transaction)
    assert_breaks(Invariant.MARKED_BEFORE_COMPLETED, states.check_completed, {FIRST: partition.model})
    partition.mark(False)
    states.check_completed({FIRST: partition.model})
