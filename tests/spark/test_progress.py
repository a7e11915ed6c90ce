"""The progress of queries: their offsets as those of a group, and lines for the terminal."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from spark_jobs.progress import ProgressListener, lag, lowest, processed_offsets, progress_line, without_times

SOURCE = {
    "description": "KafkaV2[Subscribe[clicks]]",
    "startOffset": '{"clicks": {"0": 0}}',
    "endOffset": '{"clicks": {"0": 40, "1": 7}}',
    "latestOffset": '{"clicks": {"0": 100, "1": 7}}',
    "numInputRows": 47,
    "inputRowsPerSecond": 1.0,
    "processedRowsPerSecond": 1.0,
}
STATE: dict[str, Any] = {
    "operatorName": "stateStoreSave",
    "numRowsTotal": 1234,
    "numRowsUpdated": 1,
    "allUpdatesTimeMs": 1,
    "numRowsRemoved": 0,
    "allRemovalsTimeMs": 0,
    "commitTimeMs": 1,
    "memoryUsedBytes": 2_500_000,
    "numRowsDroppedByWatermark": 3,
    "numShufflePartitions": 2,
    "numStateStoreInstances": 2,
    "customMetrics": {},
}


def progress(**changed: Any) -> StreamingQueryProgress:
    made = {
        "id": "0b4a8f4e-0000-4000-8000-000000000000",
        "runId": "0b4a8f4e-0000-4000-8000-000000000001",
        "name": "windows",
        "timestamp": "2026-01-01T12:00:00.000Z",
        "batchId": 5,
        "batchDuration": 100,
        "numInputRows": 47,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 470.4,
        "durationMs": {},
        "eventTime": {},
        "stateOperators": [],
        "sources": [SOURCE],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
        "observedMetrics": {},
    }
    return StreamingQueryProgress.fromJson({**made, **changed})


def test_lag_is_what_the_topic_had_beyond_the_batch() -> None:
    assert lag(progress()) == 60


def test_the_offsets_of_several_sources_and_queries_are_the_lowest_of_each_partition() -> None:
    other = {**SOURCE, "endOffset": '{"clicks": {"0": 50, "1": 3}, "other": {"0": 1}}'}
    merged = {"clicks": {"0": 40, "1": 3}, "other": {"0": 1}}
    assert processed_offsets(progress(sources=[SOURCE, other])) == merged
    assert lowest([merged, {"clicks": {"0": 4}}]) == {"clicks": {"0": 4, "1": 3}, "other": {"0": 1}}
    assert processed_offsets(progress(sources=[{**SOURCE, "description": "RateStream"}])) == {}


def test_a_line_has_rate_lag_watermark_and_state() -> None:
    assert progress_line(progress()) == "batch 5: 47 records, 470 records/s, lag 60"
    watermark = {"watermark": "2026-01-01T11:00:00.000Z"}
    assert progress_line(progress(eventTime=watermark, stateOperators=[STATE])) == (
        "batch 5: 47 records, 470 records/s, lag 60, watermark 2026-01-01T11:00:00.000Z, state 1,234 rows, 2.5 MB, "
        "3 rows dropped as late"
    )


def test_a_batch_whose_records_have_no_event_time_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    def batches(time: str) -> list[StreamingQueryProgress]:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
        timed = rows.withColumn("time", f.expr(time)).withWatermark("time", "1 second")
        writer = timed.writeStream.format("noop").option("checkpointLocation", str(tmp_path / time))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(60)
        return list(query.recentProgress)

    assert [without_times(batch) for batch in batches("try_cast('none' as timestamp)")] == [True]
    assert [without_times(batch) for batch in batches("timestamp'2026-01-01'")] == [False]
    assert not without_times(progress())


def test_records_without_event_times_are_reported_once(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    listener = ProgressListener(spark, None, {}, lines=False)
    none = "1970-01-01T00:00:00.000Z"
    for times in ({"max": "2026-01-01T12:00:00.000Z"}, {"max": none}, {"max": none}):
        listener.onQueryProgress(QueryProgressEvent(progress(eventTime={"watermark": none, **times})))
    assert capsys.readouterr().err == (
        "batch 5: no record has an event time, so there are no results of it; correct --time\n"
    )
