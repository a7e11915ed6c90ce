"""One Spark session for the suite, with the Kafka connector; skipped without Java, required where CI=true."""

import os
import shutil
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_jobs.session import spark_session
from tests.spark import small
from tests.spark.postgres import server

CONNECTORS = ("kafka", "delta", "iceberg", "postgresql")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # py4j leaves its sockets to the garbage collector.
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
        item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session", autouse=True)
def submit_opts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", small.SUBMIT_OPTS)
        yield


@pytest.fixture(scope="session")
def spark(submit_opts: None) -> Iterator[SparkSession]:
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME") and os.environ.get("CI") != "true":
        pytest.skip("not installed: java")
    session = spark_session("tests", master="local[2]", connectors=CONNECTORS)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """The URL, without `jdbc:`, of a database of PostgreSQL."""
    with server() as url:
        yield url
