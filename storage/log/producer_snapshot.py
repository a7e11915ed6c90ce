"""Producer snapshot files (`.snapshot`): a partition's producer state at the offset in the file's name.

    offset  size
         0     2  version            1
         2     4  CRC-32C            of everything after it
         6     4  producer count
        10        46 bytes a producer:
                  int64 producer id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta,
                  int64 last timestamp, int32 coordinator epoch, int64 first offset of its open transaction or
                  -1

A snapshot has only each producer's last batch; `ProducerStateManager.refill` restores the rest of the window.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class despite its name

from protocol.checksum import crc32c
from protocol.plural import count_of
from protocol.record_batch import NO_SEQUENCE
from storage.log.producer_state import NO_OFFSET, AppendedBatch, ProducerStateEntry, ProducerStateManager

SNAPSHOT_SUFFIX = ".snapshot"
VERSION = 1

HEADER_FORMAT = ">hIi"
ENTRY_FORMAT = ">qhiqiqiq"

_VERSION_AND_CRC = Struct(HEADER_FORMAT[:-1])
_COUNT = Struct(">i")
_ENTRY = Struct(ENTRY_FORMAT)
_NO_BATCH = AppendedBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)


class SnapshotError(ValueError):
    """The file is not a complete snapshot: delete it and use the one before. `field` names the damaged field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


def encode_snapshot(state: ProducerStateManager) -> bytes:
    """Return the content of a snapshot file for the current `state`."""
    parts = [_COUNT.pack(len(state.producers))]
    for producer_id, entry in state.producers.items():
        last = entry.batches[-1] if entry.batches else _NO_BATCH
        parts.append(
            _ENTRY.pack(
                producer_id,
                entry.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
        )
    body = b"".join(parts)
    return _VERSION_AND_CRC.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, end_offset: int) -> ProducerStateManager:
    """Return the producer state of the snapshot taken at `end_offset`; raise SnapshotError if it is damaged."""
    try:
        version, crc = _VERSION_AND_CRC.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _VERSION_AND_CRC.size)
    except StructError:
        raise SnapshotError("version", f"truncated producer snapshot: {count_of(len(data), 'byte')}") from None
    if version != VERSION:
        raise SnapshotError("version", f"unknown producer snapshot version {version}")
    body = memoryview(data)[_VERSION_AND_CRC.size :]
    if crc != crc32c(body):
        raise SnapshotError("crc", "the producer snapshot's CRC-32C does not match its content")
    entries = body[_COUNT.size :]
    if len(entries) != count * _ENTRY.size:
        raise SnapshotError("producer_count", f"{count_of(count, 'producer')} in {count_of(len(entries), 'byte')}")
    producers: dict[int, ProducerStateEntry] = {}
    for producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn in _ENTRY.iter_unpack(entries):
        batches = [AppendedBatch(sequence, offset, delta, timestamp)] if offset >= 0 else []
        producers[producer_id] = ProducerStateEntry(epoch, coordinator_epoch, timestamp, txn, batches)
    return ProducerStateManager(end_offset, producers)


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of the producer snapshots among the `names` in a log's directory, ascending."""
    stems = [name.removesuffix(SNAPSHOT_SUFFIX) for name in names if name.endswith(SNAPSHOT_SUFFIX)]
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdigit())
