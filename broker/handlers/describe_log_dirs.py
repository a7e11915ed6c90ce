"""DescribeLogDirs: the data directories, and how large the logs in them are (KIP-113).

Behaviour
- One result a directory; one that has failed is KAFKA_STORAGE_ERROR and says nothing else.
- Sizes are of records, without indexes. How far a log is behind is what it lacks below the high watermark.
- The copy that a move makes in another directory is a future replica; it is behind by what it lacks of the log.
- Of partitions that were not asked for, or are not here, nothing is said. The metadata log is not among them.

Version notes
- 4 and later tell the volume's size and what is left of it for unprivileged users (KIP-827).
- 5 and later say whether a directory is cordoned: it takes no new partitions (KIP-1066).
"""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.broker import Broker
    from broker.network.connection import RequestContext
    from storage.log.log import Log
    from storage.log_directory import LogDirectory

_Result = DescribeLogDirsResponse.Result


class _Log(NamedTuple):
    """A log, or the copy that is to take its place, and by how many offsets it is behind."""

    log: Log
    lag: int
    is_future: bool


def handle(broker: Broker, _context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe every directory with those of its logs that were asked for."""
    asked = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    found: dict[LogDirectory, list[_Log]] = {directory: [] for directory in broker.logs.directories}
    for log in broker.logs:
        lag = max(log.high_watermark - log.log_end_offset, 0)
        found[broker.logs.directory_of(log)].append(_Log(log, lag, is_future=False))
    for move in broker.logs.moves:
        if not move.taken_over:
            lag = move.log.log_end_offset - move.copy.log_end_offset
            found[move.target].append(_Log(move.copy, lag, is_future=True))
    node = broker.image.brokers.get(broker.node_id)
    cordoned = (node.cordoned_directories if node is not None else None) or ()
    return DescribeLogDirsResponse(
        results=[
            _describe(
                directory,
                [one for one in logs if asked is None or (one.log.topic, one.log.partition) in asked],
                is_cordoned=directory.directory_id in cordoned,
            )
            for directory, logs in found.items()
        ]
    )


def _describe(directory: LogDirectory, logs: Iterable[_Log], *, is_cordoned: bool) -> _Result:
    path = os.path.abspath(directory.path)
    try:
        space = directory.space()
    except KafkaError:
        return _Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])
    topics: dict[str, list[_Result.Topic.Partition]] = {}
    for log, lag, is_future in logs:
        topics.setdefault(log.topic, []).append(
            _Result.Topic.Partition(
                partition_index=log.partition,
                partition_size=log.size_bytes,
                offset_lag=lag,
                is_future_key=is_future,
            )
        )
    return _Result(
        log_dir=path,
        topics=[_Result.Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=space.total_bytes,
        usable_bytes=space.usable_bytes,
        is_cordoned=is_cordoned,
    )
