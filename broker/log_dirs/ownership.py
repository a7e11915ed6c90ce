"""Whose the data directories are: locked, read, and made this node's where they are new.

Every directory holds `meta.properties` with the cluster's id, the node's id and an id of its own. A start that
is refused leaves the directories as they were found, the mark of a clean stop included: those that are new are
marked only when nothing can be refused any more.
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


class CannotStart(Exception):  # noqa: N818 - what happened, in the words of the one who asked for it
    """The broker cannot start as it was asked to; the message says why."""


class Identity(NamedTuple):
    """What the data directories say."""

    cluster_id: str
    is_new: bool


def claim_directories(
    logs: LogManager, node_id: int, random: Random, cluster_id: str = "", voters: Sequence[object] = ()
) -> Identity:
    """Lock the directories of `logs`, and read whose they are; `mark_directories` is to follow.

    They are to be of the cluster `cluster_id`; without one, of any. New ones are of that, or of the one that all nodes
    with these `voters` agree on, or of a new cluster. Raises `CannotStart` if another process has one, if one is
    another node's or of a later version, and if none can be used; all are left as they were found then.
    """
    try:
        found = _claim(logs, node_id, cluster_id)
    except CannotStart:
        leave_directories(logs.directories)
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
                    f"{path}/meta.properties says that the data is of node {meta.node_id}, and this is"
                    f" node.id={node_id}: set that node.id, or choose another directory"
                )
            if meta.cluster_id != cluster_id:
                raise CannotStart(
                    f"{path}/meta.properties says that the data is of cluster {meta.cluster_id}, and that in other"
                    f" log.dirs is of {cluster_id}: take one of them out of log.dirs"
                )
        for directory in logs.online:
            if directory.meta is None:
                _refuse_what_is_not_new(directory)
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
            f"the data directory cannot be used: {error}; put that file back as it was, or choose another directory"
        ) from error
    except OSError as error:
        raise _unusable(error) from error
    if wanted_id and cluster_id not in (None, wanted_id):
        path = next(iter(found))
        raise CannotStart(
            f"{path}/meta.properties says that the data is of cluster {cluster_id}, and this is"
            f" barnabas.cluster.id={wanted_id}: set that id, or choose another directory"
        )
    return cluster_id


def _refuse_what_is_not_new(directory: LogDirectory) -> None:
    """Raise `CannotStart` for what is there without `meta.properties`, and would be mixed with what is this node's.

    That is logs, of which a new identity would hide whose they are, and the data directories of a cluster of
    `barnabas up`, which lie beside each other in one.
    """
    try:
        logs = sorted(filter(is_log_directory, directory.names()))
        nested = directory.nested()
    except KafkaError as error:
        raise CannotStart(f"the data directory cannot be used: {error}") from error
    if logs:
        raise CannotStart(
            f"{directory.path} holds logs, such as {logs[0]}, but no meta.properties, which says whose they are: put"
            " that file back, or choose another directory"
        )
    if nested:
        raise CannotStart(
            f"{directory.path} holds other data directories, such as {nested[0]}: start all of them with `barnabas up"
            f" --data-dir {directory.path}` if that made them, or choose another directory"
        )


def _refuse_newer_checkpoints(directory: LogDirectory) -> None:
    """Raise `CannotStart` for a checkpoint of a later version, which must not be taken for a damaged one."""
    for name in CHECKPOINTS:
        try:
            directory.read_offsets(name)
        except CheckpointError as error:
            if error.is_newer:
                raise CannotStart(
                    f"{error}: it is of a later version; start the broker that wrote it, or choose another directory"
                ) from error


def foreign_names(logs: LogManager) -> list[str]:
    """Return the paths of what is in the data directories and no broker has put there."""
    return [
        f"{directory.path}/{name}"
        for directory in logs.online
        for name in directory.names()
        if not is_log_directory(name) and is_foreign(name)
    ]


def mark_directories(logs: LogManager, cluster_id: str, node_id: int) -> None:
    """Make the directories that are new this node's, for good; `CannotStart` if that cannot be written."""
    try:
        logs.format(cluster_id, node_id)
    except OSError as error:
        raise _unusable(error) from error


def _unusable(error: OSError) -> CannotStart:
    return CannotStart(
        f"the data directory cannot be used: {reason(error)}; {remedy(error)}, or choose another directory"
    )


def refuse_failed(directory: LogDirectory) -> None:
    """Raise `CannotStart` if the directory with the metadata failed while its logs were read."""
    if directory.failure is not None:
        raise _unusable(directory.failure)


@contextmanager
def saying_what_is_full(directory: LogDirectory) -> Iterator[None]:
    """Raise `CannotStart` for what goes wrong here because no space is left in this directory."""
    try:
        yield
    except (InvariantError, CannotStart) as error:
        if not directory.full:
            raise
        raise CannotStart(
            f"no space is left in {directory.path}: free some there, and start again ({error})"
        ) from error


def leave_directories(directories: list[LogDirectory]) -> None:
    """Close directories whose logs were not opened, as they were found."""
    for directory in directories:
        if directory.failure is None:
            directory.close(clean=directory.clean)


def shared_cluster_id(voters: Sequence[object]) -> str:
    """Return the id that nodes with the same voters agree on, without having to be told one."""
    text = uuid_text(sha256(",".join(map(str, voters)).encode()).digest()[:16])
    return text if text[0] != "-" else f"_{text[1:]}"


def new_cluster_id(random: Random) -> str:
    """Return a random uuid as text, which does not look like an option to a command line."""
    while (text := uuid_text(random.randbytes(16))).startswith("-"):
        pass
    return text
