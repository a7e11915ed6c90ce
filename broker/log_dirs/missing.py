"""Data directories that the metadata knows and the start did not find: said before what was in them begins empty.

A disk that is not mounted leaves an empty directory behind, which passes for a new one. The start goes on, as Apache
Kafka's does; only a person can tell whether the records are wanted. Where a directory is there and fails, nothing
begins empty: its partitions are not served (`LogManager.create`). What begins empty leads nothing that others have too
(`broker.replication.replica_homes`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from protocol.plural import count_of
from protocol.primitives import uuid_text

if TYPE_CHECKING:
    from controller.image import MetadataImage
    from storage.log_manager import LogManager

_RESERVED_IDS = 100  # they stand for directories that nobody knows (KIP-858)
_SHOWN = 5

_log = logging.getLogger("broker.replicas")


def report_lost(image: MetadataImage, node_id: int, logs: LogManager) -> None:
    """Log one error for each directory that is gone with partitions of this node in it."""
    if len(logs.online) < len(logs.directories):
        return
    places = ", ".join(directory.path for directory in logs.online)
    for directory_id, partitions in lost_replicas(image, node_id, logs).items():
        _log.error(
            "No log directory has the id %s, in which the metadata has %s: what was in it begins empty in %s."
            " If a disk is not mounted, stop this broker, mount it, and start again",
            uuid_text(directory_id),
            some_of(partitions),
            places,
        )


def lost_replicas(image: MetadataImage, node_id: int, logs: LogManager) -> dict[bytes, list[str]]:
    """Return the replicas of this node without a log here, by the id of their directory, which is not here either."""
    here = {directory.directory_id for directory in logs.directories}
    lost: dict[bytes, list[str]] = {}
    for topic in image.topics():
        for state in topic.partitions.values():
            if node_id not in state.replicas or logs.get(topic.name, state.partition) is not None:
                continue
            directory_id = state.directories[state.replicas.index(node_id)]
            if directory_id not in here and int.from_bytes(directory_id, "big") >= _RESERVED_IDS:
                lost.setdefault(directory_id, []).append(f"{topic.name}-{state.partition}")
    return lost


def some_of(partitions: list[str]) -> str:
    """Return how many partitions there are, and the names of the first."""
    rest = f" and {len(partitions) - _SHOWN} more" if len(partitions) > _SHOWN else ""
    return f"{count_of(len(partitions), 'partition')} ({', '.join(partitions[:_SHOWN])}{rest})"
