"""The progress of queries: their offsets as those of a group, and lines for the terminal."""

from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark_jobs.progress import lag, lowest, processed_offsets, progress_line

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
