"""Fills Raft responses with data of the metadata log when they are sent."""

from broker.metadata.metadata_log import MetadataLog
from controller.raft.messages import LogRead, Response, SnapshotRead
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotResponse

# Maximum bytes per response, whatever the request allows: a longer read would delay other requests.
_MAX_BYTES = 8 * 1024 * 1024


def fill_in(log: MetadataLog, response: Response) -> None:
    """Read the data for `response` into it."""
    message, read = response.response, response.read
    if isinstance(read, LogRead) and isinstance(message, FetchResponse):
        _fill_records(log, message, read)
    elif isinstance(read, SnapshotRead) and isinstance(message, FetchSnapshotResponse):
        _fill_part(log, message, read)


def _fill_records(log: MetadataLog, response: FetchResponse, read: LogRead) -> None:
    [topic] = response.responses
    [partition] = topic.partitions
    try:
        partition.records = memoryview(log.read_batches(read.offset, min(read.max_bytes, _MAX_BYTES)))
    except KafkaError as error:
        partition.error_code = error.code


def _fill_part(log: MetadataLog, response: FetchSnapshotResponse, read: SnapshotRead) -> None:
    [topic] = response.topics
    [partition] = topic.partitions
    try:
        part = log.read_snapshot_part(read.snapshot, read.position, min(read.max_bytes, _MAX_BYTES))
    except KafkaError as error:
        partition.error_code = error.code
        if error.code is ErrorCode.POSITION_OUT_OF_RANGE:
            partition.position = read.position
    else:
        partition.size, partition.unaligned_records = part.size_bytes, memoryview(part.data)
