"""Apache Kafka's DumpLogSegments accepts a log after `barnabas log repair`."""

from pathlib import Path

from protocol.record_batch import iter_batches
from storage.disk import OsDisk
from storage.inspection.directory import check_log
from storage.inspection.repair import repair_log
from tests.all_files import write_all_files
from tests.oracles.dump_log_segments import dump, field


def test_kafka_reads_the_empty_batch_that_replaces_removed_records(tmp_path: Path) -> None:
    write_all_files(tmp_path)
    log = tmp_path / "t0-0"
    segment = log / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    third, header = list(iter_batches(data))[2]
    data[third + 80] ^= 1
    segment.write_bytes(data)
    for step in repair_log(OsDisk(), str(log), list(check_log(OsDisk(), str(log))), compacted=False):
        assert step.do is not None
        step.do()

    read = dump([segment, segment.with_suffix(".index"), segment.with_suffix(".timeindex")])
    lines = read.batches(segment)
    assert {field(line, "isvalid") for line in lines} == {"true"}
    taken_out = [line for line in lines if field(line, "count") == "0"]
    assert [(field(line, "baseOffset"), field(line, "lastOffset")) for line in taken_out] == [
        (str(header.base_offset), str(header.last_offset))
    ]
    # As in a compacted log, offsets are missing between records.
    assert len(read.complaints) == 2
    assert read.complaints[0].startswith("Non-consecutive offsets")
