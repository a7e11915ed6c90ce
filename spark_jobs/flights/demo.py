"""The demo: a year of flights through a broker and Spark. `make demo`, or `python -m spark_jobs.flights.demo`.

It starts a broker with its data under `demo-data/`, loads the reference tables, starts the streaming query and replays
the year. When the query has read everything, it prints a table and compares the results, row by row, with the same
aggregation in plain Python. A restart continues where the last run stopped; `--reset` deletes its data first.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from spark_jobs.flights import check, feed, flight_delays
from spark_jobs.flights.dataset import LAST_DAY
from spark_jobs.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READY = "ready: "
SMALL = (("spark.sql.shuffle.partitions", "2"), ("spark.ui.enabled", "false"))
CLOSING_RECORDS = 3  # a batch closes windows by the previous batch's watermark, so one may not be enough


def main() -> int:
    """Run the demo and return 0 if the sums match."""
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.flights.demo", description=main.__doc__)
    parser.add_argument("--data", default="demo-data", metavar="DIR", help="default: %(default)s")
    parser.add_argument("--reset", action="store_true", help="delete the data of earlier runs first")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the year takes (default: %(default)s)")
    options = parser.parse_args()
    if options.reset:
        shutil.rmtree(options.data, ignore_errors=True)
    os.makedirs(options.data, exist_ok=True)
    with running_broker(f"{options.data}/broker") as bootstrap:
        return _run(bootstrap, f"{options.data}/spark", options.seconds)


@contextlib.contextmanager
def running_broker(data_dir: str) -> Iterator[str]:
    """Run `barnabas serve` on a free port during the block; yield its address."""
    command = [sys.executable, "-m", "barnabas", "serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:  # noqa: S603 - our own program
        try:
            line = broker.stdout.readline() if broker.stdout else ""
            if not line.startswith(READY):
                raise RuntimeError("the broker did not start; see its message above")
            yield line.removeprefix(READY).strip()
        finally:
            broker.terminate()


def _run(bootstrap: str, output: str, seconds: float) -> int:
    feed.create_topics(bootstrap)
    for table, count in feed.load_reference_tables(bootstrap).items():
        _say(f"topic {table}: {count:,} rows")
    spark = spark_session("flight delays", master="local[2]", conf=SMALL)
    query = flight_delays.start(spark, bootstrap, output)
    _say("the query runs; replaying the year 2013 ...")
    started = time.monotonic()
    sent = feed.replay_flights(bootstrap, seconds=seconds, report=_report_month)
    took = time.monotonic() - started
    _say(f"topic flights: {sent:,} records sent in {took:.1f} s" if sent else "topic flights: complete already")
    query.processAllAvailable()
    for _ in range(CLOSING_RECORDS):
        if _last_day_is_out(spark, output):
            break
        feed.send_closing_record(bootstrap)
        query.processAllAvailable()
    query.stop()
    progress = [batch for batch in query.recentProgress if batch["numInputRows"]]
    _say(f"the query read {sum(b['numInputRows'] for b in progress):,} records in {len(progress)} micro-batches")
    computed = spark.read.parquet(f"{output}/delays").drop("batch")
    _print_table(computed)
    complaints = check.compare(computed, check.read_delays_topic(spark, bootstrap))
    spark.stop()
    for complaint in complaints:
        _say(f"MISMATCH: {complaint}")
    _say("the sums do not match" if complaints else "sums match")
    return 1 if complaints else 0


def _last_day_is_out(spark: SparkSession, output: str) -> bool:
    if not os.path.exists(f"{output}/delays"):
        return False
    return not spark.read.parquet(f"{output}/delays").where(f"day = '{LAST_DAY}'").isEmpty()


def _report_month(day: int, sent: int) -> None:
    if day % 30 == 0:
        _say(f"  day {day} of 365, {sent:,} flights sent")


def _print_table(delays: DataFrame) -> None:
    from pyspark.sql import functions as f

    by_carrier = delays.groupBy("origin", "carrier").agg(
        f.sum("departed").alias("departed"),
        f.sum("cancelled").alias("cancelled"),
        f.round(f.sum("delay_minutes") / f.sum("departed"), 1).alias("mean delay"),
        f.sum("seats").alias("seats"),
    )
    _say("the ten worst mean departure delays of the year, in minutes:")
    by_carrier.where("departed > 1000").orderBy(f.desc("mean delay")).show(10, truncate=False)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
