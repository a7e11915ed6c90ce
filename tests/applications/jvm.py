"""Java applications of the tests: their jars, and each as a process that can be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.oracles.apache_kafka import JVM
from tests.setups import prepared, require, run

JAVA = Path(__file__).parent / "java"


def classpath() -> str:
    """Return the classpath of Streams, Connect, MirrorMaker 2 and the programs in `java/`; the first call builds it."""
    require("java", "javac", "mvn")
    sources = sorted(JAVA.glob("*.java"))

    def build(folder: Path) -> None:
        target = f"-DoutputDirectory={folder / 'lib'}"
        run("mvn", "-q", "-B", "-f", JAVA / "pom.xml", "dependency:copy-dependencies", target, "-DincludeScope=runtime")
        run("javac", "-d", folder / "classes", "-cp", f"{folder / 'lib'}/*", *sources)

    built = prepared("applications", [JAVA / "pom.xml", *sources], build, cache_of="maven")
    return f"{built / 'classes'}:{built / 'lib'}/*"


def java(class_name: str, *arguments: str | Path, properties: Sequence[str] = ()) -> list[str]:
    """Return the command line of a Java program; `properties` are of the system, as `name=value`."""
    options = (f"-D{line}" for line in ("log4j2.level=INFO", *properties))
    return [*JVM, *options, "-cp", classpath(), class_name, *map(str, arguments)]


class Process:
    """One application, running or not, with the processes that it starts. Its output goes to `log`, over all starts."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        self._command = command
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Process:
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        return self

    def kill(self) -> None:
        """Kill it with SIGKILL; fail if it had ended by itself."""
        self.check()
        self._end()

    def stop(self, timeout_s: float = 60) -> None:
        """Stop it with SIGTERM, and return when it has ended."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(timeout_s)
        self._end()

    def check(self) -> None:
        """Fail if the process has ended."""
        assert self._process is not None
        assert self._process.poll() is None, f"it ended with {self._process.poll()}; see {self.log}"

    def __enter__(self) -> Process:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
