"""DescribeLogDirs: the data directories, and the sizes of the logs in them (KIP-113).

Behaviour
- One result per directory; one that has failed is KAFKA_STORAGE_ERROR and has no other field.
- Sizes are of segments, without indexes. The lag of a log is its distance to the high watermark, in offsets.
- The copy that a move makes in another directory is a future replica; its lag is its distance to the log's end.
- Partitions that were not requested or have no replica here are omitted, and so is the metadata log.

Version notes
- 4 and later have the volume's total bytes, and the bytes usable by unprivileged users (KIP-827).
- 5 and later have whether a directory is cordoned: it takes no new partitions (KIP-1066).
"""

import os.path
from collections.abc import Iterable
from typing import NamedTuple

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from storage.log.log import Log
from storage.log_directory import LogDirectory

_Result = DescribeLogDirsResponse.Result


class _Log(NamedTuple):
    """A log or a future replica, with its lag in offsets."""

    log: Log
    lag: int
    is_future: bool


def handle(broker: BrokerServer, _context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Return every directory with its requested logs."""
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    found: dict[LogDirectory, list[_Log]] = {directory: [] for directory in broker.logs.directories}
    for log in broker.logs:
        lag = max(log.high_watermark - log.log_end_offset, 0)
        found[broker.logs.directory_of(log)].append(_Log(log, lag, is_future=False))
    for move in broker.logs.moves:
        if not move.promoted:
            lag = move.log.log_end_offset - move.copy.log_end_offset
            found[move.target].append(_Log(move.copy, lag, is_future=True))
    node = broker.image.brokers.get(broker.node_id)
    cordoned = (node.cordoned_directories if node is not None else None) or ()
    return DescribeLogDirsResponse(
        results=[
            _describe(
                directory,
                [one for one in logs if wanted is None or (one.log.topic, one.log.partition) in wanted],
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
