import re
from pathlib import Path
from random import Random

import protocol.records.metadata as metadata_records
from protocol.record_batch import HEADER_BYTES, build_batch
from protocol.schema import Message
from storage.disk import OsDisk
from storage.index import OffsetIndex, TimeIndex
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.producer_snapshot import encode_snapshot
from storage.producer_state import ProducerEntry, ProducerState

PAGE = (Path(__file__).parents[3] / "docs" / "FORMATS.md").read_text(encoding="utf-8")
TABLES = [
    [(int(offset), size) for offset, size in re.findall(r"^\| (\d+) \| (\d+|\*) \|", table, re.MULTILINE)]
    for table in re.split(r"^\| Offset \| Size \| Meaning \|$", PAGE, flags=re.MULTILINE)[1:]
]


def test_fields_follow_each_other_without_a_gap() -> None:
    for fields in TABLES:
        ends = [offset + int(size) for offset, size in fields if size != "*"]
        assert [offset for offset, _ in fields] == [0, *ends][: len(fields)]


def test_each_format_is_as_long_as_the_code_makes_it() -> None:
    lengths = [sum(int(size) for _, size in fields if size != "*") for fields in TABLES]
    none, one = (encode_snapshot(ProducerState(0, producers)) for producers in ({}, {1: ProducerEntry()}))
    indexes = [OffsetIndex.ENTRY.size, TimeIndex.ENTRY.size]
    assert lengths == [HEADER_BYTES, *indexes, len(none), len(one) - len(none)]


def test_every_metadata_record_is_listed_with_its_number() -> None:
    declared = {
        (each.API_KEY, name)
        for name, each in vars(metadata_records).items()
        if isinstance(each, type) and issubclass(each, Message) and each is not Message
    }
    listed = {(int(number), name) for number, name in re.findall(r"\| (\d+) \| (\w+Record) ", PAGE)}
    assert listed == declared


def test_every_kind_of_file_in_a_data_directory_is_listed(tmp_path: Path) -> None:
    manager = LogManager(OsDisk(), [str(tmp_path)], LogConfig(), now_ms=lambda: 0, random=Random(1))
    manager.open()
    manager.format("WV5yoIVIQ7q2wIB0pOwZQg", 1)
    for partition in range(3):
        log = manager.create("topic", bytes(16 * [7]), partition, LogConfig(retention_bytes=0))
        log.append_as_leader(build_batch([(b"key", b"value")]), 3, 0)
        log.update_high_watermark(1)
        log.roll(0)
    manager.delete_records(log, 1)
    log.delete_old_segments(0)
    manager.delete("topic", 0)
    manager.set_aside("topic", 1)
    manager.checkpoint()
    found = [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]
    manager.close()
    found += [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]

    drawn = PAGE.partition("```\n")[2].partition("```")[0].splitlines()[1:]
    names = [line.strip().partition("  ")[0].rstrip("/") for line in drawn]
    patterns = [
        re.sub(r"<[a-z ]*offset>", "[0-9]{20}", name)
        .replace("<32 hex digits>", "[0-9a-f]{32}")
        .replace("<topic>-<partition>", "topic-[0-9]")
        .replace("*", ".*")
        for name in names
    ]
    strange = {path.name for path in found if not any(re.fullmatch(pattern, path.name) for pattern in patterns)}
    assert strange == set()
    assert len({path.suffix for path in found}) > 6
