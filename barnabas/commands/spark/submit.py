"""Run a job by Spark's spark-submit: on a standalone cluster, YARN or Kubernetes.

The words before NAME are options of spark-submit, those after it are the job's. The connectors' jars and the jobs'
modules are sent along. `spark-submit` is that of $SPARK_HOME, or of the installed PySpark.
"""

import argparse
import importlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from barnabas.commands._output import CommandError, WrongCall
from barnabas.commands._spark import job_name, need_pyspark

EXAMPLES = """
  barnabas spark submit --master spark://127.0.0.1:7077 windows -t clicks --checkpoint /shared/windows --to console
  barnabas spark submit --master yarn --deploy-mode cluster archive --config archive.yaml
"""
# Options of spark-submit without a value; every other one has one.
SWITCHES = ("--verbose", "-v", "--supervise")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments, for the help: all are passed on."""
    parser.add_argument("name", metavar="NAME", help="the job; `barnabas spark list` lists them")
    parser.add_argument("argument", nargs="*", metavar="OPTION", help="options of the job")


def pass_on(words: Sequence[str]) -> int:
    """Run spark-submit with the job; return its exit status."""
    end = _spark_words(words)
    name = job_name(words[end:])
    need_pyspark()
    from spark_jobs import jars, submission
    from spark_jobs.errors import JobError
    from spark_jobs.session import find_java

    job = importlib.import_module(f"spark_jobs.{name}").JOB
    options = job.parsed(words[end + 1 :])
    connectors = job.all_connectors(options)
    try:
        if not submission.is_cluster_mode(words[:end]):
            _check(job, options)
        find_java()
        jars.check_versions()
        paths = [path for connector in connectors for path in jars.fetch(connector)]
    except JobError as error:
        raise CommandError(str(error)) from None
    with tempfile.TemporaryDirectory(prefix="barnabas-spark-") as made:
        command = submission.command(name, words[:end], words[end + 1 :], jars=paths, folder=made)
        sys.stdout.flush()
        return submission.run(command, submission.environment(words[:end]), made)


def _check(job: Any, options: object) -> None:
    """Raise WrongCall if the job would refuse its options."""
    from spark_jobs.errors import JobError, NotInstalled

    try:
        job.check(options)
    except NotInstalled:
        raise
    except JobError as error:
        raise WrongCall(str(error)) from None


def _spark_words(words: Sequence[str]) -> int:
    """Return the number of words before the job's name."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 1 if words[at] in SWITCHES or "=" in words[at] else 2
    return at
