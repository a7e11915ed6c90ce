"""Destinations of results: each table has a micro-batch once, also if it is written twice; who writes is recorded."""

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.errors import JobError
from spark_jobs.files import Folder, claim, claim_checkpoint
from spark_jobs.io import Destination, claim_results, destination, reads, refuse_feedback, write_batch
from spark_jobs.job import Job
from spark_jobs.options import StreamOptions, TopicOptions
from spark_jobs.tables import JdbcTable, iceberg_name

Row = tuple[int, str]


@pytest.fixture
def options(tmp_path: Path) -> StreamOptions:
    """Options of a query with an id."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text(json.dumps({"id": "0b4a8f4e-0000-4000-8000-000000000000"}))
    return StreamOptions(checkpoint=str(tmp_path / "checkpoint"))


def batch(spark: SparkSession, *rows: Row) -> DataFrame:
    return spark.createDataFrame(rows, "number int, end string")


def written_twice(spark: SparkSession, to: Destination, options: StreamOptions) -> None:
    """Write two batches, the second one twice, as after a crash between the results and Spark's own record."""
    write_batch(batch(spark, (1, "a"), (2, "b")), 0, to, options)
    for _ in range(2):
        write_batch(batch(spark, (3, "c")), 1, to, options)


def rows(frame: DataFrame) -> list[Row]:
    return sorted((row.number, row.end) for row in frame.collect())


def test_files_have_each_batch_once(spark: SparkSession, options: StreamOptions, tmp_path: Path) -> None:
    for kind in ("parquet", "delta"):
        written_twice(spark, destination(f"{kind}:{tmp_path}/{kind}"), options)
        assert rows(spark.read.format(kind).load(f"{tmp_path}/{kind}")) == [(1, "a"), (2, "b"), (3, "c")]


def test_an_iceberg_table_has_each_batch_once(spark: SparkSession, options: StreamOptions, tmp_path: Path) -> None:
    target = f"{tmp_path}/lake/results"
    written_twice(spark, destination(f"iceberg:{target}"), options)
    assert rows(spark.table(iceberg_name(spark, target))) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_database_has_each_batch_once(spark: SparkSession, options: StreamOptions, database: str) -> None:
    written_twice(spark, destination(f"jdbc:{database}#results"), options)
    read = spark.read.format("jdbc").options(url=f"jdbc:{database}", driver="org.postgresql.Driver")
    assert rows(read.option("dbtable", "results").load()) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_batch_that_fails_between_rows_and_record_leaves_none_in_the_database(
    spark: SparkSession, options: StreamOptions, database: str
) -> None:
    to = destination(f"jdbc:{database}#half")
    write_batch(batch(spark, (1, "a")), 0, to, options)
    wrong = spark.createDataFrame([(2, "b")], "number int, other string")
    with pytest.raises(Exception, match="other"):
        write_batch(wrong, 1, to, options)
    write_batch(batch(spark, (3, "c")), 1, to, options)
    read = spark.read.format("jdbc").options(url=f"jdbc:{database}", driver="org.postgresql.Driver")
    assert rows(read.option("dbtable", "half").load()) == [(1, "a"), (3, "c")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("table:x", "write topic:NAME, parquet:DIR, delta:DIR, iceberg:DIR, jdbc:URL#TABLE or console"),
        ("topics:x", "or console; did you mean topic?"),
        ("parquet:", "'parquet:': write parquet:DIR"),
        ("console:x", "'console:x': write console"),
        ("jdbc:postgresql://h/d", "write jdbc:postgresql://HOST/DATABASE?user=USER#TABLE"),
    ],
)
def test_invalid_destinations_are_named(text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as error:
        destination(text)
    assert message in str(error.value)


def test_connectors_follow_from_the_destination() -> None:
    assert destination("console").connectors == ()
    assert destination("delta:x").connectors == ("delta",)
    assert destination("jdbc:postgresql://h/d#t").connectors == ("postgresql",)
    assert destination("jdbc:h2:mem:x#t").connectors == ()
    assert JdbcTable.parse("postgresql://h/d?user=u#s.t") == ("jdbc:postgresql://h/d?user=u", "s.t")


def test_files_are_written_whole_and_in_place_of_others(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(spark, f"{tmp_path}/new/folder")
    assert (folder.names(), folder.read("name")) == ([], None)
    folder.write("name", "first")
    folder.write("name", "zweitens: ü")
    assert (folder.names(), folder.read("name")) == (["name"], "zweitens: ü")
    folder.delete("name")
    assert folder.names() == []


class EndedError(Exception):
    """The process ends here."""


class DyingFiles:
    """A file system of Hadoop whose process ends instead of one of its changes; what it changed before stays."""

    def __init__(self, files: Any, changes: int) -> None:
        self._files = files
        self._left = changes

    def __getattr__(self, name: str) -> Any:
        if name not in ("create", "rename", "delete"):
            return getattr(self._files, name)

        def change(*arguments: Any) -> Any:
            if not self._left:
                raise EndedError
            self._left -= 1
            return getattr(self._files, name)(*arguments)

        return change


@pytest.mark.parametrize("begun", [("first",), ()])
def test_a_file_is_the_former_or_the_new_one_whenever_its_writer_ends(
    spark: SparkSession, tmp_path: Path, begun: tuple[str, ...]
) -> None:
    """Also if the next write ends early too, at any other of its steps."""

    def ended(folder: Folder, changes: int, text: str) -> bool:
        """Write until the process ends; return whether it ended before the write did."""
        dying = Folder(spark, folder.uri)
        dying._files = DyingFiles(folder._files, changes)
        try:
            dying.write("name", text)
        except EndedError:
            return True
        return False

    for steps in range(6):
        for more in range(6):
            folder = Folder(spark, f"{tmp_path}/{steps}-{more}")
            for text in begun:
                folder.write("name", text)
            former = begun[-1] if begun else None
            complete = not ended(folder, steps, "new")
            found = folder.read("name")
            assert found == "new" if complete else found in (former, "new")
            assert folder.names().count("name") == (found is not None)
            complete = not ended(folder, more, "newer")
            assert folder.read("name") == "newer" if complete else folder.read("name") in (found, "newer")
            folder.write("name", "last")
            assert (folder.read("name"), [name for name in folder.names() if name[0] != "."]) == ("last", ["name"])
            folder.delete("name")
            assert folder.read("name") is None
    folder.write("name", "former")
    assert ended(folder, 4, "new")  # of five steps: the former one is deleted
    assert folder.read("name") == "new"
    folder.delete("name")
    assert folder.read("name") is None


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_results_of_a_lost_checkpoint_are_not_written_again(
    spark: SparkSession, options: StreamOptions, tmp_path: Path, kind: str
) -> None:
    to = Destination(kind, str(tmp_path / "out"))
    claim_results(spark, to, "windows", options)
    write_batch(batch(spark, (1, "a")), 0, to, options)
    claim_results(spark, to, "windows", options)
    (tmp_path / "checkpoint" / "metadata").unlink()
    with pytest.raises(JobError, match=r"out has results of the checkpoint .*/checkpoint, which is lost: choose"):
        claim_results(spark, to, "windows", options)


def test_a_job_does_not_read_what_it_writes(spark: SparkSession) -> None:
    named, matched = (
        StreamOptions(checkpoint="unused", topic=("orders",)),
        StreamOptions(checkpoint="unused", topic_pattern="orders.*"),
    )
    for options, to in ((named, "orders"), (matched, "orders.late"), (named, "payments")):
        with pytest.raises(JobError, match=f"the job would read its own results from {to}: write them to another"):
            claim_results(spark, Destination("topic", to), "join", options, also_read="payments")
    claim_results(spark, Destination("topic", "late.orders"), "windows", matched)
    with pytest.raises(JobError, match=r"the job would read orders\.valid, which it writes: choose a --topic-pattern"):
        refuse_feedback(spark, matched, ["valid", "orders.valid"])
    refuse_feedback(spark, TopicOptions(topic=("orders", "orders.valid")), ["orders.valid"])
    assert [reads(spark, matched, name) for name in ("orders", "my-orders")] == [True, False]


@pytest.mark.parametrize("name", ["windows", "sessions", "join", "metrics", "quality"])
def test_jobs_refuse_results_of_a_lost_checkpoint_and_topics_that_their_patterns_match(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    job: Job[Any] = import_module(f"spark_jobs.{name}").JOB
    own = {"join": ["--table", "users"], "quality": ["--report", f"{tmp_path}/report.html"]}.get(name, [])
    words = ["--checkpoint", f"{tmp_path}/c", *own]
    out = str(tmp_path / "out")
    claim(spark, out, name, f"{tmp_path}/c")
    (tmp_path / "out" / "batch=000000000").mkdir()
    with pytest.raises(JobError, match="out has results of the checkpoint"):
        job.start(spark, job.parsed([*words, "-t", "orders", "--to", f"parquet:{out}"]))
    with pytest.raises(JobError, match=r"the job would read its own results from orders\.out"):
        job.start(spark, job.parsed([*words, "--topic-pattern", "orders.*", "--to", "topic:orders.out"]))


def test_a_directory_belongs_to_one_job_and_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    for _ in range(2):
        claim(spark, out, "windows", str(tmp_path / "c"))
    with pytest.raises(
        JobError, match=r"is written by windows with the checkpoint .*/c; choose another directory, or start that job"
    ):
        claim(spark, out, "windows", str(tmp_path / "other"))
    (tmp_path / "report.txt").touch()
    with pytest.raises(JobError, match="has files that no job wrote"):
        claim(spark, str(tmp_path), "windows", str(tmp_path / "c"))


def test_a_checkpoint_belongs_to_one_job_and_its_fixed_options(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "c")
    for _ in range(2):
        claim_checkpoint(spark, checkpoint, "windows", {"max_gap": "1 minute"})
    with pytest.raises(JobError, match="is of the job windows: choose another --checkpoint"):
        claim_checkpoint(spark, checkpoint, "table", {})
    with pytest.raises(JobError, match="was begun with --max-gap '1 minute', not '1 hour'"):
        claim_checkpoint(spark, checkpoint, "windows", {"max_gap": "1 hour"})
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "metadata").touch()
    with pytest.raises(JobError, match="is of another query"):
        claim_checkpoint(spark, str(tmp_path / "foreign"), "windows", {})
