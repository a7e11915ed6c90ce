"""Fetch Spark's connectors with their dependencies from a Maven repository, once; jobs then use them offline.

The versions are those of the installed PySpark. The jars are kept in $BARNABAS_SPARK_JARS, by default
~/.cache/barnabas/spark-jars.
"""

import argparse

from barnabas.commands._output import CommandError, WrongCall, add_json, show
from barnabas.commands._spark import need_pyspark

EXAMPLES = """
  barnabas spark jars
  barnabas spark jars delta avro
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "connector",
        nargs="*",
        help="kafka, avro, protobuf, delta, iceberg or postgresql (default: kafka)",
        metavar="CONNECTOR",
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Fetch the connectors and print their jars."""
    need_pyspark()
    from spark_jobs import jars
    from spark_jobs.errors import JobError
    from spark_jobs.options import did_you_mean
    from spark_jobs.session import find_java

    wanted = options.connector or ["kafka"]
    names = ", ".join(jars.COORDINATES)
    for connector in wanted:
        if connector not in jars.COORDINATES:
            similar = did_you_mean(connector, jars.COORDINATES)
            raise WrongCall(f"no connector {connector!r}{similar or f'; write one of {names}'}")
    rows = []
    try:
        find_java()
        for connector in wanted:
            name = jars.coordinates(connector)
            rows += [{"connector": name, "jar": path} for path in jars.fetch(connector)]
    except JobError as error:
        raise CommandError(str(error)) from None
    show(options, ("connector", "jar"), rows)
    return 0
