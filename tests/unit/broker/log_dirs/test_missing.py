from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from broker.log_dirs.missing import abbreviated, missing_replicas, report_missing
from controller.image import MetadataImage
from controller.image_builder import apply_records
from protocol.records.metadata import PartitionRecord, TopicRecord
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from tests.logs import TOPIC_ID

NODE, OTHER = 1, 2
GONE, ALSO_GONE, UNASSIGNED = b"g" * 16, b"h" * 16, bytes(16)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    logs = LogManager(OsDisk(), [f"{tmp_path}/a", f"{tmp_path}/b"], LogConfig(), now_ms=lambda: 0, random=Random(1))
    logs.open()
    logs.format("cluster", NODE)
    yield logs
    logs.close()


def image(*assignments: bytes, node: int = NODE) -> MetadataImage:
    """Return the metadata of a topic whose partitions are placed in directories with these ids."""
    records = [TopicRecord(name="t", topic_id=TOPIC_ID)]
    for index, home in enumerate(assignments):
        partition = PartitionRecord(
            partition_id=index,
            topic_id=TOPIC_ID,
            replicas=[node],
            isr=[node],
            removing_replicas=[],
            adding_replicas=[],
            directories=[home],
        )
        records.append(partition)  # type: ignore[arg-type]  # always this type here
    return apply_records(MetadataImage(cluster_id="cluster"), records, offset=len(records), epoch=1)


def test_replicas_of_missing_directory_are_lost(logs: LogManager) -> None:
    known = logs.directories[1].directory_id
    lost = missing_replicas(image(GONE, known, ALSO_GONE, GONE, UNASSIGNED), NODE, logs)
    assert lost == {GONE: ["t-0", "t-3"], ALSO_GONE: ["t-2"]}


def test_a_replica_whose_log_is_in_another_directory_is_not_lost(logs: LogManager) -> None:
    logs.create("t", TOPIC_ID, 0, LogConfig())
    assert missing_replicas(image(GONE, GONE), NODE, logs) == {GONE: ["t-1"]}


def test_replicas_of_other_nodes_are_ignored(logs: LogManager) -> None:
    assert missing_replicas(image(GONE, node=OTHER), NODE, logs) == {}


def test_each_lost_directory_is_one_error_with_its_partitions_new_dirs(
    logs: LogManager, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report_missing(image(GONE, GONE, ALSO_GONE), NODE, logs)
    first, second = (record.getMessage() for record in caplog.records)
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    assert "Z2dnZ2dnZ2dnZ2dnZ2dnZw, with 2 partitions (t-0, t-1) in the metadata, is missing" in first
    assert f"start empty in {tmp_path}/a, {tmp_path}/b" in first
    assert "1 partition (t-2)" in second


def test_no_replica_starts_empty_while_failed_directory_is_present(
    logs: LogManager, caplog: pytest.LogCaptureFixture
) -> None:
    logs.directories[1].give_up(OSError("no luck"))
    report_missing(image(GONE), NODE, logs)
    assert caplog.records == []


def test_only_the_first_of_many_partitions_are_named() -> None:
    assert abbreviated([f"t-{index}" for index in range(7)]) == "7 partitions (t-0, t-1, t-2, t-3, t-4 and 2 more)"
