from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import EndTxnMarker, end_txn_marker, read_header
from storage.log.log import Log, LogConfig
from storage.log.transaction_index import AbortedTxn
from storage.log.transaction_marker import build_marker
from tests.logs import NOW_MS, append_marker, batch, content, headers, open_log

ABORT = EndTxnMarker(committed=False, coordinator_epoch=3)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path)
    log.append_as_leader(batch(2, producer_id=7, producer_epoch=1, base_sequence=0, is_transactional=True), 4, NOW_MS)
    return log


def test_a_marker_is_a_batch_of_one_control_record() -> None:
    marker = build_marker(7, 1, ABORT, NOW_MS)
    header = read_header(marker)
    assert end_txn_marker(marker) == ABORT
    assert (header.is_control, header.is_transactional, header.record_count) == (True, True, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, -1)
    assert header.max_timestamp == NOW_MS


def test_markers_of_several_partitions_are_separate_batches() -> None:
    one, other = build_marker(7, 1, ABORT, NOW_MS), build_marker(7, 1, ABORT, NOW_MS)
    assert one == other
    one[:] = bytes(len(one))
    assert end_txn_marker(build_marker(7, 1, ABORT, NOW_MS)) == end_txn_marker(other) == ABORT


@pytest.mark.parametrize("committed", [False, True])
def test_a_leader_appends_a_marker_behind_the_transaction(log: Log, committed: bool) -> None:
    marker = build_marker(7, 1, EndTxnMarker(committed, 3), NOW_MS)
    info = append_marker(log, marker, 5, NOW_MS + 1)
    assert (info.base_offset, info.last_offset, info.leader_epoch, info.log_append_time_ms) == (2, 2, 5, -1)
    assert headers(log)[-1].partition_leader_epoch == 5
    assert content(log).endswith(marker)
    assert log.producers.producers[7].coordinator_epoch == 3
    [active] = log.segments
    assert active.transaction_index.entries == ([] if committed else [AbortedTxn(7, 0, 2, 3)])


def test_marker_gets_its_append_time_with_log_append_time(log: Log) -> None:
    log.config = LogConfig(timestamp_type="LogAppendTime")
    info = append_marker(log, build_marker(7, 1, ABORT, NOW_MS), 4, NOW_MS + 9)
    assert info.log_append_time_ms == NOW_MS + 9
    assert (headers(log)[-1].max_timestamp, headers(log)[-1].log_append_time) == (NOW_MS + 9, True)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "code"),
    [
        (0, 3, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 2, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_a_refused_marker_changes_nothing(
    log: Log, epoch: int, coordinator_epoch: int, version: int, code: ErrorCode
) -> None:
    log.producers.producers[7].coordinator_epoch = 3
    marker = build_marker(7, epoch, EndTxnMarker(True, coordinator_epoch), NOW_MS)
    with pytest.raises(KafkaError) as refused:
        append_marker(log, marker, 4, NOW_MS, transaction_version=version)
    assert refused.value.code is code
    assert (log.log_end_offset, log.producers.first_unstable_offset) == (2, 0)
