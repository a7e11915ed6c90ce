"""Run a job in this process, on Spark's default master or the one of --master; `NAME --help` explains the job."""

import argparse
import importlib
from collections.abc import Sequence

from barnabas.commands._spark import job_name, need_pyspark

EXAMPLES = """
  barnabas spark run windows --help
  barnabas spark run windows -t clicks --checkpoint /tmp/windows --to console --master 'local[2]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments; those after the name are the job's."""
    parser.add_argument("name", metavar="NAME", help="the job; `barnabas spark list` lists them")
    parser.add_argument("argument", nargs="*", metavar="OPTION", help="options of the job")


def pass_on(words: Sequence[str]) -> int:
    """Run the job that the first word names with the other words; return its exit status."""
    name = job_name(words)
    need_pyspark()
    job = importlib.import_module(f"spark_jobs.{name}").JOB
    return int(job.main(words[1:]))
