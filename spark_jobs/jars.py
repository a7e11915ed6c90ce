"""Spark's connectors: which versions fit the installed PySpark, and where they are kept for use without a network.

`fetch` resolves a connector with its dependencies by Spark's own resolver (Apache Ivy), once: by `barnabas spark jars`,
or when the first session needs it. `kept` returns the jars afterwards, without a request to a Maven repository.

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
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from spark_jobs.errors import NO_START, JobError

COORDINATES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}",
    "avro": "org.apache.spark:spark-avro_{scala}:{spark}",
    "protobuf": "org.apache.spark:spark-protobuf_{scala}:{spark}",
    "delta": "io.delta:{delta}",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{minor}_{scala}:1.10.0",
    "postgresql": "org.postgresql:postgresql:42.7.4",
}
CONNECTOR = "BARNABAS_SPARK_CONNECTOR"  # overrides Kafka's
TIMEOUT_S = 600
# The PySpark that the tests run with. Of a newer one, a repository may not have the connectors yet.
TESTED = "4.0.0"
# Ivy's report of a repository that does not answer. Spark adds that of spark-packages.org, which has no connector.
UNREACHABLE = re.compile(r"(?:Server access error at url|Host \S+ not found\. url=) *(?!\S*spark-packages)\S")
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


def check_versions() -> None:
    """Raise JobError if SPARK_HOME has another version of Spark than PySpark's: their protocols differ."""
    import pyspark

    found = (re.match(r"spark-core_[\d.]+-(.+)\.jar$", path.name) for path in _spark_home().glob("jars/spark-core_*"))
    spark = next((match[1] for match in found if match), pyspark.__version__)
    if spark != pyspark.__version__:
        raise JobError(
            f"SPARK_HOME has Spark {spark}, but PySpark is {pyspark.__version__}: unset SPARK_HOME, or "
            f"`pip install pyspark=={spark}`"
        )


def coordinates(connector: str) -> str:
    """Return a connector's Maven coordinates; `BARNABAS_SPARK_CONNECTOR` overrides Kafka's.

    Raise JobError if the name is unknown.
    """
    if connector not in COORDINATES:
        raise JobError(f"no connector {connector!r}; write one of {', '.join(COORDINATES)}")
    installed = versions()
    minor = ".".join(installed.spark.split(".")[:2])
    default = COORDINATES[connector].format(
        spark=installed.spark,
        scala=installed.scala,
        minor=minor,
        delta=_delta(minor, installed.scala) if connector == "delta" else "",
    )
    return (os.environ.get(CONNECTOR) or default) if connector == "kafka" else default


def cache() -> Path:
    """Return the directory of what is kept for all versions."""
    return Path.home() / ".cache" / "barnabas"


def folder() -> Path:
    """Return where the jars of the installed versions are."""
    chosen = os.environ.get("BARNABAS_SPARK_JARS")
    root = Path(chosen) if chosen else cache() / "spark-jars"
    return root / "spark-{}-scala-{}".format(*versions())


def kept(connector: str) -> list[str]:
    """Return the paths of a connector's jars, empty if it has not been fetched."""
    place = _place(connector)
    return sorted(map(str, place.glob("*.jar"))) if place.is_dir() else []


def fetch(connector: str) -> list[str]:
    """Return the paths of a connector's jars, which are fetched unless they are there.

    Raise JobError with the reason if they cannot be resolved.
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
        # Another process may have been faster.
        with suppress(OSError):
            complete.rename(place)
    return kept(connector)


def session_conf(connectors: Iterable[str]) -> dict[str, str]:
    """Return the settings of a session that uses connectors; those that are not kept yet are fetched.

    Raise JobError with the reason if they cannot be resolved.
    """
    paths: list[str] = []
    for connector in connectors:
        if not kept(connector):
            sys.stderr.write(f"fetching {coordinates(connector)}, once\n")
        paths += fetch(connector)
    return {"spark.jars": ",".join(dict.fromkeys(paths))} if paths else {}


def _place(connector: str) -> Path:
    return folder() / coordinates(connector).replace(":", "-")


def _resolve(name: str, ivy: str) -> list[str]:
    command = [sys.executable, "-c", RESOLVE, name, ivy]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # noqa: S603 - ours
    except subprocess.TimeoutExpired:
        raise JobError(_unreachable(name)) from None
    found = re.search(r"^jars=(.*)$", done.stdout, re.MULTILINE)
    if done.returncode or found is None:
        raise JobError(_reason(name, done.stderr))
    return [jar.removeprefix("file://") for jar in found[1].split(",")]


def _reason(name: str, output: str) -> str:
    if "unresolved dependency" in output or "UNRESOLVED DEPENDENCIES" in output:
        return _unreachable(name) if UNREACHABLE.search(output) else _absent(name)
    if "JAVA_GATEWAY_EXITED" in output:
        return NO_START
    last = [line for line in output.splitlines() if line.strip()][-1:]
    return f"{name} was not resolved: {last[0] if last else 'Spark printed no reason'}"


def _unreachable(name: str) -> str:
    return (
        f"{name} cannot be fetched, because no Maven repository is reachable: run `barnabas spark jars` with the same "
        f"PySpark where one is, and copy its folder to {folder()}"
    )


def _absent(name: str) -> str:
    if name == os.environ.get(CONNECTOR):
        remedy = f"correct ${CONNECTOR}, or unset it"
    elif versions().spark == TESTED:
        remedy = f"run `barnabas spark jars` where a repository has it, and copy its folder to {folder()}"
    else:
        extra = "delta" if name.startswith(COORDINATES["delta"].partition(":")[0]) else "spark"
        remedy = f"use the Spark that Barnabas is tested with: pip install 'barnabas[{extra}]' pyspark=={TESTED}"
    return f"no Maven repository has {name}: {remedy}"


def _delta(minor: str, scala: str) -> str:
    """Return artifact and version of Delta: those of the installed package `delta-spark`, else those for Spark 4.0."""
    try:
        release = version("delta-spark")
    except PackageNotFoundError:
        if minor != "4.0":
            raise JobError(
                f"which Delta fits Spark {minor} is only known by its Python package: pip install 'barnabas[delta]'"
            ) from None
        release = "4.0.1"
    # Since Delta 4.1, the name has the version of Spark.
    spark = "" if release.startswith("4.0.") else f"_{minor}"
    return f"delta-spark{spark}_{scala}:{release}"


def _spark_home() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
