"""What the commands of `barnabas spark` share: the names of jobs, and whether PySpark is there."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from barnabas._arguments import did_you_mean
from barnabas.commands._output import CommandError, WrongCall


def job_name(words: Sequence[str]) -> str:
    """Return the first word, which must name a job; WrongCall otherwise."""
    from spark_jobs import JOBS

    if not words:
        raise WrongCall(f"name a job: {', '.join(JOBS)}")
    if words[0] not in JOBS:
        end = did_you_mean(words[0], JOBS) or "; `barnabas spark list` lists them"
        raise WrongCall(f"there is no job {words[0]!r}{end}")
    return words[0]


def need_pyspark() -> None:
    """Raise CommandError if PySpark or the jobs' other packages are not installed."""
    for package in ("pyspark", "configargparse"):
        if importlib.util.find_spec(package) is None:
            raise CommandError(f"{package} is not installed: pip install 'barnabas[spark]'")
