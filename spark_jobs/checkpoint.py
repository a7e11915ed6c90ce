"""What Spark has planned for a micro-batch of one Kafka source: the range of its records, and its watermark.

Structured Streaming's checkpoint has a file `offsets/N` for each batch, written before it runs: a line with the
version, JSON with the batch's watermark, and JSON with the end offsets of the first source. `sources/0/0` has the
offsets at which the query began.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs.cluster import EARLIEST
from spark_jobs.files import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Offsets = Mapping[str, Mapping[str, int]]
"""Offsets by topic and partition, as Spark's Kafka source writes them."""


class BatchPlan(NamedTuple):
    """The offsets at which a batch starts and ends, and the watermark in ms of which Spark drops records as late."""

    start: Offsets
    end: Offsets
    late_before_ms: int


def end_offsets(spark: SparkSession, checkpoint: str, batch_id: int) -> Offsets:
    """Return the offsets at which a batch ends; KeyError if it has not been planned."""
    found: Offsets = json.loads(_planned(spark, checkpoint, batch_id)[2])
    return found


def batch_plan(spark: SparkSession, checkpoint: str, batch_id: int) -> BatchPlan:
    """Return the plan of a batch; a record is late by the watermark of the batch before it, as of Spark 3.5."""
    end = end_offsets(spark, checkpoint, batch_id)
    if batch_id:
        start = end_offsets(spark, checkpoint, batch_id - 1)
        late_before_ms = int(json.loads(_planned(spark, checkpoint, batch_id - 1)[1])["batchWatermarkMs"])
    else:
        text = Folder(spark, f"{checkpoint}/sources/0").read("0") or ""
        start, late_before_ms = json.loads(text[text.index("{") :]), 0
    # A partition that the topic has gained is read from its beginning.
    known = {
        topic: {partition: start.get(topic, {}).get(partition, EARLIEST) for partition in partitions}
        for topic, partitions in end.items()
    }
    return BatchPlan(known, end, late_before_ms)


def _planned(spark: SparkSession, checkpoint: str, batch_id: int) -> list[str]:
    """Return the lines of a batch: the version of the form, its metadata, and a line for each source."""
    text = Folder(spark, f"{checkpoint}/offsets").read(str(batch_id))
    if text is None:
        raise KeyError(f"{checkpoint}/offsets/{batch_id}")
    return text.splitlines()
