"""The command line of spark-submit for a job: the jobs' modules and the connectors' jars are sent along.

In cluster mode the driver runs on another machine, which has neither this package nor the parsers of its options: the
archive of `--py-files` has them. Else the driver is a child of spark-submit's Java process, which would end it at once
on a signal; the driver writes its process id to a file, so that a signal can be sent to it instead.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = """\
import os, sys
from importlib import import_module
if os.path.isdir({folder!r}):
    with open({folder!r} + "/driver.pid", "w") as file:
        file.write(str(os.getpid()))
sys.exit(import_module("spark_jobs.{name}").JOB.main())
"""
# Options of spark-submit whose values are lists, to which those of the job are added.
LISTS = ("--jars", "--py-files")


def command(
    name: str, spark_words: Sequence[str], job_words: Sequence[str], *, jars: Sequence[str], folder: str
) -> list[str]:
    """Return the command; the files that it names are written to `folder`."""
    program = Path(folder) / f"{name}.py"
    program.write_text(PROGRAM.format(name=name, folder=folder), encoding="utf-8")
    added = {"--jars": list(jars), "--py-files": [str(_archive(Path(folder) / "spark_jobs.zip"))]}
    words: list[str] = []
    rest = iter(spark_words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in LISTS:
            added[option].insert(0, value if equals else next(rest, ""))
        else:
            words.append(word)
    lists = [part for option in LISTS for part in (option, ",".join(added[option]))]
    return [spark_submit(), *words, *lists, str(program), *job_words]


def run(command: Sequence[str], environment: Mapping[str, str], folder: str) -> int:
    """Run spark-submit and return its status; SIGTERM and SIGINT are sent to the driver, which then ends the job."""
    # In a group of its own: Ctrl-C would end its Java process at once.
    with subprocess.Popen(command, env=environment, process_group=0) as running:  # noqa: S603 - Spark's

        def forward(number: int, _: object) -> None:
            try:
                os.kill(int((Path(folder) / "driver.pid").read_text()), number)
            except (OSError, ValueError):
                running.send_signal(number)

        former = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            return running.wait()
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


def spark_submit() -> str:
    """Return the path of spark-submit, of $SPARK_HOME or of the installed PySpark."""
    import pyspark

    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    return str(Path(home) / "bin" / "spark-submit")


def is_cluster_mode(spark_words: Sequence[str]) -> bool:
    """Return whether the driver runs on another machine, which may have other files."""
    return "cluster" in spark_words or "--deploy-mode=cluster" in spark_words


def environment(spark_words: Sequence[str]) -> Mapping[str, str]:
    """Return the environment of spark-submit: driver and executors run on this Python.

    In cluster mode they may run on machines without it, where Python is Spark's to find.
    """
    if is_cluster_mode(spark_words):
        return os.environ
    return {"PYSPARK_PYTHON": sys.executable, **os.environ}


def _archive(path: Path) -> Path:
    import configargparse
    import yaml

    package, parsers = Path(__file__).parent, (Path(configargparse.__file__), *Path(yaml.__file__).parent.glob("*.py"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(package.rglob("*.py")):
            archive.write(module, Path(package.name) / module.relative_to(package))
        for module in parsers:
            archive.write(module, Path("yaml" if module.parent.name == "yaml" else "") / module.name)
    return path
