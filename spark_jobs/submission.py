"""The command line of spark-submit for a job: the jobs' modules and the connectors' jars are sent along.

In cluster mode the driver runs on another machine, which has neither this package nor the parser of its options: the
archive of `--py-files` has both.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = """\
import sys
from importlib import import_module
sys.exit(import_module("spark_jobs.{name}").JOB.main())
"""


def command(
    name: str, spark_words: Sequence[str], job_words: Sequence[str], *, jars: Sequence[str], folder: str
) -> list[str]:
    """Return the command; the files that it names are written to `folder`."""
    program = Path(folder) / f"{name}.py"
    program.write_text(PROGRAM.format(name=name), encoding="utf-8")
    modules = str(_archive(Path(folder) / "spark_jobs.zip"))
    return [spark_submit(), *spark_words, "--jars", ",".join(jars), "--py-files", modules, str(program), *job_words]


def spark_submit() -> str:
    """Return the path of spark-submit, of $SPARK_HOME or of the installed PySpark."""
    import pyspark

    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    return str(Path(home) / "bin" / "spark-submit")


def environment() -> Mapping[str, str]:
    """Return the environment of spark-submit: driver and local executors run on this Python."""
    return {"PYSPARK_PYTHON": sys.executable, **os.environ}


def _archive(path: Path) -> Path:
    import configargparse

    package = Path(__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(package.rglob("*.py")):
            archive.write(module, Path(package.name) / module.relative_to(package))
        parser = Path(configargparse.__file__)
        archive.write(parser, parser.name)
    return path
