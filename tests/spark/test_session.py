"""The session of jobs."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def test_python_functions_run_on_the_python_of_the_driver(spark: SparkSession) -> None:
    executable = f.udf(lambda _: sys.executable, "string")
    assert spark.range(1).select(executable("id")).first()[0] == sys.executable  # type: ignore[index]
