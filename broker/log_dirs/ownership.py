"""Ownership of the log directories: locked, checked against this node's ids, and formatted if new.

Every directory has a `meta.properties` with the cluster id, the node id and its own directory id. A refused start
leaves the directories unchanged, including the clean shutdown file: new directories are formatted only once nothing can
be refused any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import InvariantError, KafkaError
from protocol.primitives import uuid_text
from storage.checkpoint import CheckpointError
from storage.checkpoint_files import CHECKPOINTS
from storage.disk import AlreadyLocked, reason, remedy
from storage.inspection.kinds import is_foreign, is_log_directory

if TYPE_CHECKING:
    from random import Random

    from storage.log_directory import LogDirectory
    from storage.log_manager import LogManager


class CannotStart(Exception):  # noqa: N818 - shown to the operator as a message
    """The broker cannot start as configured; the message is for the operator."""


class Identity(NamedTuple):
    """The cluster id of the directories, and whether all of them are new."""

    cluster_id: str
    is_new: bool


def claim_directories(
    logs: LogManager, node_id: int, random: Random, cluster_id: str = "", voters: Sequence[object] = ()
) -> Identity:
    """Lock the directories of `logs` and check their owner; `format_directories` follows.

    With `cluster_id`, existing directories must have that cluster id; without, any. New ones get `cluster_id`, or the
    id that all nodes with these `voters` derive, or a random one. Raise `CannotStart` if another process has locked a
    directory, if one belongs to another node or was written by a later version, or if none can be used; all are left
    unchanged then.
    """
    try:
        found = _claim(logs, node_id, cluster_id)
    except CannotStart:
        release_directories(logs.directories)
        raise
    new = cluster_id or (shared_cluster_id(voters) if voters else new_cluster_id(random))
    return Identity(found or new, found is None)


def _claim(logs: LogManager, node_id: int, wanted_id: str) -> str | None:
    try:
        logs.open()
        found = {directory.path: directory.meta for directory in logs.online if directory.meta is not None}
        cluster_id = next((meta.cluster_id for meta in found.values()), None)
        for path, meta in found.items():
            if meta.node_id != node_id:
                raise CannotStart(
                    f"{path}/meta.properties has node.id={meta.node_id}, but the configuration has"
                    f" node.id={node_id}: correct node.id, or choose another directory"
                )
            if meta.cluster_id != cluster_id:
                raise CannotStart(
                    f"{path}/meta.properties has cluster.id={meta.cluster_id}, but other log.dirs have"
                    f" {cluster_id}: remove one of the directories from log.dirs"
                )
        for directory in logs.online:
            if directory.meta is None:
                _refuse_unformatted_data(directory)
            _refuse_newer_checkpoints(directory)
    except AlreadyLocked as error:
        holder = "another process" if error.pid is None else f"process {error.pid}"
        raise CannotStart(f"the data directory {os.path.dirname(error.path)} is in use by {holder}") from error
    except NotADirectoryError as error:
        raise CannotStart(f"the data directory cannot be used: {error.filename} is not a directory") from error
    except FileExistsError as error:
        raise CannotStart(f"the data directory cannot be used: {error.filename} is a file, not a directory") from error
    except CheckpointError as error:
        raise CannotStart(
            f"the data directory cannot be used: {error}; restore that file, or choose another directory"
        ) from error
    except OSError as error:
        raise _unusable(error) from error
    if wanted_id and cluster_id not in (None, wanted_id):
        path = next(iter(found))
        raise CannotStart(
            f"{path}/meta.properties has cluster.id={cluster_id}, but the configuration has"
            f" barnabas.cluster.id={wanted_id}: correct that setting, or choose another directory"
        )
    return cluster_id


def _refuse_unformatted_data(directory: LogDirectory) -> None:
    """Raise `CannotStart` for a directory that lacks `meta.properties` but holds data.

    Data is logs, whose owner a new identity would hide, or the data directories of a cluster of `barnabas up`.
    """
    try:
        logs = sorted(filter(is_log_directory, directory.names()))
        nested = directory.nested()
    except KafkaError as error:
        raise CannotStart(f"the data directory cannot be used: {error}") from error
    if logs:
        raise CannotStart(
            f"{directory.path} holds logs, such as {logs[0]}, but no meta.properties: restore that file, or choose"
            " another directory"
        )
    if nested:
        raise CannotStart(
            f"{directory.path} holds other data directories, such as {nested[0]}: start all of them with `barnabas up"
            f" --data-dir {directory.path}` if that created them, or choose another directory"
        )


def _refuse_newer_checkpoints(directory: LogDirectory) -> None:
    """Raise `CannotStart` for a checkpoint of a later version, which must not be handled as a damaged one."""
    for name in CHECKPOINTS:
        try:
            directory.read_offsets(name)
        except CheckpointError as error:
            if error.is_newer:
                raise CannotStart(
                    f"{error}: written by a later version; start the broker that wrote it, or choose another directory"
                ) from error


def foreign_names(logs: LogManager) -> list[str]:
    """Return the paths in the data directories that are not files of a broker."""
    return [
        f"{directory.path}/{name}"
        for directory in logs.online
        for name in directory.names()
        if not is_log_directory(name) and is_foreign(name)
    ]


def format_directories(logs: LogManager, cluster_id: str, node_id: int) -> None:
    """Format the new directories for this node, durably; `CannotStart` if that fails."""
    try:
        logs.format(cluster_id, node_id)
    except OSError as error:
        raise _unusable(error) from error


def _unusable(error: OSError) -> CannotStart:
    return CannotStart(
        f"the data directory cannot be used: {reason(error)}; {remedy(error)}, or choose another directory"
    )


def refuse_failed(directory: LogDirectory) -> None:
    """Raise `CannotStart` if the directory of the metadata log failed while its logs were loaded."""
    if directory.failure is not None:
        raise _unusable(directory.failure)


@contextmanager
def refuse_if_full(directory: LogDirectory) -> Iterator[None]:
    """Raise `CannotStart` in place of an error whose cause is that `directory` is full."""
    try:
        yield
    except (InvariantError, CannotStart) as error:
        if not directory.full:
            raise
        raise CannotStart(f"no space left in {directory.path}: free some, then start again ({error})") from error


def release_directories(directories: list[LogDirectory]) -> None:
    """Close directories whose logs were not opened, unchanged."""
    for directory in directories:
        if directory.failure is None:
            directory.close(clean=directory.clean)


def shared_cluster_id(voters: Sequence[object]) -> str:
    """Return the cluster id that all nodes with these voters derive without configuration."""
    text = uuid_text(sha256(",".join(map(str, voters)).encode()).digest()[:16])
    return text if text[0] != "-" else f"_{text[1:]}"


def new_cluster_id(random: Random) -> str:
    """Return a random uuid as text without a leading `-`, which command lines would take for an option."""
    while (text := uuid_text(random.randbytes(16))).startswith("-"):
        pass
    return text
