"""Kafka Streams' StreamsSmokeTest with `exactly_once_v2`, on one broker and on three.

The application is unmodified. The driver is its own too: it produces numbers, then verifies all of the output, and that
no transaction is open. `BARNABAS_TEST_SMOKE_RECORDS` is the number of records of each of 20 keys.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import proofs
from tests.applications.connect import write_properties
from tests.applications.jvm import Process, java
from tests.applications.topics import create_topics
from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.chaos.cluster import Cluster

KEYS, RECORDS_OF_A_KEY = 20, int(os.environ.get("BARNABAS_TEST_SMOKE_RECORDS", "100"))
# StreamsSmokeTest takes 90 s for 1,000 records of each key.
SECONDS = RECORDS_OF_A_KEY * 90 // 1000
TOPICS = (
    *("data", "fk", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum"),
    *("sws-raw", "sws-suppressed", "cnt", "avg", "tagg"),
)
PARTITIONS = 5
TIMEOUT_S = SECONDS + 120


@pytest.fixture(params=[1, 3])
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The addresses of one running broker, and of three."""
    if request.param == 1:
        with BrokerProcess(tmp_path / "broker", QUICK_GROUPS) as broker:
            yield broker.bootstrap
        broker.check_log()
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        yield cluster.bootstrap


def test_driver_of_streams_smoke_test_verifies_all_of_its_output(bootstrap: str, tmp_path: Path) -> None:
    create_topics(bootstrap, TOPICS, PARTITIONS)
    settings = {
        "bootstrap.servers": bootstrap,
        "state.dir": tmp_path / "state",
        "processing.guarantee": "exactly_once_v2",
    }
    properties = write_properties(tmp_path / "streams.properties", settings)
    smoke_test = java("org.apache.kafka.streams.tests.StreamsSmokeTest", properties, "process")
    driver = java("SmokeDriver", bootstrap, *map(str, (KEYS, RECORDS_OF_A_KEY, SECONDS)))
    with Process(smoke_test, tmp_path / "streams.log") as application:
        done = subprocess.run(driver, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        application.stop()
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    proofs.count("records of StreamsSmokeTest, every output verified", KEYS * RECORDS_OF_A_KEY)
