"""The job `archive`: whole jobs on a real broker, killed in the middle, and what it refuses."""

import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_jobs import archive
from spark_jobs.archive import ArchiveOptions, archived, read_topics
from spark_jobs.archive_tables import read
from spark_jobs.errors import JobError, remedy_of
from spark_jobs.files import Folder
from spark_jobs.io import Destination
from tests.broker_process import BrokerProcess, free_address
from tests.chaos.cluster import wait_until
from tests.small_disk import small_disk
from tests.spark import exact_records
from tests.spark.exact_records import Record
from tests.spark.streams import KILLS

IMPATIENT = (
    ("kafka.default.api.timeout.ms", "3000"),
    ("kafka.request.timeout.ms", "2000"),
    ("kafkaConsumer.pollTimeoutMs", "3000"),
    ("fetchOffset.numRetries", "1"),
)


def options(broker: str, folder: Path, to: str = "parquet", **changes: object) -> ArchiveOptions:
    chosen: dict[str, object] = {
        "brokers": broker,
        "topic": ("orders",),
        "checkpoint": str(folder / "checkpoint"),
        "to": Destination(to, str(folder / "archive")),
        "available_now": True,
        "merge_files": 3,
    }
    return ArchiveOptions(**chosen | changes)  # type: ignore[arg-type]


def run(spark: SparkSession, chosen: ArchiveOptions) -> None:
    """Run the job to its end; raise JobError with its message if it fails."""
    try:
        assert archive.start(spark, chosen).awaitTermination(240)
    except Exception as error:
        raise JobError(remedy_of(error) or f"unknown: {error}") from error


def found(spark: SparkSession, folder: Path, topic: str = "orders") -> list[Record]:
    """Return the records of a topic in the archive; fail if an offset is there twice or missing."""
    table = read(spark, Folder(spark, str(folder / "archive")))
    assert table is not None
    rows = list(exact_records.rows(table.where(f"topic = '{topic}'")))
    records = [record for _, record in rows]
    for partition in {record.partition for record in records}:
        offsets = [offset for offset, record in rows if record.partition == partition]
        assert offsets == list(range(len(offsets)))
    return records


def test_the_columns_are_those_of_the_source_and_the_date_of_the_timestamp(spark: SparkSession) -> None:
    records = spark.sql(
        "SELECT X'00' key, CAST(NULL AS BINARY) value, 'orders' topic, 1 partition, 7L offset, "
        "TIMESTAMP '2026-01-31 23:59:59.999' timestamp, 1 timestampType, "
        "array(named_struct('key', 'a', 'value', X'01')) headers"
    )
    [row] = archived(records).collect()
    assert (bytes(row.key), row.value, row.partition, row.offset, row.timestampType) == (b"\0", None, 1, 7, 1)
    assert (str(row.date), row.topic, row.headers[0].key) == ("2026-01-31", "orders", "a")


def test_every_byte_of_a_topic_is_archived_once_though_the_job_is_killed(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    records = exact_records.generated(1000)
    exact_records.create(broker.bootstrap, "orders", 3)
    exact_records.produce(broker.bootstrap, "orders", records)
    out = tmp_path / "archive"
    command = [
        *(sys.executable, "-m", "spark_jobs.archive", "-b", broker.bootstrap, "-t", "orders"),
        *("--checkpoint", str(tmp_path / "checkpoint"), "--to", f"parquet:{out}", "--merge-files", "3"),
        *("--max-offsets-per-trigger", "150", "--available-now", "--master", "local[2]"),
    ]

    def writes(version: int) -> bool:
        lists = (re.fullmatch(r"(\d+)\.compact", path.name) for path in out.glob("_spark_metadata/*"))
        return max((int(one[1]) for one in lists if one), default=-1) >= version and any(out.glob("_staging/*"))

    for kill in range(KILLS):
        exact_records.kill_when(command, partial(writes, kill), "the job writes a batch")
    run(spark, options(broker.bootstrap, tmp_path))
    assert found(spark, tmp_path) == exact_records.by_partition(records)
    assert spark.read.parquet(str(out)).count() == len(records)
    assert not any(out.glob("_staging/*"))


def test_a_delta_table_goes_on_after_a_lost_checkpoint_and_with_new_partitions(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    records = exact_records.generated(60, partitions=2, huge=0)
    exact_records.create(broker.bootstrap, "orders", 2, **{"segment.ms": "3600000"})
    exact_records.produce(broker.bootstrap, "orders", records[:40])
    chosen = options(broker.bootstrap, tmp_path, "delta")
    run(spark, chosen)
    folder = Folder(spark, str(tmp_path / "archive"))
    assert read_topics(folder)["orders"].partitions == 2
    assert read_topics(folder)["orders"].config["segment.ms"] == "3600000"
    shutil.rmtree(chosen.checkpoint)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(30)
    more = [*records[40:], *(record._replace(partition=2) for record in records[40:])]
    exact_records.produce(broker.bootstrap, "orders", more)
    run(spark, chosen)
    run(spark, chosen)
    assert found(spark, tmp_path) == exact_records.by_partition([*records[:40], *more])
    assert read_topics(folder)["orders"].partitions == 3


def test_what_an_archive_refuses_and_how_it_goes_on(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="a topic does not exist: create it, or correct its name"):
        run(spark, options(broker.bootstrap, tmp_path))
    exact_records.create(broker.bootstrap, "orders", 1)
    records = [record._replace(partition=0) for record in exact_records.generated(20, huge=0)]
    exact_records.produce(broker.bootstrap, "orders", records[:10])
    chosen = options(broker.bootstrap, tmp_path)
    run(spark, chosen)

    with pytest.raises(JobError, match="no broker answers at the address of --brokers"):
        run(spark, options(free_address(), tmp_path, kafka=IMPATIENT))
    other = options(broker.bootstrap, tmp_path, checkpoint=str(tmp_path / "other"))
    with pytest.raises(JobError, match=r"archive is written by archive with the checkpoint .*/checkpoint; choose"):
        run(spark, other)

    exact_records.produce(broker.bootstrap, "orders", records[10:])
    run(spark, chosen)
    assert found(spark, tmp_path) == records

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["orders"])["orders"].result(30)
    exact_records.create(broker.bootstrap, "orders", 1)
    exact_records.produce(broker.bootstrap, "orders", [*records, *records])
    with pytest.raises(JobError, match="the topic orders was deleted and created again"):
        run(spark, chosen)
    assert found(spark, tmp_path) == records


def test_a_broker_that_goes_away_ends_the_job_and_a_restart_goes_on(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    records = [record._replace(partition=0) for record in exact_records.generated(60, huge=0)]
    exact_records.create(broker.bootstrap, "orders", 1)
    exact_records.produce(broker.bootstrap, "orders", records)
    chosen = options(broker.bootstrap, tmp_path, max_offsets_per_trigger=5, kafka=IMPATIENT)
    query = archive.start(spark, chosen)
    wait_until((tmp_path / "archive/_spark_metadata/1.compact").exists, "two batches are written", 120)
    broker.kill()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    assert "no broker answers at the address of --brokers; start one" in (remedy_of(raised.value) or str(raised.value))
    broker.start()
    run(spark, chosen)
    assert found(spark, tmp_path) == records


@pytest.mark.skipif(KILLS == 1, reason="two more starts of Spark: part of make prove")
def test_a_full_disk_under_the_checkpoint_ends_the_job_and_a_restart_goes_on(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    records = [record._replace(partition=0) for record in exact_records.generated(60, huge=0)]
    exact_records.create(broker.bootstrap, "orders", 1)
    exact_records.produce(broker.bootstrap, "orders", records)
    with small_disk(tmp_path / "small", 1 << 20) as disk:
        command = [
            *(*disk.command, sys.executable, "-m", "spark_jobs.archive", "-b", broker.bootstrap, "-t", "orders"),
            *("--checkpoint", str(disk.directory / "checkpoint"), "--to", f"parquet:{tmp_path}/archive"),
            *("--max-offsets-per-trigger", "6", "--available-now", "--master", "local[2]"),
        ]
        disk.fill(leave=80_000)
        full = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert (full.returncode, full.stderr.splitlines()[-1]) == (
            1,
            "archive: a disk is full: free space, then start the job again; it goes on where it stopped",
        )
        assert "Traceback" not in full.stderr
        disk.ballast.unlink()
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    assert found(spark, tmp_path) == records
