"""Sessions of each key: runs of records without a gap of event time, with the time-outs that end them.

    records -> events (key, time, value) -> SessionProcessor (open sessions of each key) -> destination

An event belongs to an open session of its key if it is less than `--gap` before or after it, and joins two sessions
that it is between. An open session ends in one of two ways:

    ended by    when                                                    the next event of the key
    gap         the watermark has passed the last event plus `--gap`    begins a session
    length      an event would make it longer than `--max-length`       is in a session of its own from there on

The watermark is `--lateness` behind the latest event time. Records later than that are in no session; the progress
lines count them. A session is written when the watermark has passed its last event plus the gap, so no record can
change it afterwards. Open sessions are in the query's state (RocksDB, with `transformWithStateInPandas`).

`with_event` and `closed` are the rules; they know neither Spark nor a clock. Elsewhere: `events.py`.

Delivery: tables have each session once, also after a restart. A topic is written at least once: a batch that is
repeated after a crash writes its sessions again, with the same key and value. A Parquet or Delta table with results of
a checkpoint that is lost is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from spark_jobs import io
from spark_jobs.events import EventOptions, events, write_results
from spark_jobs.job import Job, writer
from spark_jobs.options import StreamOptions, milliseconds, option

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MINUTE_MS = 60_000
STATE = "start_ms long, end_ms long, events long, total double"
RESULT = "key string, start timestamp, end timestamp, count long, sum double, ended_by string"


@dataclass(frozen=True, kw_only=True)
class SessionsOptions(EventOptions, StreamOptions):
    """The fields, the time-outs, and where the results go."""

    gap: int = option(
        "a session ends after so long without a record (default: 30 minutes)",
        default=30 * MINUTE_MS,
        metavar="INTERVAL",
        parse=milliseconds,
    )
    max_length: int | None = option(
        "a session ends when it would become longer", default=None, metavar="INTERVAL", parse=milliseconds
    )


class Session(NamedTuple):
    """A session: its first and last event in ms since 1970, their number, and the total of their values."""

    start_ms: int
    end_ms: int
    events: int
    total: float


def with_event(
    sessions: Iterable[Session], time_ms: int, value: float, gap_ms: int, max_length_ms: int | None
) -> list[Session]:
    """Return a key's open sessions, in order, after an event; events may come in any order."""
    joined = Session(time_ms, time_ms, 1, value)
    others = []
    # The nearest first: with a maximal length, an event may be able to join only one of two.
    for session in sorted(sessions, key=lambda one: (max(one.start_ms - time_ms, time_ms - one.end_ms, 0), one)):
        both = _merged(session, joined)
        near = session.start_ms - gap_ms < joined.end_ms and joined.start_ms < session.end_ms + gap_ms
        if near and (max_length_ms is None or both.end_ms - both.start_ms <= max_length_ms):
            joined = both
        else:
            others.append(session)
    return sorted([*others, joined])


def closed(sessions: Iterable[Session], watermark_ms: int, gap_ms: int) -> tuple[list[Session], list[Session]]:
    """Return the sessions that no event behind the watermark can join, and the others."""
    done: list[Session] = []
    remaining: list[Session] = []
    for session in sessions:
        (done if session.end_ms + gap_ms <= watermark_ms else remaining).append(session)
    return done, remaining


def ended_by(session: Session, following: Session | None, gap_ms: int) -> str:
    """Return what ended a session: `length` if the following one begins within the gap."""
    return "length" if following is not None and following.start_ms < session.end_ms + gap_ms else "gap"


class SessionProcessor(StatefulProcessor):
    """The sessions of all keys: `with_event` for each event, `closed` when a timer at the end of a session expires."""

    def __init__(self, gap_ms: int, max_length_ms: int | None) -> None:
        self._gap_ms = gap_ms
        self._max_length_ms = max_length_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._open: Any = handle.getListState("open", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        """Add a batch's events of a key to its sessions."""
        found = sessions = self._sessions()
        # In the order of time: that of the rows differs from one attempt at a batch to the next.
        made = (zip(frame.time_ms.tolist(), frame.value.fillna(0.0).tolist(), strict=True) for frame in rows)
        for time_ms, value in sorted(chain.from_iterable(made)):
            sessions = with_event(sessions, time_ms, value, self._gap_ms, self._max_length_ms)
        self._keep(found, sessions)
        yield from ()

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Any]:
        """Yield the sessions that have ended."""
        import pandas as pd

        found = self._sessions()
        done, remaining = closed(found, timerValues.getCurrentWatermarkInMs(), self._gap_ms)
        self._keep(found, remaining)
        following = dict(pairwise(found))
        results = [
            (key[0], *_times(one), one.events, one.total, ended_by(one, following.get(one), self._gap_ms))
            for one in done
        ]
        # Timers that expire together are all handled by the first of them.
        if results:
            yield pd.DataFrame(results, columns=["key", "start", "end", "count", "sum", "ended_by"])

    def close(self) -> None:
        """Do nothing: Spark closes the state."""

    def _sessions(self) -> list[Session]:
        if not self._open.exists():
            return []
        # Spark hands a row with integers and a float over as floats, which are exact up to the year 287396.
        return sorted(Session(int(row[0]), int(row[1]), int(row[2]), row[3]) for row in self._open.get())

    def _keep(self, before: Sequence[Session], after: Sequence[Session]) -> None:
        """Store the open sessions, with a timer at the end of each."""
        if after:
            self._open.put([tuple(session) for session in after])
        elif before:
            self._open.clear()
        timers, needed = ({session.end_ms + self._gap_ms for session in sessions} for sessions in (before, after))
        for at in timers - needed:
            self._handle.deleteTimer(at)
        for at in needed - timers:
            self._handle.registerTimer(at)


def sessions(rows: DataFrame, options: SessionsOptions) -> DataFrame:
    """Return the sessions of events: RESULT."""
    from pyspark.sql import functions as f

    # Records without an event time or a key cannot be in a session.
    timed = rows.where("key IS NOT NULL AND time IS NOT NULL").withWatermark("time", options.lateness)
    made = timed.select("key", "value", "time", f.unix_millis("time").alias("time_ms"))
    processor = SessionProcessor(options.gap, options.max_length)
    return made.groupBy("key").transformWithStateInPandas(processor, RESULT, "Append", "EventTime")


def check(options: SessionsOptions) -> None:
    """Raise JobError for options that do not fit together."""
    io.check_topics(options)
    io.check_results(options.to, options)


def start(spark: SparkSession, options: SessionsOptions) -> StreamingQuery:
    """Start the query."""
    check(options)
    io.claim_results(spark, options.to, JOB.name, options)
    rows = sessions(events(io.read_stream(spark, options), options), options)

    def write(batch: DataFrame, batch_id: int) -> None:
        write_results(batch, batch_id, options.to, options)

    return writer(rows, JOB.name, options, write).start()


def _merged(one: Session, other: Session) -> Session:
    ends = min(one.start_ms, other.start_ms), max(one.end_ms, other.end_ms)
    return Session(*ends, one.events + other.events, one.total + other.total)


def _times(session: Session) -> tuple[pd.Timestamp, pd.Timestamp]:
    import pandas as pd

    return pd.Timestamp(session.start_ms, unit="ms", tz="UTC"), pd.Timestamp(session.end_ms, unit="ms", tz="UTC")


JOB = Job(
    "sessions",
    SessionsOptions,
    start,
    "Find the sessions of each key: runs of JSON records without a gap of event time.",
    "barnabas spark run sessions -t clicks --key user --gap '30 minutes' --checkpoint /tmp/sessions --to topic:visits",
    lambda options: options.to.connectors,
    fixed=("key", "value", "time", "gap", "max_length", "lateness"),
    conf=(("spark.sql.streaming.stateStore.providerClass", ROCKSDB),),
    check=check,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
