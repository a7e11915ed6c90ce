"""Apache Kafka's DumpLogSegments: what it reads in our files, and its error messages."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.oracles.apache_kafka import kafka_tool

TOOL = "org.apache.kafka.tools.DumpLogSegments"
SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex", ".checkpoint")


class Dump(NamedTuple):
    """The tool's output for each file, by line, and every error."""

    files: dict[Path, list[str]]
    complaints: list[str]

    def batches(self, file: Path) -> list[str]:
        """Return the lines about the batches in a segment."""
        return [line for line in self.files[file] if line.startswith("baseOffset: ")]

    def records(self, file: Path) -> list[str]:
        """Return the lines about the records in a segment."""
        return [line for line in self.files[file] if line.startswith("| offset: ")]


def field(line: str, name: str) -> str:
    """Return the value of a field in a line of the dump."""
    found = re.search(rf"\b{name}: (\S*)", line)
    if found is None:
        raise LookupError(f"no {name} in: {line}")
    return found[1]


def dumpable(directory: Path) -> list[Path]:
    """Return the files in a data directory, or a part of one, that the tool supports."""
    return sorted(path for path in directory.rglob("*") if path.suffix in SUFFIXES)


def dump(files: Iterable[Path], *options: str) -> Dump:
    """Read the files, every record in every batch; skip the test without Java."""
    whole = Dump({}, [])
    for names in _arguments(files):
        part = _dump(names, options)
        whole.files.update(part.files)
        whole.complaints.extend(part.complaints)
    return whole


def _arguments(files: Iterable[Path]) -> Iterator[str]:
    """Join the file names into as few arguments as Linux allows: none may be longer than 128 KiB."""
    names = ""
    for path in files:
        if len(names) + len(str(path)) > 100_000:
            yield names
            names = ""
        names += f",{path}" if names else str(path)
    yield names


def _dump(names: str, options: Iterable[str]) -> Dump:
    command = kafka_tool(TOOL, "--deep-iteration", "--print-data-log", *options, "--files", names)
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    complaints = _without_first_offsets([line for line in done.stderr.splitlines() if not _of_the_logger(line)])
    if done.returncode:
        complaints.append(f"the tool ended with {done.returncode}")
    read: dict[Path, list[str]] = {}
    lines: list[str] = []
    for line in done.stdout.splitlines():
        if line.startswith("Dumping "):
            lines = read.setdefault(Path(line.removeprefix("Dumping ")), [])
        elif "isvalid: false" in line or "invalid bytes at the end" in line:
            complaints.append(line)
        else:
            lines.append(line)
    return Dump(read, complaints)


def _of_the_logger(line: str) -> bool:
    return line.startswith(("SLF4J", "WARNING:")) or "StatusLogger" in line or "log4j" in line.lower()


def _without_first_offsets(lines: list[str]) -> list[str]:
    """Drop errors about a segment's first offset: the tool expects 0 in every file, Kafka's own too."""
    kept: list[str] = []
    for line in lines:
        heading = kept[-1] if kept else ""
        first = re.fullmatch(r"  -1 is followed by (\d+)", line)
        if first and heading.startswith("Non-consecutive") and heading.endswith(f"/{int(first[1]):020}.log"):
            continue
        if heading.startswith("Non-consecutive") and not line.startswith("  "):
            kept.pop()
        kept.append(line)
    if kept and kept[-1].startswith("Non-consecutive"):
        kept.pop()
    return kept
