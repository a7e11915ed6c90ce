"""Apache Kafka's DumpLogSegments reads what compaction leaves: tombstones with horizons, markers, emptied batches."""

from pathlib import Path

import pytest

from protocol.compression import Compression
from storage.log.log import Log
from tests.compacted import COMPACTED, compact, end_txn, put, records
from tests.logs import NOW_MS, open_log
from tests.oracles.dump_log_segments import Dump, dump, dumpable, field


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Write a log and compact it twice, so that it has the result of every rule."""
    log = open_log(tmp_path_factory.mktemp("data"), COMPACTED._replace(segment_bytes=4000, index_interval_bytes=200))
    for number in range(60):
        codec = list(Compression)[number % 5]
        put(log, *((b"%d" % (key % 11), b"%d" % number * 9) for key in range(number, number + 7)), compression=codec)
    put(log, (b"dead", b"x"), (b"3", None), (b"other", b"1"))
    for producer, commit in ((1, True), (2, False)):
        put(log, (b"txn", b"x"), producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
        end_txn(log, producer, commit=commit)
    cleaned_to = compact(log)
    put(log, (b"txn", b"y"), (b"dead", None))
    compact(log, cleaned_to=cleaned_to)
    compact(log)
    log.close(NOW_MS)
    return log


@pytest.fixture(scope="module")
def dumped(log: Log) -> Dump:
    return dump(dumpable(Path(log.directory)))


def test_kafka_reads_the_compacted_log_without_errors(log: Log, dumped: Dump) -> None:
    # Compaction leaves gaps in offsets; the tool reports them in any log.
    gaps = ("Non-consecutive offsets in ", "is followed by")
    assert [line for line in dumped.complaints if not any(gap in line for gap in gaps)] == []
    assert sorted(dumped.files) == dumpable(Path(log.directory))


def test_kafka_reads_the_same_records(log: Log, dumped: Dump) -> None:
    lines = [line for path in sorted(dumped.files) for line in dumped.records(path) if "endTxnMarker" not in line]
    assert [(int(field(line, "offset")), int(field(line, "CreateTime"))) for line in lines] == [
        (record.offset, record.timestamp) for record in records(log)
    ]


def test_kafka_reads_delete_horizons_and_empty_batches(dumped: Dump) -> None:
    lines = [line for path in sorted(dumped.files) for line in dumped.batches(path)]
    horizons = {field(line, "deleteHorizonMs") for line in lines}
    assert f"OptionalLong[{NOW_MS + 1000}]" in horizons
    assert any(field(line, "count") == "0" and field(line, "producerId") in ("1", "2") for line in lines)
    assert any(field(line, "isControl") == "true" and field(line, "count") == "1" for line in lines)
