"""Ready-made pipelines on Apache Spark, by its standard Kafka source and sink; they use brokers only by their address.

A job is a module: pure transforms on DataFrames, its options as a dataclass, and `JOB`, whose `main` is the program.
`barnabas spark run NAME`, `python -m spark_jobs.NAME` and spark-submit run it. Elsewhere: `options.py` has the options
that jobs share, `job.py` how a job runs and ends, `io.py` sources and destinations, `progress.py` the lag and the
progress lines, `session.py` and `jars.py` Spark and its connectors, `submission.py` spark-submit, `flights/` the demo.
"""

JOBS = {
    "archive": "topics as a Parquet or Delta table that keeps everything of their records",
    "mirror": "topics copied to another cluster as they are, and the offsets of their groups",
    "replay": "a range of topics, or an archive, into topics: as it was, at a rate or a pace",
    "windows": "counts, sums and percentiles of JSON records per key and window of event time",
    "sessions": "sessions of each key: runs of JSON records without a gap of event time",
    "join": "a topic with another one by key and time, or with the newest rows of a compacted topic",
    "table": "a compacted or change-data topic as a table with the newest row of each key",
    "validate": "records of a format and schema on to a topic, the others to a topic of dead letters",
    "redrive": "dead letters back to the topics that they come from, with limits and delays",
    "metrics": "roll-ups of metrics and logs at several granularities, and alerts",
    "quality": "completeness, uniqueness, freshness, key skew and schema drift of topics, and a report page",
}
"""The jobs, each with a line about it."""
