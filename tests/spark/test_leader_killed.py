"""A leader of three brokers is killed while archive, windows and table run: they go on, nothing lost or doubled."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs import archive, table, windows
from spark_jobs.io import Destination
from tests.applications.brokers import three_brokers
from tests.chaos.cluster import wait_until
from tests.spark.streams import KILLS, finished

NOON_MS = 1_767_268_800_000
KEYS = 50


class Feed(threading.Thread):
    """Writes records, one a second of event time, until it is stopped; `sent` are those that are acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self._stopped = threading.Event()
        self.sent = 0
        self.failed: list[str] = []

    def run(self) -> None:
        while not self._stopped.wait(0.002):
            number, self.sent = self.sent, self.sent + 1
            value = json.dumps({"key": number % KEYS, "n": number})
            at = NOON_MS + number * 1000
            self._producer.produce("events", value, str(number % KEYS), timestamp=at, on_delivery=self._delivered)
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def stop(self) -> None:
        """Stop, and close all windows."""
        self._stopped.set()
        self.join()
        for partition in range(2):
            closing = NOON_MS + 10**9
            self._producer.produce("events", b'{"key": "closing"}', b"closing", partition, timestamp=closing)
            assert self._producer.flush(60) == 0

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.failed.append(str(error))


@contextmanager
def fed(bootstrap: str) -> Iterator[Feed]:
    feed = Feed(bootstrap)
    feed.start()
    try:
        yield feed
    finally:
        feed.stop()


def batches(query: StreamingQuery) -> int:
    assert query.isActive, query.exception()
    progress = query.lastProgress
    return progress.batchId if progress is not None else 0


@pytest.mark.skipif(KILLS == 1, reason="three brokers and three jobs: part of make prove")
def test_jobs_go_on_when_the_leader_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    with three_brokers(tmp_path / "cluster") as cluster:
        cluster.wait_until_whole(120)
        bootstrap = cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        config = {"retention.ms": "-1", "min.insync.replicas": "2"}
        admin.create_topics([NewTopic("events", 2, 3, config=config)])["events"].result(60)
        source = {"brokers": bootstrap, "topic": ("events",), "trigger": "100 milliseconds"}
        archived = Destination("parquet", str(tmp_path / "archive"))

        def jobs(**changed: object) -> list[StreamingQuery]:
            common = source | changed
            return [
                windows.start(
                    spark,
                    windows.WindowsOptions(
                        **common,  # type: ignore[arg-type]
                        key="key",
                        value="n",
                        lateness="10 minutes",
                        checkpoint=str(tmp_path / "c1"),
                        to=Destination("parquet", str(tmp_path / "windows")),
                    ),
                ),
                archive.start(spark, archive.ArchiveOptions(**common, checkpoint=str(tmp_path / "c2"), to=archived)),  # type: ignore[arg-type]
                table.start(
                    spark,
                    table.TableOptions(
                        **common,  # type: ignore[arg-type]
                        schema="n long",
                        checkpoint=str(tmp_path / "c3"),
                        to=Destination("delta", str(tmp_path / "table")),
                    ),
                ),
            ]

        queries = jobs()
        with fed(bootstrap) as feed:
            wait_until(lambda: min(map(batches, queries)) >= 2, "all jobs run", 120)
            leader = admin.list_topics("events", 30).topics["events"].partitions[0].leader
            cluster.nodes[leader].kill()
            killed_at = [batches(query) for query in queries]
            wait_until(
                lambda: all(batches(query) >= at + 3 for query, at in zip(queries, killed_at, strict=True)),
                "all jobs go on",
                120,
            )
        assert feed.failed == []
        for query in queries:
            query.processAllAvailable()
            query.stop()
        for query in jobs(available_now=True):
            finished(query)
    expected = Counter(number // 60 * 60 for number in range(feed.sent))
    rows = spark.read.parquet(str(tmp_path / "windows")).where("key != 'closing'").collect()
    found: Counter[int] = Counter()
    for row in rows:
        found[round(row.start.timestamp() * 1000 - NOON_MS) // 1000] += row["count"]
    assert found == expected
    assert len({(row.start, row.key) for row in rows}) == len(rows)
    kept = spark.read.parquet(str(tmp_path / "archive")).where("CAST(key AS STRING) != 'closing'")
    numbers = [json.loads(bytes(row.value))["n"] for row in kept.select("value").collect()]
    assert sorted(numbers) == list(range(feed.sent))
    newest = {number % KEYS: number for number in range(feed.sent)}
    table_rows = spark.read.format("delta").load(str(tmp_path / "table")).where("_key != 'closing'").collect()
    assert sorted((row._key, row.n) for row in table_rows) == sorted((str(key), n) for key, n in newest.items())
