"""Log directories in the metadata that start-up did not find: logged before their replicas start empty elsewhere.

A disk that is not mounted leaves an empty directory, which looks like a new one. The start continues, as in Kafka: only
the operator knows whether the records are needed. If a directory is present but fails, no replica starts empty: its
partitions are not served (`LogManager.create`). A replica that starts empty does not become leader while others have
the partition's records (`assignments_manager`).
"""

import logging

from controller.image import MetadataImage
from protocol.plural import count_of
from protocol.primitives import uuid_text
from storage.log_manager import LogManager

_RESERVED_IDS = 100  # ids below stand for unknown directories (KIP-858)
_SHOWN = 5

_log = logging.getLogger("broker.replicas")


def report_missing(image: MetadataImage, node_id: int, logs: LogManager) -> None:
    """Log one error for each missing directory that holds replicas of this node."""
    if len(logs.online) < len(logs.directories):
        return
    places = ", ".join(directory.path for directory in logs.online)
    for directory_id, partitions in missing_replicas(image, node_id, logs).items():
        _log.error(
            "Log directory %s, with %s in the metadata, is missing: its replicas start empty in %s."
            " If a disk is not mounted, stop this broker, mount it, and start again",
            uuid_text(directory_id),
            abbreviated(partitions),
            places,
        )


def missing_replicas(image: MetadataImage, node_id: int, logs: LogManager) -> dict[bytes, list[str]]:
    """Return the names of this node's replicas that have no log here, by the id of their missing directory."""
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


def abbreviated(partitions: list[str]) -> str:
    """Return the number of partitions and the first `_SHOWN` names."""
    rest = f" and {len(partitions) - _SHOWN} more" if len(partitions) > _SHOWN else ""
    return f"{count_of(len(partitions), 'partition')} ({', '.join(partitions[:_SHOWN])}{rest})"
