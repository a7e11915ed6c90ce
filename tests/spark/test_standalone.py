"""A standalone cluster of Spark, master and workers as processes, runs `windows` by `barnabas spark submit`.

`make prove` takes two workers.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from spark_jobs.submission import spark_submit
from tests.broker_process import BrokerProcess
from tests.chaos.cluster import wait_until
from tests.setups import require
from tests.spark import small
from tests.spark.streams import StreamRecord, create, read, write

NOON_MS = 1_767_268_800_000
WORKERS = int(os.environ.get("BARNABAS_TEST_SPARK_WORKERS", "1"))
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def daemon(name: str, log: Path, *words: str) -> Iterator[None]:
    """Run a process of Spark; its log goes to a file."""
    command = [str(Path(spark_submit()).with_name("spark-class")), name, "--host", "127.0.0.1", *words]
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": small.JAVA,
    }
    with open(log, "wb") as file, subprocess.Popen(command, env=environment, stdout=file, stderr=file) as running:
        try:
            yield
        finally:
            running.terminate()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a cluster, whose workers have a core each."""
    require("java")
    log = tmp_path / "master.log"
    with ExitStack() as stack:
        stack.enter_context(daemon(MASTER, log, "--port", "0", "--webui-port", "0"))
        begun = re.compile(r"Starting Spark master at (spark://\S+)")
        wait_until(lambda: begun.search(log.read_text()), log.read_text, 60)
        found = begun.search(log.read_text())
        assert found is not None
        for number in range(WORKERS):
            place = (
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "600m",
                "--work-dir",
                str(tmp_path / f"work{number}"),
            )
            stack.enter_context(daemon(WORKER, tmp_path / f"worker{number}.log", *place, found[1]))
        wait_until(lambda: log.read_text().count("Registering worker") == WORKERS, log.read_text, 60)
        yield found[1]


def test_windows_runs_on_the_workers(broker: BrokerProcess, master: str, tmp_path: Path) -> None:
    create(broker.bootstrap, "clicks", "pages", partitions=2)
    records = [
        StreamRecord(b"", json.dumps({"page": f"p{number % 3}"}).encode(), NOON_MS + number * 1000, (), number % 2)
        for number in range(600)
    ]
    closing = [StreamRecord(b"", b'{"page": "closing"}', NOON_MS + 10**8, (), partition) for partition in (0, 1)]
    write(broker.bootstrap, "clicks", [*records, *closing])
    spark = ["--master", master, "--executor-memory", "512m", "--conf", "spark.ui.enabled=false"]
    spark += ["--conf", f"spark.executor.extraJavaOptions={small.JAVA}"]
    spark += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.sql.shuffle.partitions=2"]
    job = ["windows", "-b", broker.bootstrap, "-t", "clicks", "--key", "page", "--available-now"]
    job += ["--checkpoint", str(tmp_path / "c"), "--to", "topic:pages"]
    command = [sys.executable, "-m", "barnabas", "spark", "submit", *spark, *job]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {record.key: json.loads(record.value or b"") for record in read(broker.bootstrap, "pages")}
    assert {key: row["count"] for key, row in found.items() if b"closing" not in (key or b"")} == {
        f"p{page}@2026-01-01T12:{minute:02d}:00Z".encode(): 20 for page in range(3) for minute in range(10)
    }
    logs = [(tmp_path / f"worker{number}.log").read_text() for number in range(WORKERS)]
    assert all("Launching executor" in log or "Asked to launch executor" in log for log in logs)
