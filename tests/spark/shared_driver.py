"""A Java process that Spark programs use in turn, as a program under spark-submit uses that of spark-submit.

Starting Java and loading Spark's classes takes most of the time of a job over a few records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from spark_jobs import jars
from tests.spark import small


class SharedDriver:
    """The Java process: `environment` is that of programs which use it."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        parameters = gateway.gateway_parameters
        self.environment = {
            "PYSPARK_GATEWAY_PORT": str(parameters.port),
            "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
        }

    def stop_session(self) -> None:
        """Stop the session of a program that has ended without doing so: the next one cannot make its own beside it."""
        session = self._gateway.jvm.SparkSession.getDefaultSession()
        if session.isDefined():
            session.get().stop()


@contextmanager
def shared_driver(folder: Path, connectors: Iterable[str]) -> Iterator[SharedDriver]:
    """Run the Java process in a folder, with the jars of connectors."""
    conf = SparkConf(loadDefaults=False).setAll(list(jars.session_conf(connectors).items()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", small.SUBMIT_OPTS)
        gateway = launch_gateway(conf, {"cwd": folder})  # type: ignore[no-untyped-call]
    try:
        yield SharedDriver(gateway)
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
