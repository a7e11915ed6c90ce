"""Events: JSON records as rows of a key, an event time and a number; and results of events as records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import io
from spark_jobs.io import Destination, ResultOptions
from spark_jobs.options import StreamOptions, WatermarkOptions, option

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True)
class EventOptions(ResultOptions, WatermarkOptions):
    """The fields of events, and where the results go."""

    key: str = option("JSON field of the key; several with commas (default: the record's key)", default="")
    value: str = option("JSON field with a number, for sums and percentiles", default="", metavar="FIELD")
    time: str = option("JSON field with the event time (default: the record's timestamp)", default="", metavar="FIELD")


def events(records: DataFrame, options: EventOptions) -> DataFrame:
    """Return `key` (string), `time` (timestamp) and `value` (double) of records; a field that is absent gives null."""
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    value = field(text, options.value).try_cast("double") if options.value else f.lit(None).cast("double")
    return records.select(key_of(options.key).alias("key"), time_of(options.time).alias("time"), value.alias("value"))


def key_of(names: str) -> Column:
    """Return the key of a record: its own, or the JSON fields of its value, joined by slashes; null without any."""
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    fields = [field(text, name.strip()) for name in names.split(",") if name.strip()]
    if not fields:
        return f.col("key").cast("string")
    return f.when(f.coalesce(*fields).isNotNull(), f.concat_ws("/", *fields))


def time_of(name: str) -> Column:
    """Return the event time of a record: its timestamp, or a JSON field of its value, null if that is no time."""
    from pyspark.sql import functions as f

    return field(f.col("value").cast("string"), name).try_cast("timestamp") if name else f.col("timestamp")


def field(text: Column, name: str) -> Column:
    """Return a field of JSON, as text; null if the JSON is malformed or has no such field."""
    from pyspark.sql import functions as f

    return f.get_json_object(text, f"$.{name}")


def as_records(rows: DataFrame) -> DataFrame:
    """Return results with `key` and `start` as records: the key is `key@start`, the value the row as JSON."""
    from pyspark.sql import functions as f

    start = f.date_format("start", "yyyy-MM-dd'T'HH:mm:ss'Z'")
    return rows.select(
        f.concat_ws("@", f.coalesce("key", f.lit("")), start).cast("binary").alias("key"),
        f.to_json(f.struct("*")).cast("binary").alias("value"),
    )


def write_results(batch: DataFrame, batch_id: int, to: Destination, options: StreamOptions) -> None:
    """Write a micro-batch of results with `key` and `start`."""
    io.write_batch(as_records(batch) if to.kind == "topic" else batch, batch_id, to, options)
