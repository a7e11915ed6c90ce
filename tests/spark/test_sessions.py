"""The job `sessions`: its rules beside sorting and cutting, and the job on a real broker beside plain Python."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_jobs.sessions import JOB, Session, closed, ended_by, with_event
from tests.broker_process import BrokerProcess
from tests.spark.several_jobs import start
from tests.spark.streams import KILLS, KilledJob, finished

GAP = 10
MINUTE_MS = 60_000
NOON_MS = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)


def sessions_of(times: Iterable[int], max_length_ms: int | None = None) -> list[Session]:
    empty: list[Session] = []
    return reduce(lambda found, time: with_event(found, time, 1.0, GAP, max_length_ms), times, empty)


def cut(times: Sequence[int], gap: int) -> list[list[int]]:
    """Return the times in order, cut where two are at least the gap apart."""
    found: list[list[int]] = []
    for time in sorted(times):
        if found and time - found[-1][-1] < gap:
            found[-1].append(time)
        else:
            found.append([time])
    return found


@given(st.lists(st.integers(0, 200)))
def test_sessions_are_the_sorted_events_cut_at_gaps_whatever_their_order(times: list[int]) -> None:
    expected = [Session(part[0], part[-1], len(part), float(len(part))) for part in cut(times, GAP)]
    assert sessions_of(times) == expected


@given(st.lists(st.integers(0, 200)), st.integers(1, 40))
def test_no_session_is_longer_than_allowed_and_no_event_is_lost(times: list[int], longest: int) -> None:
    found = sessions_of(times, longest)
    assert all(session.end_ms - session.start_ms <= longest for session in found)
    assert sum(session.events for session in found) == len(times)
    assert all(one.end_ms <= other.start_ms for one, other in pairwise(found))


@given(st.lists(st.integers(0, 200)), st.integers(0, 250))
def test_a_closed_session_cannot_be_joined_by_an_event_in_time(times: list[int], watermark: int) -> None:
    done, remaining = closed(sessions_of(times), watermark, GAP)
    for session in done:
        assert len(with_event([session], watermark, 1.0, GAP, None)) == 2
    for session in remaining:
        assert len(with_event([session], session.end_ms + GAP - 1, 1.0, GAP, None)) == 1
        assert session.end_ms + GAP > watermark


def test_the_end_of_a_session_has_a_reason() -> None:
    first, second = sessions_of([0, 5, 10, 15, 20], 10)
    assert (first, second) == (Session(0, 10, 3, 3.0), Session(15, 20, 2, 2.0))
    assert ended_by(first, second, GAP) == "length"
    assert ended_by(second, None, GAP) == "gap"
    assert ended_by(first, Session(20, 20, 1, 1.0), GAP) == "gap"


def produce(bootstrap: str, records: Sequence[tuple[str, int]]) -> None:
    """Write events of users, in the given order, with a malformed record, one without a key, and a closing one."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("clicks", 3, 1, config={"retention.ms": "-1"})])["clicks"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for user, time_ms in records:
        producer.produce("clicks", json.dumps({"user": user, "n": time_ms % 7}), user, timestamp=time_ms)
    producer.produce("clicks", b"{malformed", "x", timestamp=NOON_MS)
    producer.produce("clicks", None, "x", timestamp=NOON_MS)
    producer.flush()
    for partition in range(3):
        closing = json.dumps({"user": "closing"})
        producer.produce("clicks", closing, partition=partition, timestamp=NOON_MS + 10_000 * MINUTE_MS)
        producer.flush()


def killed_sessions(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Iterator[KilledJob]:
    """The sessions of each user are written once."""
    rng = random.Random(15)
    records = [
        (f"user{rng.randrange(20)}", NOON_MS + rng.randrange(600) * MINUTE_MS + rng.randrange(999)) for _ in range(1500)
    ]
    records.sort(key=lambda record: record[1] + rng.randrange(20) * MINUTE_MS)  # out of order by up to 20 minutes
    produce(broker.bootstrap, records)
    words = ["-b", broker.bootstrap, "-t", "clicks", "--key", "user", "--value", "n", "--lateness", "30 minutes"]
    words += ["--gap", "15 minutes", "--to", f"parquet:{tmp_path}/visits", "--available-now"]
    yield KilledJob("sessions", [*words, "--max-offsets-per-trigger", str(375 // KILLS)], tmp_path / "c")
    query = start(spark, JOB, JOB.parsed([*words, "--max-offsets-per-trigger", "600", "--checkpoint", f"{tmp_path}/c"]))
    finished(query)
    assert query.lastProgress is not None
    assert query.lastProgress.stateOperators[0].numRowsTotal < 10
    found = spark.read.parquet(f"{tmp_path}/visits").collect()
    expected = [
        (user, part[0], part[-1], len(part), float(sum(time % 7 for time in part)))
        for user in {user for user, _ in records}
        for part in cut([time for name, time in records if name == user], 15 * MINUTE_MS)
    ]
    assert sorted((row.key, time_ms(row.start), time_ms(row.end), row["count"], row.sum) for row in found) == sorted(
        expected
    )
    assert {row.ended_by for row in found} == {"gap"}


def time_ms(time: datetime) -> int:
    return round(time.astimezone(UTC).timestamp() * 1000)
