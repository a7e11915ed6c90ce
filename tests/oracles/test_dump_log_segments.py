"""Apache Kafka's DumpLogSegments reads what our storage writes: every batch, record, index entry and snapshot."""

from pathlib import Path
from random import Random

import pytest

from protocol.compression import Compression
from protocol.record import Record
from protocol.record_batch import EndTxnMarker, assign, build_batch, check_batch, iter_records
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.log.transaction_index import decode_entries
from storage.log.transaction_marker import build_marker
from storage.log_manager import LogManager
from tests.logs import append_marker
from tests.oracles.dump_log_segments import Dump, dump, dumpable, field

NOW_MS = 1_800_000_000_000
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=512, retention_ms=-1)
CODECS = {codec.name.lower(): codec for codec in Compression}
OTHERS = ("stamped", "truncated", "killed", "aborted")


def records_of(number: int, random: Random) -> list[Record]:
    """Return two to six records with non-monotonic timestamps."""
    return [
        Record(
            0,
            NOW_MS - random.randrange(10_000),
            f"key-{number}".encode() if index else None,
            None if index == 1 else f"value-{number}-{index}-{random.getrandbits(400)}".encode(),
            ((b"header", b"x"), (b"null", None)) if index == 2 else (),
        )
        for index in range(2 + number % 5)
    ]


def append(log: Log, codec: Compression, numbers: range, *, epoch: int = 0) -> None:
    """Append a batch for each number, by three idempotent producers in turn."""
    random = Random(f"{log.topic} {numbers}")
    for number in numbers:
        producer_id = 1000 + number % 3
        known = log.producers.producers.get(producer_id)
        sequence = known.batches[-1].last_sequence + 1 if known else 0
        batch = build_batch(
            records_of(number, random),
            compression=codec,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        check_batch(memoryview(batch))
        log.append_as_leader(batch, epoch + number // 50, NOW_MS + number)


def abort(log: Log) -> None:
    """Append transactions of three producers at a time, and abort two of the three."""
    random = Random(1)
    for number in range(120):
        batch = build_batch(
            records_of(number, random),
            producer_id=1000 + number % 3,
            producer_epoch=number // 3,
            base_sequence=0,
            is_transactional=True,
        )
        log.append_as_leader(batch, 0, NOW_MS)
        if number >= 3:
            marker = EndTxnMarker(committed=number % 3 == 0, coordinator_epoch=7)
            append_marker(log, build_marker(1000 + number % 3, number // 3, marker, NOW_MS), 0, NOW_MS)


def opened(directory: Path) -> LogManager:
    manager = LogManager(OsDisk(), [str(directory)], CONFIG, now_ms=lambda: NOW_MS, random=Random(1))
    manager.open()
    manager.format("WV5yoIVIQ7q2wIB0pOwZQg", 1)
    for _ in manager.load():
        pass
    return manager


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a log with each codec, and logs after LogAppendTime, truncation and a kill."""
    directory = tmp_path_factory.mktemp("data")
    manager = opened(directory)
    for number, (name, codec) in enumerate(CODECS.items(), 1):
        append(manager.create(name, bytes([number] * 16), 0, CONFIG), codec, range(120))
    stamped = CONFIG._replace(timestamp_type="LogAppendTime")
    append(manager.create("stamped", bytes([11] * 16), 0, stamped), Compression.GZIP, range(120))
    truncated = manager.create("truncated", bytes([12] * 16), 0, CONFIG)
    append(truncated, Compression.NONE, range(120))
    truncated.truncate_to(300)
    append(truncated, Compression.NONE, range(10), epoch=9)
    append(manager.create("killed", bytes([13] * 16), 0, CONFIG), Compression.LZ4, range(120))
    abort(manager.create("aborted", bytes([14] * 16), 0, CONFIG))
    manager.close(clean=False)

    torn = max((directory / "killed-0").glob("*.log"))
    torn.write_bytes(torn.read_bytes()[:-7])
    opened(directory).close()
    return directory


@pytest.fixture(scope="module")
def dumped(directory: Path) -> Dump:
    return dump(dumpable(directory))


def segments(directory: Path, topic: str) -> list[Path]:
    return sorted((directory / f"{topic}-0").glob("*.log"))


def test_kafka_reads_everything_without_errors(directory: Path, dumped: Dump) -> None:
    assert dumped.complaints == []
    assert sorted(dumped.files) == dumpable(directory)


@pytest.mark.parametrize("topic", [*CODECS, *OTHERS])
def test_every_log_has_many_segments_indexes_and_a_snapshot(topic: str, directory: Path, dumped: Dump) -> None:
    names = [path for path in dumped.files if path.parent.name == f"{topic}-0"]
    entries = [line for path in names if path.suffix == ".index" for line in dumped.files[path]]
    assert len(segments(directory, topic)) > (1 if topic not in ("gzip", "zstd", "stamped") else 0)
    assert sum(line.startswith("offset: ") for line in entries) > 3
    assert any(path.suffix == ".snapshot" for path in names)


@pytest.mark.parametrize("topic", CODECS)
def test_kafka_reads_the_records_that_we_wrote_with_their_codec(topic: str, directory: Path, dumped: Dump) -> None:
    batches = [line for path in segments(directory, topic) for line in dumped.batches(path)]
    assert {field(line, "compresscodec") for line in batches} == {topic}
    assert [int(field(line, "partitionLeaderEpoch")) for line in batches] == [number // 50 for number in range(120)]

    random = Random(f"{topic} {range(120)}")
    expected = [record for number in range(120) for record in records_of(number, random)]
    lines = [line for path in segments(directory, topic) for line in dumped.records(path)]
    assert [int(field(line, "offset")) for line in lines] == list(range(len(expected)))
    for line, record in zip(lines, expected, strict=True):
        assert int(field(line, "CreateTime")) == record.timestamp
        assert int(field(line, "keySize")) == (len(record.key) if record.key is not None else -1)
        assert int(field(line, "valueSize")) == (len(record.value) if record.value is not None else -1)
        assert ("headerKeys: [header,null]" in line) == bool(record.headers)
        if record.value is not None:
            assert field(line, "payload") == record.value.decode()


def test_kafka_reads_log_append_time(directory: Path, dumped: Dump) -> None:
    lines = [line for path in segments(directory, "stamped") for line in dumped.batches(path)]
    assert [int(field(line, "LogAppendTime")) for line in lines] == [NOW_MS + number for number in range(120)]


def test_kafka_reads_the_producers_of_every_snapshot(directory: Path, dumped: Dump) -> None:
    for topic in [*CODECS, "truncated", "killed"]:
        batches = [line for path in segments(directory, topic) for line in dumped.batches(path)]
        last = {field(line, "producerId"): line for line in batches}
        snapshot = max(path for path in dumped.files if path.parent.name == f"{topic}-0" and path.suffix == ".snapshot")
        assert int(snapshot.stem) == int(field(batches[-1], "lastOffset")) + 1
        lines = dumped.files[snapshot]
        assert {field(line, "producerId") for line in lines} == set(last)
        for line in lines:
            batch = last[field(line, "producerId")]
            assert field(line, "lastSequence") == field(batch, "lastSequence")
            assert field(line, "firstSequence") == field(batch, "baseSequence")
            assert field(line, "lastOffset") == field(batch, "lastOffset")
            assert field(line, "lastTimestamp") == field(batch, "CreateTime")


def test_kafka_reads_every_transaction_that_was_aborted(directory: Path, dumped: Dump) -> None:
    indexes = [path for path in dumped.files if path.suffix == ".txnindex"]
    assert {path.parent.name for path in indexes} == {"aborted-0"}
    assert len(indexes) > 1
    for path in indexes:
        read = [
            tuple(int(field(line, name)) for name in ("producerId", "firstOffset", "lastOffset", "lastStableOffset"))
            for line in dumped.files[path]
        ]
        assert read == decode_entries(path.read_bytes(), int(path.stem))
        assert read


def damaged(source: Path, target: Path, suffix: str, at: int) -> Path:
    """Copy a segment and its indexes into `target`, with one bit flipped in the file of `suffix`."""
    for kind in (".log", ".index", ".timeindex"):
        content = bytearray(source.with_suffix(kind).read_bytes())
        if kind == suffix:
            content[at] ^= 1
        (target / source.name).with_suffix(kind).write_bytes(content)
    return (target / source.name).with_suffix(suffix)


@pytest.mark.parametrize(
    ("suffix", "at", "complaint"),
    [
        (".log", 100, "isvalid: false"),
        (".log", 7, "Non-consecutive offsets"),
        (".index", 3, "Mismatches in"),
        (".timeindex", 7, "Found timestamp mismatch"),
    ],
)
def test_tool_reports_corruption(suffix: str, at: int, complaint: str, directory: Path, tmp_path: Path) -> None:
    second = segments(directory, "none")[1]
    assert complaint in "\n".join(dump([damaged(second, tmp_path, suffix, at)]).complaints)


def test_tool_reports_a_truncated_last_batch(directory: Path, tmp_path: Path) -> None:
    log = damaged(segments(directory, "none")[0], tmp_path, ".log", 7)
    log.write_bytes(log.read_bytes()[:-7])
    assert "invalid bytes at the end" in dump([log]).complaints[-1]


def test_batch_with_a_large_offset_is_read_by_kafka_in_every_codec(tmp_path: Path) -> None:
    offset = 7_000_000_000
    batches = {}
    for codec in Compression:
        batch = build_batch(records_of(4, Random(1)), compression=codec)
        assign(batch, offset, 12)
        file = tmp_path / codec.name / f"{offset:020}.log"
        file.parent.mkdir()
        file.write_bytes(batch)
        batches[file] = batch
    read = dump(batches)
    assert read.complaints == []
    for file, batch in batches.items():
        offsets = [int(field(line, "offset")) for line in read.records(file)]
        assert offsets == [record.offset for record in iter_records(batch)] == list(range(offset, offset + 6))
