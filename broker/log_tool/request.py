"""The parsed command line, and the files and directories that it selects."""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from storage.disk import Disk
from storage.inspection import kinds
from storage.inspection.directory import log_directories
from storage.log.names import parse_log_name

FOREVER = 2**63 - 1


class RequestError(Exception):
    """The request cannot be executed; the message says what is wrong."""


class Request(NamedTuple):
    """The command line, as `barnabas/commands/log/` parsed it."""

    command: str
    paths: list[str]
    topic: str | None = None
    partition: int | None = None
    offsets: str = ":"
    json: bool = False
    decoder: str = "auto"
    records: bool = True
    execute: bool = False

    @property
    def offset_range(self) -> tuple[int, int]:
        """The selected offsets: the first, and the one after the last."""
        found = re.fullmatch(r"(\d*)(:?)(\d*)", self.offsets)
        if found is None or self.offsets == "":
            raise RequestError(f"--offsets {self.offsets}: expected FROM:TO, FROM:, :TO or a single offset")
        start = int(found[1] or 0)
        end = start + 1 if not found[2] else int(found[3] or FOREVER)
        if end <= start:
            raise RequestError(f"--offsets {self.offsets}: empty range from {start} to {end}")
        return start, end


class Target(NamedTuple):
    """One selected path: a file, the directory of a log, or a data directory."""

    path: str
    kind: str


def targets(disk: Disk, request: Request) -> Iterator[Target]:
    """Yield the targets of a request; RequestError for a missing path or one that is not a broker's."""
    for path in request.paths:
        path = path.rstrip("/") or "/"
        if not disk.exists(path):
            raise RequestError(f"{shown(path)}: no such file or directory")
        if not disk.is_dir(path):
            kind_of = kinds.readable_as if request.command == "dump" else kinds.kind_of
            if kind_of(path.rpartition("/")[2]) is None:
                raise RequestError(f"{shown(path)}: not a file of a Kafka log or data directory")
            if request.topic is not None:
                raise RequestError(f"{shown(path)} is a file: --topic selects logs in a data directory")
            yield Target(path, "file")
        elif _is_log(disk, path):
            if request.topic is not None:
                raise RequestError(f"{shown(path)} is a log directory: --topic selects logs in a data directory")
            yield Target(path, "log")
        else:
            yield from _in_data_directory(disk, path, request)


def _in_data_directory(disk: Disk, path: str, request: Request) -> Iterator[Target]:
    logs = log_directories(disk, path)
    if not disk.exists(f"{path}/meta.properties") and not any(_has_log_files(disk, log) for log in logs):
        raise RequestError(
            f"{shown(path)}: neither a broker's data directory (no meta.properties, no log directory) nor a log "
            "directory (no segment or other file of a log)"
        )
    if request.topic is None:
        yield Target(path, "data")
        return
    found = [
        log
        for log in logs
        if (key := parse_log_name(log.rpartition("/")[2])) is not None
        and key[0] == request.topic
        and request.partition in (None, key[1])
    ]
    if not found:
        which = request.topic if request.partition is None else f"{request.topic}-{request.partition}"
        raise RequestError(f"{shown(path)} has no log of {which}")
    yield from (Target(log, "log") for log in found)


def shown(path: str) -> str:
    """Return a path relative to the working directory if it lies below it, else unchanged."""
    here = os.getcwd() + "/"
    return path.removeprefix(here)


def _is_log(disk: Disk, path: str) -> bool:
    parent, _, name = path.rpartition("/")
    if not kinds.is_log_directory(name) or disk.exists(f"{path}/meta.properties"):
        return False
    # The log of a data directory may have lost its files; any other directory needs one.
    return _has_log_files(disk, path) or disk.exists(f"{parent}/meta.properties")


def _has_log_files(disk: Disk, path: str) -> bool:
    """Return whether a directory has a log's file; a name like `dbus-1` alone does not make it a log."""
    return any(kinds.kind_of(name) is not None for name in disk.list_dir(path))


def files_of(disk: Disk, target: Target) -> Iterator[str]:
    """Yield the broker's files of a target, those of its logs included."""
    if target.kind == "file":
        yield target.path
        return
    for name in disk.list_dir(target.path):
        path = f"{target.path}/{name}"
        if disk.is_dir(path):
            if target.kind == "data" and kinds.is_log_directory(name):
                yield from files_of(disk, Target(path, "log"))
        elif kinds.kind_of(name) is not None:
            yield path
