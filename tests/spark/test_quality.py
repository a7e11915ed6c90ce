"""The job `quality`: its transforms on small frames, and the whole job, killed in the middle, beside plain Python."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.errors import JobError
from spark_jobs.files import claim
from spark_jobs.io import Destination
from spark_jobs.quality import QualityOptions, collected, counted, facts, start, summaries
from spark_jobs.quality_report import FieldCount, Named, WindowQuality
from tests.broker_process import BrokerProcess
from tests.spark.streams import (
    DAY_MS,
    KILLS,
    KilledJob,
    StreamRecord,
    create,
    finished,
    flights,
    with_oddities,
    write,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RECORDS = "key binary, value binary, topic string, partition int, timestamp timestamp"
IDENTITY = ("carrier", "flight", "origin", "time_hour")


def options(**changes: object) -> QualityOptions:
    return QualityOptions(**{"report": "unused.html", **changes})  # type: ignore[arg-type]


def records(spark: SparkSession, *values: bytes | None, key: bytes | None = b"k") -> DataFrame:
    """Return records of partition 0, one a minute from noon on."""
    rows = [(key, value, "t", 0, NOON + timedelta(minutes=number)) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, RECORDS)


def windows(frame: DataFrame, chosen: QualityOptions) -> list[WindowQuality]:
    return sorted(collected(summaries(counted(facts(frame, chosen), chosen))), key=lambda one: one.start)


def test_values_are_objects_null_or_malformed(spark: SparkSession) -> None:
    values = [b"{}", b'{"a": 1}', None, b"", b"{", b"[1]", b"5", b"null", b'{"a": 1, "a": 2}']
    [window] = windows(records(spark, *values), options())
    assert (window.records, window.objects, window.nulls, window.malformed) == (9, 2, 1, 6)
    assert window.bytes == sum(len(value or b"") for value in values) + 9
    assert (window.oldest, window.newest) == (NOON, NOON + timedelta(minutes=8))


def test_fields_are_counted_by_their_types(spark: SparkSession) -> None:
    first = b'{"n": 1, "s": "x", "b": true, "z": null, "a": [1, {"x": 1}], "o": {"i": 1, "s": {"t": 1.5}}, "$.odd": 1}'
    [window] = windows(records(spark, first, b'{"n": 1.5}', b'{"n": 1e300}', b'{"n": "1", "s": null}'), options())
    assert set(window.fields) == {
        FieldCount("n", "number", 3),
        FieldCount("n", "string", 1),
        FieldCount("s", "string", 1),
        FieldCount("s", "null", 1),
        FieldCount("b", "boolean", 1),
        FieldCount("z", "null", 1),
        FieldCount("a", "array", 1),
        FieldCount("o", "object<i: number, s: object<t: number>>", 1),
        FieldCount("$.odd", "number", 1),
    }


def test_identities_are_fields_or_the_whole_record(spark: SparkSession) -> None:
    values = [b'{"id": 1, "x": 1}', b'{"id": 1, "x": 2}', b'{"id": 2, "x": 1}', b'{"x": 1}', b"bad", b"bad", None]
    [by_id] = windows(records(spark, *values), options(unique="id"))
    assert (by_id.identified, by_id.identities, by_id.duplicates) == (3, 2, 1)
    [pair] = windows(records(spark, *values), options(unique="id, x"))
    assert (pair.identified, pair.duplicates) == (3, 0)
    [whole] = windows(records(spark, *values), options())
    assert (whole.identified, whole.duplicates) == (7, 1)
    swapped = records(spark, b"v", key=None).union(records(spark, None, key=b"v"))
    assert windows(swapped, options())[0].duplicates == 0


def test_keys_partitions_topics_and_windows_are_apart(spark: SparkSession) -> None:
    rows = [
        *((b"a", b"{}", "t", 0, NOON) for _ in range(3)),
        (b"b", b"{}", "t", 1, NOON),
        (None, b"{}", "t", 1, NOON),
        (b"a", b"{}", "u", 0, NOON),
        (b"a", b"{}", "t", 0, NOON + timedelta(hours=1)),
    ]
    found = {(one.topic, one.start): one for one in windows(spark.createDataFrame(rows, RECORDS), options())}
    assert {key: one.records for key, one in found.items()} == {
        ("t", NOON): 5,
        ("u", NOON): 1,
        ("t", NOON + timedelta(hours=1)): 1,
    }
    first = found["t", NOON]
    assert (first.keys, first.null_keys) == (2, 1)
    assert set(first.top_keys) == {Named("a", 3), Named("b", 1), Named(None, 1)}
    assert first.top_keys[0] == Named("a", 3)
    assert first.partitions == (Named("0", 3), Named("1", 2))
    assert first.largest_key_share == 3 / 4


def test_delays_are_from_the_field_to_the_timestamp(spark: SparkSession) -> None:
    values = [b'{"at": "2026-01-01T11:59:50Z"}', b'{"at": "2026-01-01T12:00:40.500Z"}', b'{"at": "noon"}', b"{}"]
    [window] = windows(records(spark, *values), options(time="at"))
    assert (window.mean_delay_s, window.longest_delay_s) == ((10 + 19.5) / 2, 19.5)
    [without] = windows(records(spark, *values), options())
    assert without.longest_delay_s is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"report": "absent/q.html"}, "the directory of --report does not exist: .*absent; create it"),
        ({"window": "hour"}, "--window: 'hour': write an interval such as '5 minutes'"),
        ({"to": Destination("console", "")}, "--to needs --checkpoint"),
        ({"topic": ()}, "name the topics by --topic NAME"),
    ],
)
def test_bad_options_are_named(spark: SparkSession, changes: dict[str, object], message: str) -> None:
    with pytest.raises(JobError, match=message):
        start(spark, options(**{"topic": ("t",), **changes}))


def test_a_report_without_a_checkpoint_is_written_at_once_and_named(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    with BrokerProcess(tmp_path / "broker") as broker:
        create(broker.bootstrap, "orders")
        write(broker.bootstrap, "orders", [StreamRecord(None, b'{"colour": "red"}', int(NOON.timestamp()) * 1000)])
        chosen = options(brokers=broker.bootstrap, topic=("orders",), report=str(report))
        assert start(spark, chosen) is None
    assert capsys.readouterr().err == f"quality: the report is {report}\n"
    assert "colour" in report.read_text()


def test_a_table_of_another_job_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    claim(spark, str(tmp_path / "out"), "windows", str(tmp_path / "other"))
    to = Destination("parquet", str(tmp_path / "out"))
    with pytest.raises(JobError, match=r"is written by windows with the checkpoint .*other; choose another"):
        start(spark, options(topic=("t",), to=to, checkpoint=str(tmp_path / "c")))


def expected(stream: Iterable[StreamRecord]) -> dict[datetime, WindowQuality]:
    """Return the days of a stream, computed in plain Python."""
    days: dict[int, list[StreamRecord]] = defaultdict(list)
    for record in stream:
        days[record.timestamp_ms // DAY_MS].append(record)
    return {(one := summed(day, found)).start: one for day, found in days.items()}


def summed(day: int, found: list[StreamRecord]) -> WindowQuality:
    fields: Counter[tuple[str, str]] = Counter()
    identities: list[tuple[object, ...]] = []
    malformed = 0
    for record in found:
        try:
            value = None if record.value is None else json.loads(record.value)
        except ValueError:
            value = 0
        if isinstance(value, dict):
            kinds = {int: "number", float: "number", str: "string", type(None): "null"}
            fields.update((name, kinds[type(content)]) for name, content in value.items())
            if None not in (identity := tuple(value.get(name) for name in IDENTITY)):
                identities.append(identity)
        elif record.value is not None:
            malformed += 1
    keys = Counter(record.key.decode() for record in found if record.key is not None)
    start_s = day * DAY_MS // 1000
    return WindowQuality(
        "flights",
        datetime.fromtimestamp(start_s, UTC),
        datetime.fromtimestamp(start_s + 86_400, UTC),
        len(found),
        sum(record.value is None for record in found),
        malformed,
        sum(len(record.key or b"") + len(record.value or b"") for record in found),
        len(keys),
        sum(record.key is None for record in found),
        tuple(Named(key, count) for key, count in keys.items()),
        (Named("0", len(found)),),
        len(identities),
        len(set(identities)),
        tuple(FieldCount(*one, count) for one, count in sorted(fields.items())),
        None,
        None,
        datetime.fromtimestamp(min(record.timestamp_ms for record in found) / 1000, UTC),
        datetime.fromtimestamp(max(record.timestamp_ms for record in found) / 1000, UTC),
    )


def comparable(window: WindowQuality) -> dict[str, object]:
    """Return the fields of a window; keys as a set, without the number of null keys, which is given apart."""
    top = {one for one in window.top_keys if one.name is not None}
    return {**vars(window), "top_keys": top, "fields": sorted(window.fields)}


def killed_reports(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Iterator[KilledJob]:
    """The windows are summed up once."""
    stream = with_oddities(flights(6))
    create(broker.bootstrap, "flights")
    write(broker.bootstrap, "flights", stream)
    report, out, checkpoint = tmp_path / "q.html", tmp_path / "out", tmp_path / "checkpoint"
    words = [
        *("-b", broker.bootstrap, "-t", "flights", "--window", "1 day", "--lateness", "1 day", "--available-now"),
        *(
            "--unique",
            ",".join(IDENTITY),
            "--max-offsets-per-trigger",
            str(len(stream) // (4 * KILLS)),
            "--to",
            f"parquet:{out}",
        ),
        *("--report", str(report)),
    ]
    yield KilledJob("quality", words, checkpoint)
    chosen = options(
        brokers=broker.bootstrap,
        topic=("flights",),
        window="1 day",
        lateness="1 day",
        unique=",".join(IDENTITY),
        max_offsets_per_trigger=len(stream) // 3,
        available_now=True,
        to=Destination("parquet", str(out)),
        report=str(report),
        checkpoint=str(checkpoint),
    )
    finished(start(spark, chosen))
    right = expected(stream)
    newest = max(record.timestamp_ms for record in stream)
    closed = {at for at, one in right.items() if one.end.timestamp() * 1000 <= newest - DAY_MS}
    assert len(closed) >= 4
    rows = collected(spark.read.parquet(str(out)).drop("batch"))
    assert len(rows) == len(closed)
    assert {one.start: comparable(one) for one in rows} == {at: comparable(right[at]) for at in closed}
    assert f"{sum(right[at].records for at in closed):,}" in report.read_text()

    once = options(
        brokers=broker.bootstrap,
        topic=("flights",),
        window="1 day",
        unique=",".join(IDENTITY),
        report=str(report),
    )
    assert start(spark, once) is None
    assert f"{len(stream):,}" in report.read_text()
