"""The tables of archives: versions, merges and positions, and what readers see while every step of a write fails."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.archive_tables import (
    EMPTY,
    DataFile,
    MergeLimits,
    ParquetArchive,
    Version,
    joined,
    newest_version,
    parse_version,
    passed,
    read,
    to_merge,
    unseen,
    version_text,
)
from spark_jobs.errors import JobError
from spark_jobs.files import Folder

# Of the calls at which a writer can die, every eighth is tried, or every one.
STEP = 8 // min(8, int(os.environ.get("BARNABAS_TEST_EXAMPLES", "1")))
SOON = MergeLimits(number=3, file_bytes=1 << 20, keep_s=0)

names = st.text("abcXYZ019._-", min_size=1, max_size=20).filter(lambda name: name.strip("."))
offsets = st.dictionaries(names, st.dictionaries(st.integers(0, 9).map(str), st.integers(0, 2**62)), max_size=3)
folders = st.builds("topic={}/date=2026-01-{:02}".format, names, st.integers(1, 31))
data_files = st.builds(
    DataFile, st.builds("{}/part {}%é.parquet".format, folders, st.integers(0)), st.integers(0, 2**40), st.integers(0)
)
versions = st.builds(
    Version,
    st.integers(0),
    st.lists(data_files, min_size=1, max_size=4).map(tuple),
    offsets,
    st.lists(st.tuples(names, st.floats(0, 2**40)), max_size=3).map(tuple),
)


@given(versions, st.sampled_from(["file:/tmp/an archive", "hdfs://host:8020/100%", "s3a://bucket/a+b"]))
@settings(max_examples=50)
def test_a_version_is_read_back_from_its_list(version: Version, directory: str) -> None:
    assert parse_version(version.number, version_text(version, directory)) == version


@given(offsets, offsets)
def test_positions_never_decrease(older: dict[str, dict[str, int]], newer: dict[str, dict[str, int]]) -> None:
    both = joined(older, newer)
    assert passed(both, older)
    assert passed(both, newer)
    assert joined(both, older) == both == joined(both, newer)


@given(st.lists(data_files, max_size=30, unique=True), st.integers(1, 5), st.integers(1, 2**41))
def test_small_files_are_merged_when_a_folder_has_enough(files: list[DataFile], number: int, size: int) -> None:
    groups = to_merge(files, MergeLimits(number, size, 0))
    merged = [file for group in groups for file in group]
    assert len(set(merged)) == len(merged)
    assert all(2 * file.size < size for file in merged)
    for group in groups:
        assert len({file.folder for file in group}) == 1
        assert len(group) >= max(2, number)
    left = [file.folder for file in set(files) - set(merged) if 2 * file.size < size]
    assert all(left.count(folder) < max(2, number) for folder in left)


def frame(spark: SparkSession, first: int, number: int, partition: int = 0) -> DataFrame:
    numbers = spark.range(first, first + number, 1, 1)
    return numbers.selectExpr(
        "CAST('k' AS BINARY) AS key",
        "CAST(concat('v', id) AS BINARY) AS value",
        "CAST(NULL AS array<struct<key: string, value: binary>>) AS headers",
        f"{partition} AS partition",
        "id AS offset",
        "TIMESTAMP '2026-01-01 12:00:00' AS timestamp",
        "0 AS timestampType",
        "'orders' AS topic",
        "DATE '2026-01-01' AS date",
    )


def seen(spark: SparkSession, directory: str) -> list[int]:
    """Return the offsets that a reader of the directory finds, which knows nothing of archives."""
    return sorted(row.offset for row in spark.read.parquet(directory).select("offset").collect())


def test_only_records_from_the_position_on_are_unseen(spark: SparkSession) -> None:
    records = frame(spark, 0, 5).union(frame(spark, 0, 5, partition=1))
    left = unseen(records, {"orders": {"0": 3}, "other": {"1": 9}})
    assert sorted((row.partition, row.offset) for row in left.collect()) == [
        *((0, offset) for offset in (3, 4)),
        *((1, offset) for offset in range(5)),
    ]
    assert unseen(records, {}) is records


def test_readers_see_every_record_once_while_files_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(spark, str(tmp_path / "table"))
    table = ParquetArchive(spark, folder, SOON._replace(keep_s=3600))
    table.append(frame(spark, 0, 10), {"orders": {"0": 10}})
    counts: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            found = seen(spark, folder.uri)
            counts.append(len(found) if found == list(range(len(found))) else -1)

    reader = threading.Thread(target=look)
    reader.start()
    for batch in range(1, 6):
        table.append(frame(spark, 10 * batch, 10), {"orders": {"0": 10 * batch + 10}})
        table.merge()
    done.set()
    reader.join()
    assert counts == sorted(counts)
    assert -1 not in counts
    version = newest_version(folder)
    assert (len(version.files), version.positions) == (2, {"orders": {"0": 60}})
    assert seen(spark, folder.uri) == list(range(60))
    assert len(version.removed) == 6 == len(list(tmp_path.rglob("*.parquet"))) - len(version.files)
    ParquetArchive(spark, folder, SOON)
    assert len(list(tmp_path.rglob("*.parquet"))) == 2


class Failing(Folder):
    """A folder whose call number `at` raises, before or after it had its effect."""

    def __init__(self, spark: SparkSession, uri: str, at: int, *, after: bool) -> None:
        super().__init__(spark, uri)
        self.calls = 0
        self._at = at
        self._after = after

    def create(self, name: str, text: str) -> None:
        with self._failing():
            super().create(name, text)

    def move(self, name: str, to: str) -> None:
        with self._failing():
            super().move(name, to)

    def delete(self, name: str) -> None:
        with self._failing():
            super().delete(name)

    def _failing(self) -> "Failing":
        return self

    def __enter__(self) -> None:
        if self.calls == self._at and not self._after:
            self.calls += 1
            raise OSError("stopped before")

    def __exit__(self, *_: object) -> None:
        self.calls += 1
        if self.calls == self._at + 1 and self._after:
            raise OSError("stopped after")


def steps(spark: SparkSession, folder: Folder) -> None:
    """Append what the table does not have of three batches, and merge."""
    table = ParquetArchive(spark, folder, SOON)
    for batch in range(3):
        reached = table.positions().get("orders", {}).get("0", 0)
        if 2 * batch + 2 > reached:
            table.append(unseen(frame(spark, 2 * batch, 2), table.positions()), {"orders": {"0": 2 * batch + 2}})
    table.merge()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whatever_call_a_writer_dies_at_the_next_one_completes_the_table(
    spark: SparkSession, tmp_path: Path, after: bool
) -> None:
    counting = Failing(spark, str(tmp_path / "counted"), -1, after=False)
    steps(spark, counting)
    for at in range(STEP // 2 if after else 0, counting.calls, STEP):
        folder = Failing(spark, str(tmp_path / f"table{at}"), at, after=after)
        with pytest.raises(OSError, match="stopped"):
            steps(spark, folder)
        found = seen(spark, folder.uri) if newest_version(folder).files else []
        assert found == list(range(len(found)))
        assert len(found) == newest_version(folder).positions.get("orders", {}).get("0", 0)
        steps(spark, folder)
        assert seen(spark, folder.uri) == list(range(6))
        table = read(spark, folder)
        assert table is not None
        assert sorted(row.offset for row in table.collect()) == list(range(6))
        version = newest_version(folder)
        present = {
            str(path.relative_to(tmp_path / f"table{at}")) for path in tmp_path.glob(f"table{at}/topic*/*/*.parquet")
        }
        assert present == {file.path for file in version.files} | {path for path, _ in version.removed} & present


def test_a_second_writer_is_refused_by_the_list_that_it_wants_to_write(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(spark, str(tmp_path / "table"))
    first, second = (ParquetArchive(spark, folder, SOON) for _ in range(2))
    first.append(frame(spark, 0, 2), {"orders": {"0": 2}})
    with pytest.raises(JobError, match="another run of the job writes"):
        second.append(frame(spark, 0, 2), {"orders": {"0": 2}})
    assert seen(spark, folder.uri) == [0, 1]


def test_an_archive_that_was_moved_is_read_where_it_is(spark: SparkSession, tmp_path: Path) -> None:
    old = Folder(spark, str(tmp_path / "old"))
    ParquetArchive(spark, old, SOON).append(frame(spark, 0, 2), {"orders": {"0": 2}})
    moved = Folder(spark, str(tmp_path / "moved to a new place"))
    (tmp_path / "old").rename(tmp_path / "moved to a new place")
    table = read(spark, moved)
    assert table is not None
    assert table.count() == 2
    ParquetArchive(spark, moved, SOON).append(frame(spark, 2, 1), {"orders": {"0": 3}})
    assert seen(spark, moved.uri) == [0, 1, 2]


def test_an_empty_batch_makes_no_version(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(spark, str(tmp_path / "table"))
    ParquetArchive(spark, folder, SOON).append(frame(spark, 0, 0), {"orders": {"0": 5}})
    assert newest_version(folder) == EMPTY
    assert read(spark, folder) is None
