"""The demo: a year of flights through three brokers and Spark. `make demo`, or `python -m spark_jobs.flights.demo`.

    topic flights --- windows (hour, origin) ----> topic delays (compacted)
         |            join with the newest planes -> Parquet
    topic planes ---- table ---------------------> Delta table

It starts a cluster with its data under `demo-data/`, loads the reference tables, starts the jobs and replays the year.
When the jobs have read everything, it draws the delays by hour and origin, and compares the results, row by row, with
the same computation in plain Python. A restart continues where the last run stopped; `--reset` deletes its data first.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from spark_jobs import join, table, windows
from spark_jobs.flights import check, feed, picture
from spark_jobs.flights.dataset import CLOSING_MS, DAYS
from spark_jobs.io import Destination
from spark_jobs.session import spark_session
from spark_jobs.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

READY = "ready: "
SMALL = (("spark.sql.shuffle.partitions", "2"), ("spark.ui.enabled", "false"))
CLOSING_RECORDS = 3  # a batch closes windows by the previous batch's watermark, so one may not be enough


def main() -> int:
    """Run the demo and return 0 if the results match."""
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.flights.demo", description=main.__doc__)
    parser.add_argument("--data", default="demo-data", metavar="DIR", help="default: %(default)s")
    parser.add_argument("--reset", action="store_true", help="delete the data of earlier runs first")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the year takes (default: %(default)s)")
    parser.add_argument("--days", type=int, default=DAYS, help="how much of the year (default: %(default)s)")
    options = parser.parse_args()
    if not 1 <= options.days <= DAYS:
        parser.error(f"argument --days: {options.days}: write a number from 1 to {DAYS}")
    if options.reset:
        shutil.rmtree(options.data, ignore_errors=True)
    os.makedirs(options.data, exist_ok=True)
    if (begun := _begun_with(options.data, options.days)) != options.days:
        parser.error(
            f"{options.data} has the first {counted(begun, 'day')}: write --days {begun}, or --reset to begin anew"
        )
    with running_cluster(f"{options.data}/cluster") as bootstrap:
        return _run(bootstrap, options.data, options.seconds, options.days)


def _begun_with(data: str, days: int) -> int:
    """Return the days that the demo's data were begun with, which are `days` if they begin now.

    The record that closes the last window is behind the year: what is sent after it would be late.
    """
    with open(f"{data}/days", "a+", encoding="ascii") as file:
        file.seek(0)
        if text := file.read():
            return int(text)
        begun = DAYS if os.path.exists(f"{data}/cluster") else days
        file.write(str(begun))
    return begun


@contextlib.contextmanager
def running_cluster(data_dir: str) -> Iterator[str]:
    """Run `barnabas up` on free ports during the block; yield the addresses of its brokers."""
    command = [sys.executable, "-m", "barnabas", "up", "--listen", "127.0.0.1:0", "--data-dir", data_dir]
    with (
        open(f"{data_dir}.log", "ab") as log,
        subprocess.Popen(  # noqa: S603 - our own program
            command, stdout=subprocess.PIPE, stderr=log, text=True
        ) as cluster,
    ):
        try:
            line = cluster.stdout.readline() if cluster.stdout else ""
            if not line.startswith(READY):
                raise RuntimeError(f"the cluster did not start; see {data_dir}.log")
            yield line.removeprefix(READY).strip()
        finally:
            cluster.terminate()


def start_jobs(spark: SparkSession, bootstrap: str, data: str) -> Sequence[StreamingQuery]:
    """Start the jobs `windows`, `join` and `table`."""
    delays = windows.WindowsOptions(
        brokers=bootstrap,
        topic=("flights",),
        key="origin",
        value="dep_delay",
        window="1 hour",
        lateness="2 days",  # partitions are replayed at most a day of event time apart
        checkpoint=f"{data}/spark/delays",
        to=Destination("topic", "delays"),
    )
    with_planes = join.JoinOptions(
        brokers=bootstrap,
        topic=("flights",),
        table="planes",
        key="tailnum",
        refresh=5_000,
        outer=True,
        checkpoint=f"{data}/spark/with-planes",
        to=Destination("parquet", f"{data}/flights-with-planes"),
    )
    planes = table.TableOptions(
        brokers=bootstrap,
        topic=("planes",),
        schema="tailnum string, manufacturer string, model string, seats int",
        checkpoint=f"{data}/spark/planes",
        to=Destination("delta", f"{data}/planes"),
    )
    return windows.start(spark, delays), join.start(spark, with_planes), table.start(spark, planes)


def _run(bootstrap: str, data: str, seconds: float, days: int) -> int:
    feed.create_topics(bootstrap)
    for name, count in feed.load_reference_tables(bootstrap).items():
        _say(f"topic {name}: {count:,} rows")
    spark = spark_session("flights", master="local[2]", connectors=("kafka", "delta"), conf=SMALL)
    queries = start_jobs(spark, bootstrap, data)
    _say(f"the jobs windows, join and table run; replaying {picture.period(days)} ...")
    started = time.monotonic()
    sent = feed.replay_flights(bootstrap, seconds=seconds, report=_report_month, days=days)
    took = time.monotonic() - started
    _say(f"topic flights: {sent:,} records sent in {took:.1f} s" if sent else "topic flights: complete already")
    for query in queries:
        query.processAllAvailable()
    for _ in range(CLOSING_RECORDS):
        if _is_closed(queries[0]):
            break
        feed.send_closing_record(bootstrap)
        queries[0].processAllAvailable()
    for query in queries:
        query.stop()
        batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
        records = sum(batch["numInputRows"] for batch in batches)
        _say(f"{query.name} read {counted(records, 'record')} in {counted(len(batches), 'micro-batch')}")
    differences = _results(spark, bootstrap, data, days)
    spark.stop()
    for difference in differences:
        _say(f"MISMATCH: {difference}")
    _say("the sums do not match" if differences else "sums match")
    return 1 if differences else 0


def _results(spark: SparkSession, bootstrap: str, data: str, days: int) -> list[str]:
    """Draw the delays; return the differences of all results from the oracle."""
    delays = check.delays(spark, bootstrap).cache()
    rows = delays.where("values > 0").collect()
    means = picture.means((row.start, row.key, row["values"], row["sum"]) for row in rows)
    _say("\nmean departure delays in minutes, by scheduled hour:\n")
    _say(picture.bars(means))
    picture.save(means, f"{data}/delays.png", days)
    _say(f"\nthe same as a picture: {data}/delays.png")
    planes = spark.read.format("delta").load(f"{data}/planes")
    return check.compare(delays, planes, spark.read.parquet(f"{data}/flights-with-planes"), days)


def _is_closed(query: StreamingQuery) -> bool:
    """Return whether the watermark has passed the year's last window."""
    progress = query.lastProgress
    watermark = str(progress.eventTime.get("watermark", "")) if progress is not None else ""
    return watermark >= time.strftime("%Y-%m-%dT%H", time.gmtime(CLOSING_MS / 1000 - 3 * 86_400))


def _report_month(day: int, sent: int) -> None:
    if day % 30 == 0:
        _say(f"  day {day} of {DAYS}, {sent:,} flights sent")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
