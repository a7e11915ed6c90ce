"""Dead letters: records that a job refused, with the reason and their origin in headers, and when they are sent back.

A dead letter has the key, value and headers of its record, and behind these headers:

    __barnabas.errors.message     why it was refused
    __barnabas.errors.topic       the topic of the record
    __barnabas.errors.partition   its partition, as decimal digits, like the next three
    __barnabas.errors.offset      its offset
    __barnabas.errors.timestamp   its timestamp in ms
    __barnabas.errors.attempts    how often it has been refused, this time included

The names follow those of Kafka Streams. A record that is sent back has its own headers and the attempts, which the
next refusal increments. All functions are on columns: contents of records stay in Spark's JVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

PREFIX = "__barnabas.errors."
MESSAGE = PREFIX + "message"
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
TIMESTAMP = PREFIX + "timestamp"
ATTEMPTS = PREFIX + "attempts"
HEADERS = "array<struct<key:string,value:binary>>"


def header(name: str) -> Column:
    """Return the text of a record's last header with a name, null without one."""
    from pyspark.sql import functions as f

    named = f.filter("headers", lambda one: one["key"] == name)
    return f.try_element_at(named, f.lit(-1))["value"].cast("string")


def attempts() -> Column:
    """Return how often a record has been refused before, 0 if never."""
    from pyspark.sql import functions as f

    return f.coalesce(header(ATTEMPTS).try_cast("int"), f.lit(0))


def own_headers() -> Column:
    """Return a record's headers without those of its refusals; null if none is left."""
    from pyspark.sql import functions as f

    left = f.filter("headers", lambda one: ~one["key"].startswith(PREFIX))
    return f.when(f.size(left) > 0, left).cast(HEADERS)


def with_origin() -> Column:
    """Return the headers of the dead letter of a record that has a `reason`."""
    from pyspark.sql import functions as f

    return _with(
        {
            MESSAGE: f.col("reason"),
            TOPIC: f.col("topic"),
            PARTITION: f.col("partition").cast("string"),
            OFFSET: f.col("offset").cast("string"),
            TIMESTAMP: f.unix_millis("timestamp").cast("string"),
            ATTEMPTS: (attempts() + 1).cast("string"),
        }
    )


def of_record() -> Column:
    """Return the headers of the record that a dead letter is sent back as: its own, and the attempts."""
    return _with({ATTEMPTS: header(ATTEMPTS)})


def origin_topic() -> Column:
    """Return the topic that a dead letter comes from, null if it is none."""
    return header(TOPIC)


def origin_partition() -> Column:
    """Return the partition that a dead letter comes from."""
    return header(PARTITION).try_cast("int")


def origin_time_ms() -> Column:
    """Return the timestamp that a dead letter's record had."""
    return header(TIMESTAMP).try_cast("long")


def due_ms(first_s: float, factor: float, longest_s: float) -> Column:
    """Return when a dead letter is due: its own timestamp and a delay, which each attempt multiplies."""
    from pyspark.sql import functions as f

    # The exponent is bounded: a larger power is infinite, and its product with a first delay of 0 no number.
    exponent = f.least(f.greatest(attempts() - 1, f.lit(0)), f.lit(60))
    delay_s = f.least(f.lit(float(longest_s)), f.lit(float(first_s)) * f.pow(f.lit(float(factor)), exponent))
    return f.unix_millis("timestamp") + (delay_s * 1000).cast("long")


def _with(added: Mapping[str, Column]) -> Column:
    from pyspark.sql import functions as f

    own = f.coalesce(own_headers(), f.array().cast(HEADERS))
    more = [f.struct(f.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in added.items()]
    return f.concat(own, f.array(*more).cast(HEADERS))
