"""Daily departure delays per origin and carrier, from a topic of flights, in Structured Streaming.

The pipeline is a chain of pure functions on DataFrames:

    flights topic -> parse_flights -> with_planes (left join) -> daily_delays -> topic `delays` and Parquet

A flight's event time is its record's timestamp, the scheduled departure. Windows close when the watermark passes them,
so the last ones wait for a later record: at its end a replay sends a closing record (its value is null), which advances
the watermark and is not counted.

Delivery: every micro-batch writes its own Parquet folder, overwriting the output of a failed attempt, so Parquet has no
duplicates. Spark's Kafka sink is at-least-once: after a restart `delays` may have a window twice, with the same key and
value, so readers keep the last record of each key.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from spark_jobs.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WINDOW = "1 day"
LATENESS = "2 days"

FLIGHT_SCHEMA = "carrier string, origin string, dest string, tailnum string, dep_delay int"
PLANE_SCHEMA = "tailnum string, model string, seats int"


def parse_flights(records: DataFrame) -> DataFrame:
    """Return flights from Kafka records (`value`, `timestamp`); a closing record becomes a row of nulls.

    That row must not be filtered here: Spark would push the filter below the watermark, which would then stop
    advancing.
    """
    from pyspark.sql import functions as f

    return (
        records.withWatermark("timestamp", LATENESS)
        .select("timestamp", f.from_json(f.col("value").cast("string"), FLIGHT_SCHEMA).alias("flight"))
        .select(f.col("timestamp").alias("scheduled"), "flight.*")
    )


def parse_planes(records: DataFrame) -> DataFrame:
    """Return planes from the Kafka records of a reference topic, one row per tail number (the last wins)."""
    from pyspark.sql import functions as f

    newest = f.max_by("value", f.struct("partition", "offset")).cast("string")
    planes = records.groupBy("key").agg(f.from_json(newest, PLANE_SCHEMA).alias("plane"))
    return planes.select("plane.*")


def with_planes(flights: DataFrame, planes: DataFrame) -> DataFrame:
    """Return flights with `seats`, null if the plane is unknown."""
    return flights.join(planes.select("tailnum", "seats"), on="tailnum", how="left")


def daily_delays(flights: DataFrame) -> DataFrame:
    """Return one row per day, origin and carrier; a flight without a delay was cancelled."""
    from pyspark.sql import functions as f

    departed = f.col("dep_delay").isNotNull()
    day = f.window("scheduled", WINDOW)
    return (
        flights.groupBy(day, "origin", "carrier")
        .agg(
            f.count_if(departed).alias("departed"),
            f.count_if(~departed).alias("cancelled"),
            f.coalesce(f.sum("dep_delay"), f.lit(0)).alias("delay_minutes"),
            f.coalesce(f.sum(f.when(departed, f.col("seats"))), f.lit(0)).alias("seats"),
            f.count_if(f.col("seats").isNull()).alias("unknown_planes"),
        )
        .select(f.to_date("window.start").alias("day"), "*")
        .drop("window")
    )


def without_closing_records(delays: DataFrame) -> DataFrame:
    """Return the windows without those of closing records, which have neither origin nor carrier."""
    return delays.where("origin is not null")


def delay_records(delays: DataFrame) -> DataFrame:
    """Return rows of `daily_delays` as Kafka records keyed by day, origin and carrier."""
    from pyspark.sql import functions as f

    return delays.select(
        f.concat_ws("/", "day", "origin", "carrier").alias("key"),
        f.to_json(f.struct("*")).alias("value"),
    )


def read_planes(spark: SparkSession, bootstrap: str) -> DataFrame:
    """Return the whole `planes` topic as a table."""
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    return parse_planes(source.option("subscribe", "planes").load())


def start(spark: SparkSession, bootstrap: str, output: str, *, once: bool = False) -> StreamingQuery:
    """Start the query; `output` gets `delays/` (Parquet) and `checkpoint/`. With `once` it stops at the topic's end."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    records = source.option("subscribe", "flights").option("startingOffsets", "earliest").load()
    planes = read_planes(spark, bootstrap).cache()
    delays = daily_delays(with_planes(parse_flights(records), planes))

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = without_closing_records(batch).persist()
        try:
            if rows.isEmpty():
                return
            sink = delay_records(rows).write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
            sink.option("topic", "delays").save()
            rows.coalesce(1).write.mode("overwrite").parquet(f"{output}/delays/batch={batch_id:06d}")
        finally:
            rows.unpersist()

    writer = delays.writeStream.outputMode("append").foreachBatch(write)
    writer = writer.option("checkpointLocation", f"{output}/checkpoint").queryName("flight_delays")
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")
    return writer.start()


def main() -> None:
    """Run the query until it is interrupted, or with --once until it has read all current records."""
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.flights.flight_delays", description=main.__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    parser.add_argument("--output", default="demo-data/spark", metavar="DIR")
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    query = start(spark_session("flight delays"), options.bootstrap, options.output, once=options.once)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()


if __name__ == "__main__":
    main()
