"""List the jobs."""

import argparse

from barnabas.commands._output import add_json, show

EXAMPLES = """
  barnabas spark list
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print each job with a line about it."""
    from spark_jobs import JOBS

    show(options, ("job", "about"), [{"job": name, "about": about} for name, about in JOBS.items()])
    return 0
