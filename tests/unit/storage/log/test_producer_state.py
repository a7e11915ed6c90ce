from collections import OrderedDict
from typing import Any

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import MAX_SEQUENCE, BatchHeader, EndTxnMarker
from storage.log.producer_state import CompletedTxn, ProducerStateManager

COMMIT = EndTxnMarker(True, 0)
ABORT = EndTxnMarker(False, 0)


def batch(
    sequence: int = 0,
    count: int = 1,
    *,
    at: int = 0,
    producer: int = 7,
    epoch: int = 0,
    time: int = 1000,
    txn: bool = False,
    control: bool = False,
) -> BatchHeader:
    attributes = txn * 0x10 | control * 0x20
    return BatchHeader(at, 100, 0, 2, 0, attributes, count - 1, time, time, producer, epoch, sequence, count)


class CountedOffset(int):
    """An offset; each comparison for order with one is counted."""

    comparisons = 0

    def __lt__(self, other: int) -> bool:
        CountedOffset.comparisons += 1
        return super().__lt__(other)

    def __gt__(self, other: int) -> bool:
        CountedOffset.comparisons += 1
        return super().__gt__(other)


class Partition:
    """A log of headers: accepted batches get the next offset."""

    def __init__(self) -> None:
        self.state = ProducerStateManager()

    def append(self, sequence: int = 0, count: int = 1, **fields: Any) -> tuple[int, int]:
        """Return the first and last offset of the batch, or of its duplicate."""
        header = batch(sequence, count, at=self.state.end_offset, **fields)
        repeated = self.state.check(header)
        if repeated is not None:
            return repeated.base_offset, repeated.last_offset
        self.state.update(header)
        return header.base_offset, header.last_offset

    def end(self, marker: EndTxnMarker, *, producer: int = 7, epoch: int = 0, time: int = 1000) -> CompletedTxn | None:
        at = self.state.end_offset
        return self.state.update(
            batch(-1, at=at, producer=producer, epoch=epoch, time=time, txn=True, control=True), marker
        )

    def marker_rejected(self, marker: EndTxnMarker, epoch: int, version: int) -> ErrorCode | None:
        header = batch(-1, at=self.state.end_offset, epoch=epoch, txn=True, control=True)
        try:
            self.state.check_marker(header, marker, version)
        except KafkaError as error:
            return error.code
        return None

    def refused(self, sequence: int = 0, count: int = 1, **fields: int) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            self.append(sequence, count, **fields)
        return refused.value.code


@pytest.fixture
def partition() -> Partition:
    return Partition()


class TestSequences:
    def test_an_unknown_producer_starts_anywhere(self, partition: Partition) -> None:
        assert partition.append(500) == (0, 0)

    def test_batches_without_a_producer_are_not_checked(self, partition: Partition) -> None:
        partition.append(-1, 4, producer=-1)
        assert partition.append(-1, 1, producer=-1) == (4, 4)
        assert partition.state.producers == {}

    def test_batches_follow_one_another(self, partition: Partition) -> None:
        assert [partition.append(0, 3), partition.append(3), partition.append(4, 2)] == [(0, 2), (3, 3), (4, 5)]

    def test_duplicate_of_each_of_the_last_five_batches_returns_its_first_offsets(self, partition: Partition) -> None:
        first = [partition.append(2 * at, 2) for at in range(5)]
        assert [partition.append(2 * at, 2) for at in range(5)] == first
        assert partition.state.end_offset == 10

    def test_a_batch_older_than_the_last_five_is_out_of_order(self, partition: Partition) -> None:
        for sequence in range(6):
            partition.append(sequence)
        assert partition.refused(0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert partition.append(1) == (1, 1)

    @pytest.mark.parametrize(("sequence", "count"), [(4, 1), (2, 1), (0, 1), (1, 2), (0, 4)])
    def test_a_gap_or_an_overlap_is_out_of_order(self, partition: Partition, sequence: int, count: int) -> None:
        partition.append(0, 3)
        assert partition.refused(sequence, count) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_a_refused_batch_changes_nothing(self, partition: Partition) -> None:
        partition.append(0)
        partition.refused(5)
        assert partition.append(1) == (1, 1)

    def test_sequences_wrap_to_zero(self, partition: Partition) -> None:
        partition.append(MAX_SEQUENCE)
        assert partition.append(0) == (1, 1)
        assert partition.append(MAX_SEQUENCE) == (0, 0)

    def test_a_batch_across_the_wrap_is_one_batch(self, partition: Partition) -> None:
        assert partition.append(MAX_SEQUENCE - 1, 4) == (0, 3)
        assert partition.append(MAX_SEQUENCE - 1, 4) == (0, 3)
        assert partition.append(2) == (4, 4)

    def test_producers_are_independent(self, partition: Partition) -> None:
        partition.append(0, producer=1)
        assert partition.append(9, producer=2) == (1, 1)
        assert partition.append(0, producer=1) == (0, 0)


class TestEpochs:
    def test_a_lower_epoch_is_fenced(self, partition: Partition) -> None:
        partition.append(0, epoch=3)
        assert partition.refused(1, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_rule_11_a_higher_epoch_starts_at_zero(self, partition: Partition) -> None:
        partition.append(0, 5)
        assert partition.refused(5, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert partition.append(0, epoch=1) == (5, 5)

    def test_rule_11_window_of_the_previous_epoch_is_cleared(self, partition: Partition) -> None:
        partition.append(0)
        partition.append(1)
        partition.append(0, epoch=1)
        assert partition.refused(2, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert partition.append(1, epoch=1) == (3, 3)

    def test_follower_accepts_a_lower_epoch_from_the_leader(self, partition: Partition) -> None:
        partition.append(0, epoch=3)
        partition.state.update(batch(0, at=1, epoch=2))
        assert partition.state.producers[7].epoch == 2

    def test_an_epoch_known_only_by_its_marker_starts_at_zero(self, partition: Partition) -> None:
        partition.append(0, txn=True)
        partition.end(ABORT, epoch=1)
        assert partition.refused(1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert partition.append(0, epoch=1) == (2, 2)

    def test_rule_11_aborted_sequences_are_no_duplicates_in_the_next_epoch(self, partition: Partition) -> None:
        partition.append(0, 2, txn=True)
        partition.end(ABORT, epoch=1)
        assert partition.append(0, 2, epoch=1, txn=True) == (3, 4)


class TestTransactions:
    def test_the_first_unstable_offset_is_the_first_open_transactions(self, partition: Partition) -> None:
        assert partition.state.first_unstable_offset is None
        partition.append(0)
        partition.append(0, 2, producer=1, txn=True)
        partition.append(0, 2, producer=2, txn=True)
        partition.append(2, 2, producer=1, txn=True)
        assert partition.state.first_unstable_offset == 1

    def test_a_transaction_stays_unstable_until_its_marker_is_below_the_high_watermark(
        self, partition: Partition
    ) -> None:
        partition.append(0, 3, txn=True)
        partition.end(COMMIT)
        partition.state.high_watermark_moved(3)
        assert partition.state.first_unstable_offset == 0
        partition.state.high_watermark_moved(4)
        assert partition.state.first_unstable_offset is None

    def test_rule_13_the_smaller_of_an_open_and_an_ended_transaction_counts(self, partition: Partition) -> None:
        partition.append(0, producer=1, txn=True)
        partition.append(0, producer=2, txn=True)
        partition.end(COMMIT, producer=1)
        assert partition.state.first_unstable_offset == 0
        partition.end(ABORT, producer=2)
        partition.append(1, producer=1, txn=True)
        partition.state.high_watermark_moved(3)
        assert partition.state.first_unstable_offset == 1
        partition.state.high_watermark_moved(4)
        assert partition.state.first_unstable_offset == 4

    def test_transaction_within_an_ended_one_that_began_before_does_not_make_it_stable(
        self, partition: Partition
    ) -> None:
        for producer in (1, 2, 3):
            partition.append(0, producer=producer, txn=True)
        for producer in (2, 1, 3):
            partition.end(COMMIT, producer=producer)
        stable = []
        for high_watermark in range(3, 7):
            partition.state.high_watermark_moved(high_watermark)
            stable.append(partition.state.first_unstable_offset)
        assert stable == [0, 0, 2, None]

    def test_replay_of_ended_transactions_is_linear(self) -> None:
        """No high watermark is known during the replay of a log: all of its transactions stay unstable."""
        state = ProducerStateManager()
        count = 500
        for at in range(0, 2 * count, 2):
            state.update(batch(at // 2, at=CountedOffset(at), txn=True))
            state.update(batch(-1, at=CountedOffset(at + 1), txn=True, control=True), COMMIT)
        assert state.first_unstable_offset == 0
        assert CountedOffset.comparisons < 10 * count

    def test_first_of_many_open_transactions_is_found_without_a_scan_of_those_that_ended(self) -> None:
        """The scan of a plain dict's deleted entries calls nothing that could be counted."""
        state = ProducerStateManager()
        count = 100
        for producer in range(count):
            state.update(batch(at=producer, producer=producer, txn=True))
        for producer in range(count):
            assert state.first_unstable_offset == 0
            assert next(iter(state._open)) == producer
            state.update(batch(-1, at=count + producer, producer=producer, txn=True, control=True), COMMIT)
        assert isinstance(state._open, OrderedDict)

    @pytest.mark.parametrize(("marker", "aborted"), [(COMMIT, False), (ABORT, True)])
    def test_a_marker_ends_the_transaction(self, partition: Partition, marker: EndTxnMarker, aborted: bool) -> None:
        partition.append(0, 3, txn=True)
        assert partition.end(marker) == CompletedTxn(7, 0, 3, aborted, last_stable_offset=4)

    def test_an_ended_transactions_stable_offset_is_the_next_open_ones_start(self, partition: Partition) -> None:
        partition.append(0, 3, producer=1, txn=True)
        partition.append(0, 3, producer=2, txn=True)
        assert partition.end(ABORT, producer=1) == CompletedTxn(1, 0, 6, True, last_stable_offset=3)

    def test_a_marker_without_a_transaction_ends_none(self, partition: Partition) -> None:
        assert partition.end(COMMIT) is None
        assert partition.state.first_unstable_offset is None

    def test_an_emptied_control_batch_ends_none(self, partition: Partition) -> None:
        partition.append(0, txn=True)
        assert partition.state.update(batch(-1, at=1, txn=True, control=True)) is None
        assert partition.state.first_unstable_offset == 0

    def test_sequences_continue_behind_a_marker_of_the_same_epoch(self, partition: Partition) -> None:
        partition.append(0, 2, txn=True)
        partition.end(COMMIT)
        assert partition.refused(1, txn=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert partition.append(2, txn=True) == (3, 3)

    @pytest.mark.parametrize("marker", [COMMIT, ABORT])
    def test_rule_11_batch_equal_to_one_of_an_ended_transaction_is_refused(
        self, partition: Partition, marker: EndTxnMarker
    ) -> None:
        partition.append(0, 2, txn=True)
        partition.end(marker)
        assert partition.refused(0, 2, txn=True) is ErrorCode.INVALID_TXN_STATE
        assert partition.append(2, txn=True) == (3, 3)
        assert partition.refused(0, 2, txn=True) is ErrorCode.INVALID_TXN_STATE
        assert partition.append(2, txn=True) == (3, 3)

    def test_plain_batch_within_a_transaction_is_rejected(self, partition: Partition) -> None:
        partition.append(0, txn=True)
        assert partition.refused(1) is ErrorCode.INVALID_TXN_STATE

    @pytest.mark.parametrize(
        ("epoch", "coordinator_epoch", "version", "refused"),
        [
            (5, 3, 0, None),
            (6, 4, 2, None),
            (4, 3, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
            (5, 2, 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
            (5, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),  # each transaction has its own epoch, above its records'
            (4, 2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        ],
    )
    def test_a_marker_of_an_older_epoch_is_refused(
        self, partition: Partition, epoch: int, coordinator_epoch: int, version: int, refused: ErrorCode | None
    ) -> None:
        partition.append(0, txn=True, epoch=4)
        partition.end(EndTxnMarker(True, 3), epoch=4)
        partition.append(0, txn=True, epoch=5)
        marker = EndTxnMarker(False, coordinator_epoch)
        assert partition.marker_rejected(marker, epoch, version) is refused

    def test_marker_of_an_ended_transaction_may_be_repeated(self, partition: Partition) -> None:
        partition.append(0, txn=True, epoch=5)
        partition.end(ABORT, epoch=6)
        assert partition.marker_rejected(ABORT, 6, 2) is None
        assert partition.marker_rejected(ABORT, 5, 2) is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_the_last_epoch_of_all_ends_its_transaction_itself(self, partition: Partition) -> None:
        partition.append(0, txn=True, epoch=32767)
        assert partition.marker_rejected(ABORT, 32767, 2) is None

    def test_any_epoch_may_end_the_transaction_of_an_unknown_producer(self, partition: Partition) -> None:
        assert partition.marker_rejected(ABORT, 0, 2) is None

    def test_log_start_beyond_a_marker_completes_its_transaction(self, partition: Partition) -> None:
        partition.append(0, txn=True)
        partition.end(COMMIT)
        partition.state.log_start_moved(2)
        assert partition.state.first_unstable_offset is None


class TestExpiry:
    def test_idle_producers_are_removed(self, partition: Partition) -> None:
        partition.append(0, producer=1, time=1000)
        partition.append(0, producer=2, time=1001)
        assert partition.state.expire(1100, 100) == 1
        assert list(partition.state.producers) == [2]
        assert partition.append(55, producer=1) == (2, 2)

    def test_rule_12_a_marker_counts_as_activity(self, partition: Partition) -> None:
        partition.append(0, txn=True, time=1000)
        partition.end(COMMIT, time=1050)
        assert partition.state.expire(1100, 100) == 0
        assert partition.state.expire(1150, 100) == 1

    def test_rule_12_an_open_transaction_never_expires(self, partition: Partition) -> None:
        partition.append(0, txn=True, time=1000)
        assert partition.state.expire(10**9, 100) == 0


def test_producers_outlive_their_deleted_records(partition: Partition) -> None:
    partition.append(0)
    partition.state.log_start_moved(100)
    assert partition.state.end_offset == 100
    assert partition.append(1) == (100, 100)
