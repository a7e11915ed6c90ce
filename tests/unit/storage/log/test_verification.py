"""Verification of transactions in one partition (KIP-890)."""

from typing import Any

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import MAX_SEQUENCE, BatchHeader, EndTxnMarker
from storage.log.producer_state import CLIENT_IN_TRANSACTION, AppendedBatch, AppendOrigin, ProducerStateManager
from storage.log.verification import MAX_VERIFICATIONS, NOT_VERIFIED, VerificationGuard

NOW_MS = 5000
PRODUCER = 7


class Partition:
    """The producer state of a log of headers."""

    def __init__(self) -> None:
        self.state = ProducerStateManager()

    def header(self, sequence: int, epoch: int, count: int = 1, *, txn: bool = True) -> BatchHeader:
        at = self.state.end_offset
        return BatchHeader(at, 100, 0, 2, 0, txn * 0x10, count - 1, 0, 0, PRODUCER, epoch, sequence, count)

    def start(self, epoch: int = 0, sequence: int = 0, *, adds: bool = False) -> VerificationGuard | None:
        return self.state.start_verification(PRODUCER, epoch, sequence, NOW_MS, supports_epoch_bump=adds)

    def append(
        self, sequence: int = 0, epoch: int = 0, guard: VerificationGuard | None = None, *, from_client: bool = True
    ) -> AppendedBatch | None:
        header = self.header(sequence, epoch)
        duplicate = self.state.check(header, AppendOrigin(from_client, guard=guard))
        if duplicate is None:
            self.state.update(header)
        return duplicate

    def refused(self, *args: Any, **named: Any) -> ErrorCode:
        before = self.state.end_offset
        with pytest.raises(KafkaError) as refused:
            self.append(*args, **named)
        assert self.state.end_offset == before
        return refused.value.code

    def end(self, epoch: int = 0, *, committed: bool = False) -> None:
        at = self.state.end_offset
        header = BatchHeader(at, 100, 0, 2, 0, 0x30, 0, 0, 0, PRODUCER, epoch, -1, 1)
        self.state.update(header, EndTxnMarker(committed, 0))


@pytest.fixture
def partition() -> Partition:
    return Partition()


def test_rule_14_first_batch_of_a_transaction_needs_the_guard_of_its_verification(partition: Partition) -> None:
    assert partition.refused() is ErrorCode.INVALID_TXN_STATE
    assert partition.refused(guard=VerificationGuard()) is ErrorCode.INVALID_TXN_STATE
    guard = partition.start()
    assert guard is not None
    assert partition.refused() is ErrorCode.INVALID_TXN_STATE
    assert partition.append(guard=guard) is None


def test_later_batches_of_the_open_transaction_need_none(partition: Partition) -> None:
    partition.append(guard=partition.start())
    assert partition.start() is None
    assert partition.state.in_transaction(PRODUCER, 0)
    assert partition.append(1) is None
    assert partition.state.verifications == {}


def test_guard_stays_the_same_until_a_batch_is_appended(partition: Partition) -> None:
    assert partition.start() is partition.start(sequence=4)


def test_rule_14_marker_during_the_verification_makes_its_guard_invalid(partition: Partition) -> None:
    guard = partition.start()
    partition.end()
    assert partition.refused(guard=guard) is ErrorCode.INVALID_TXN_STATE
    again = partition.start()
    assert again is not guard
    assert partition.refused(guard=guard) is ErrorCode.INVALID_TXN_STATE
    assert partition.append(guard=again) is None


def test_rule_14_late_batch_of_an_aborted_transaction_is_refused(partition: Partition) -> None:
    partition.append(guard=partition.start())
    partition.end()
    assert partition.refused(1) is ErrorCode.INVALID_TXN_STATE
    assert partition.state.first_unstable_offset == 0  # only until the marker is committed
    partition.state.high_watermark_moved(partition.state.end_offset)
    assert partition.state.first_unstable_offset is None


def test_marker_of_the_transaction_before_keeps_the_guard_of_the_next_epoch(partition: Partition) -> None:
    """With an epoch for each transaction, a repeated marker has the epoch of the transaction that follows."""
    partition.append(guard=partition.start(adds=True))
    partition.end(epoch=1)
    guard = partition.start(epoch=1, adds=True)
    partition.end(epoch=1)
    assert partition.append(0, 1, guard) is None


def test_marker_of_the_next_epoch_removes_the_guard(partition: Partition) -> None:
    guard = partition.start(epoch=1, adds=True)
    partition.end(epoch=2)
    assert partition.refused(0, 1, guard) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.state.verifications == {}


def test_rule_11_bumped_epoch_starts_at_sequence_0(partition: Partition) -> None:
    partition.append(guard=partition.start(adds=True))
    partition.end(epoch=1)
    guard = partition.start(epoch=1, sequence=1, adds=True)
    assert partition.refused(1, 1, guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    guard = partition.start(epoch=1, sequence=0, adds=True)
    assert partition.append(0, 1, guard) is None


def test_rule_11_batch_equal_to_one_of_the_epoch_before_is_no_duplicate(partition: Partition) -> None:
    partition.append(guard=partition.start(adds=True))
    partition.end(epoch=1)
    assert partition.append(0, 1, partition.start(epoch=1, adds=True)) is None
    assert partition.state.end_offset == 3


def test_lower_epoch_is_fenced_before_anything_is_verified(partition: Partition) -> None:
    partition.append(epoch=3, guard=partition.start(epoch=3))
    with pytest.raises(KafkaError) as refused:
        partition.start(epoch=2)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.refused(0, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.refused(0, 2, NOT_VERIFIED) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_higher_epoch_is_verified_although_a_transaction_is_open(partition: Partition) -> None:
    partition.append(guard=partition.start())
    assert partition.refused(0, 1) is ErrorCode.INVALID_TXN_STATE
    assert partition.append(0, 1, partition.start(epoch=1)) is None
    assert partition.state.open_transactions == [(0, PRODUCER)]


@pytest.mark.parametrize("committed", [True, False])
def test_rule_11_batch_equal_to_one_of_an_ended_transaction_is_refused(partition: Partition, committed: bool) -> None:
    """Its records may be new: librdkafka 2.16 uses the sequences of a batch again that it takes for lost."""
    partition.append(guard=partition.start())
    partition.end(committed=committed)
    assert partition.refused() is ErrorCode.INVALID_TXN_STATE
    assert partition.refused(guard=partition.start()) is ErrorCode.INVALID_TXN_STATE
    partition.end()
    assert partition.append(1, guard=partition.start(sequence=1)) is None
    assert partition.refused() is ErrorCode.INVALID_TXN_STATE


def test_duplicate_in_an_open_transaction_gets_its_first_offsets(partition: Partition) -> None:
    partition.append(guard=partition.start())
    partition.end()
    partition.append(1, guard=partition.start(sequence=1))
    partition.append(2)
    duplicates = partition.append(1), partition.append(2)
    assert [duplicate and duplicate.base_offset for duplicate in duplicates] == [2, 3]


def test_batch_after_one_whose_verification_failed_is_out_of_order(partition: Partition) -> None:
    """Appended first, it would make the other one out of order for good."""
    partition.start(sequence=0)
    guard = partition.start(sequence=2)
    assert partition.refused(2, 0, guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.append(0, 0, guard) is None


def test_higher_epoch_forgets_the_lowest_sequence(partition: Partition) -> None:
    partition.start(sequence=0)
    guard = partition.start(epoch=1, sequence=5)
    assert partition.append(5, 1, guard) is None


def test_unknown_producer_with_an_epoch_for_each_transaction_starts_at_sequence_0(partition: Partition) -> None:
    guard = partition.start(sequence=3, adds=True)
    assert partition.refused(3, 0, guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_unknown_producer_of_an_older_client_starts_anywhere(partition: Partition) -> None:
    assert partition.append(3, 0, partition.start(sequence=3)) is None


def test_sequence_of_the_next_transaction_continues_in_the_same_epoch(partition: Partition) -> None:
    partition.append(MAX_SEQUENCE, 0, partition.start(sequence=MAX_SEQUENCE))
    partition.end(committed=True)
    assert partition.append(0, 0, partition.start(sequence=0)) is None


def test_coordinator_is_verified_without_sequences(partition: Partition) -> None:
    assert partition.refused(-1, from_client=False) is ErrorCode.INVALID_TXN_STATE
    guard = partition.start(sequence=-1, adds=True)
    assert partition.append(0, 0, guard, from_client=False) is None
    assert partition.append(0, 0, from_client=False) is None


def test_nothing_is_verified_where_that_is_disabled(partition: Partition) -> None:
    assert partition.append(0, 0, NOT_VERIFIED) is None


def test_batch_outside_transactions_needs_no_guard(partition: Partition) -> None:
    header = partition.header(0, 0, txn=False)
    assert partition.state.check(header, CLIENT_IN_TRANSACTION) is None


def test_rule_12_verification_expires_with_its_producer(partition: Partition) -> None:
    guard = partition.start()
    partition.state.expire(NOW_MS + 99, 100)
    assert partition.start() is guard
    partition.state.expire(NOW_MS + 100, 100)
    assert partition.state.verifications == {}


class TestMemory:
    """A client can make up any number of producer ids."""

    def finish(self, partition: Partition, guard: VerificationGuard | None, *, is_known: bool) -> None:
        assert guard is not None
        partition.state.finish_verification(PRODUCER, guard, is_known=is_known)

    def test_unknown_producer_id_leaves_nothing(self, partition: Partition) -> None:
        self.finish(partition, partition.start(), is_known=False)
        assert partition.state.verifications == {}

    def test_unknown_producer_id_leaves_the_verification_of_the_same_id_that_is_in_flight(
        self, partition: Partition
    ) -> None:
        """Another client may send the id of a producer in a transaction that is not its own."""
        guard = partition.start(sequence=0)
        self.finish(partition, partition.start(sequence=0), is_known=False)
        self.finish(partition, guard, is_known=True)
        assert partition.append(guard=guard) is None

    def test_unknown_producer_id_leaves_the_lowest_sequence_of_the_producer(self, partition: Partition) -> None:
        self.finish(partition, partition.start(sequence=0), is_known=True)
        guard = partition.start(sequence=2)
        self.finish(partition, guard, is_known=False)
        assert partition.refused(2, 0, guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_response_after_a_marker_leaves_the_next_verification(self, partition: Partition) -> None:
        guard = partition.start()
        partition.end()
        again = partition.start()
        self.finish(partition, guard, is_known=False)
        assert partition.append(guard=again) is None

    def test_oldest_verification_without_a_request_in_flight_is_removed(self, partition: Partition) -> None:
        guards = {}
        for producer_id in range(2 * MAX_VERIFICATIONS):
            guard = partition.state.start_verification(producer_id, 0, 0, NOW_MS, supports_epoch_bump=False)
            assert guard is not None
            guards[producer_id] = guard
            if producer_id != 3:
                partition.state.finish_verification(producer_id, guard, is_known=True)
        newest = range(MAX_VERIFICATIONS, 2 * MAX_VERIFICATIONS)
        assert list(partition.state.verifications) == [3, *newest]

    def test_verifications_that_were_in_flight_at_once_are_limited_once_they_have_finished(
        self, partition: Partition
    ) -> None:
        def start(producer_id: int) -> VerificationGuard:
            guard = partition.state.start_verification(producer_id, 0, 0, NOW_MS, supports_epoch_bump=False)
            assert guard is not None
            return guard

        count = 4 * MAX_VERIFICATIONS
        guards = {producer_id: start(producer_id) for producer_id in range(count)}
        assert len(partition.state.verifications) == count
        for producer_id, guard in guards.items():
            partition.state.finish_verification(producer_id, guard, is_known=True)
        start(count)
        assert list(partition.state.verifications) == list(range(count - MAX_VERIFICATIONS + 1, count + 1))

    def test_verification_that_is_in_flight_again_is_not_removed(self, partition: Partition) -> None:
        self.finish(partition, partition.start(), is_known=True)
        guard = partition.start()
        for producer_id in range(100, 101 + MAX_VERIFICATIONS):
            other = partition.state.start_verification(producer_id, 0, 0, NOW_MS, supports_epoch_bump=False)
            assert other is not None
            partition.state.finish_verification(producer_id, other, is_known=True)
        assert partition.append(guard=guard) is None

    def test_producer_that_the_partition_knows_keeps_its_verification(self, partition: Partition) -> None:
        partition.append(guard=partition.start())
        partition.end()
        guard = partition.start(sequence=1)
        self.finish(partition, guard, is_known=False)
        assert partition.append(1, guard=guard) is None
