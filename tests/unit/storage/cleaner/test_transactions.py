from pathlib import Path

import pytest

from protocol.errors import KafkaError
from protocol.record_batch import BatchHeader, EndTxnMarker, build_batch, read_header
from storage.cleaner.transactions import Transactions, find_aborted
from storage.log.log import Log
from storage.log.transaction_index import AbortedTxn
from storage.steps import finish
from tests.compacted import COMPACTED, end_txn, put
from tests.logs import NOW_MS, open_log

COMMIT, ABORT = EndTxnMarker(True, 0), EndTxnMarker(False, 0)


def header(offset: int, producer_id: int = 1, *, txn: bool = True) -> BatchHeader:
    return read_header(
        build_batch(
            [(b"k", b"v")],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=txn,
        )
    )


def test_batches_of_an_aborted_transaction_are_known_until_its_marker() -> None:
    transactions = Transactions([AbortedTxn(1, 10, 12, 13)])
    assert not transactions.is_aborted(header(9))
    assert transactions.is_aborted(header(10))
    assert not transactions.is_aborted(header(11, 2))
    assert not transactions.is_aborted(header(11, txn=False))
    transactions.ends_nothing(header(12), ABORT)
    assert not transactions.is_aborted(header(13))


@pytest.mark.parametrize(("marker", "aborted"), [(COMMIT, []), (ABORT, [AbortedTxn(1, 5, 9, 10)])])
def test_marker_is_removable_if_no_batch_of_its_transaction_is_left(
    marker: EndTxnMarker, aborted: list[AbortedTxn]
) -> None:
    transactions = Transactions(aborted)
    assert transactions.ends_nothing(header(3), marker)
    transactions.is_aborted(header(5))
    assert not transactions.ends_nothing(header(9), marker)
    assert transactions.ends_nothing(header(10), marker)


def test_aborted_transaction_without_marker_ends_at_its_index_entry() -> None:
    transactions = Transactions([AbortedTxn(1, 5, 9, 10)])
    assert transactions.is_aborted(header(5))
    assert not transactions.is_aborted(header(10))


def test_index_entry_stays_while_batches_of_its_transaction_do() -> None:
    transactions = Transactions([AbortedTxn(1, 5, 9, 10), AbortedTxn(2, 6, 10, 11)])
    transactions.is_aborted(header(5))
    transactions.ends_nothing(header(9), ABORT)
    transactions.ends_nothing(header(10, 2), ABORT)
    assert transactions.take_ended() == [AbortedTxn(1, 5, 9, 10)]
    assert transactions.take_ended() == []


def test_emptied_marker_is_removable_and_other_control_batches_are_not() -> None:
    transactions = Transactions([])
    assert transactions.ends_nothing(header(1)._replace(record_count=0), None)
    assert not transactions.ends_nothing(header(1), None)


class TestFindAborted:
    @pytest.fixture
    def log(self, tmp_path: Path) -> Log:
        return open_log(tmp_path, COMPACTED._replace(segment_bytes=200))

    def test_transactions_are_found_over_segments(self, log: Log) -> None:
        for producer, commit in ((1, False), (2, True), (1, True), (1, False)):
            sequence = (
                sum(batch.offset_delta + 1 for batch in log.producers.producers[producer].batches)
                if producer in log.producers.producers
                else 0
            )
            put(
                log, (b"k", b"v"), producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True
            )
            end_txn(log, producer, commit=commit)
        assert finish(find_aborted(log.segments, 8)) == [AbortedTxn(1, 0, 1, 2), AbortedTxn(1, 6, 7, 8)]
        assert finish(find_aborted(log.segments, 6)) == [AbortedTxn(1, 0, 1, 2)]

    def test_marker_alone_makes_no_transaction(self, log: Log) -> None:
        end_txn(log, 1, commit=False)
        put(log, (b"k", b"v"))
        assert finish(find_aborted(log.segments, 2)) == []

    def test_a_damaged_index_ends_the_pass(self, log: Log) -> None:
        put(log, (b"k", b"v"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        end_txn(log, 1, commit=False)
        log.roll(NOW_MS)
        log.segments[0].release()
        path = next(Path(log.directory).glob("*.txnindex"))
        path.write_bytes(b"\xff" * 34)
        with pytest.raises(KafkaError, match="txnindex: entry 0 has unknown version -1"):
            finish(find_aborted(log.segments, 2))
