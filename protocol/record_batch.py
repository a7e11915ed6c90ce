"""Record batches of magic 2: the header, checked and changed by the broker, and the records (`DefaultRecordBatch`).

    offset  size
         0     8  base offset                set by the leader
         8     4  batch length               bytes after this field
        12     4  partition leader epoch     set by the leader
        16     1  magic                      2
        17     4  CRC-32C                    of everything from the attributes on
        21     2  attributes                 bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control,
                                             6 delete horizon
        23     4  last offset delta
        27     8  base timestamp             or the delete horizon, if its bit is set
        35     8  largest timestamp
        43     8  producer id                -1: none
        51     2  producer epoch
        53     4  base sequence
        57     4  record count
        61        records, compressed together

The CRC does not cover the two fields that the leader sets, so a batch is stored and sent as the bytes that arrived. The
hot path is `check_batch` and `place`, on a view and without a copy. Records are decoded only if a rule requires it, and
never to more than a limit. Sources: KIP-98 (the format), KIP-534 (delete horizon). `record.py` encodes one record,
`record_scan.py` reads parts of all records of a batch, `compression.py` has the codecs, and
`storage/log/producer_state.py` checks sequences.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import partial
from struct import Struct
from struct import error as StructError  # noqa: N812 - `error` is a class
from typing import NamedTuple, TypeAlias

from protocol.checksum import crc32c
from protocol.compression import Compression, CompressionError, compress, decompress
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.plural import count_of
from protocol.primitives import Buffer
from protocol.record import Record, decode_record, invalid, put_record

HEADER_BYTES = 61
MAGIC = 2
# Limits of one batch of a client: bytes when decompressed, and records.
MAX_INFLATED_BYTES = 48 * 1024 * 1024
MAX_RECORDS = 1_000_000
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 2**31 - 1

_MIN_RECORD_BYTES = 7
_MAX_INT64 = 2**63 - 1

HEADER_FORMAT = ">qiibIhiqqqhii"
_HEADER = Struct(HEADER_FORMAT)
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_PLACE = Struct(">qii")  # base offset, batch length, partition leader epoch
_UINT32 = Struct(">I")
_INT16 = Struct(">h")
_CONTROL_KEY = Struct(">hh")
_END_TXN_VALUE = Struct(">hi")
_LENGTH_AND_MAGIC = Struct(">8xi4xb")

_LEADER_EPOCH_AT = 12
_MAGIC_AT = 16
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_LENGTH_COVERS_FROM = 12

_CODEC_BITS = 0x07
_LAST_CODEC = int(Compression.ZSTD)
_LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
_CLIENT_BITS = _CODEC_BITS | TRANSACTIONAL_BIT


class BatchHeader(NamedTuple):
    """The 61 bytes before a batch's records; timestamps in ms."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the batch, header included."""
        return _LENGTH_COVERS_FROM + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record; compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence; 0 follows 2^31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return self.base_sequence + self.last_offset_delta & MAX_SEQUENCE

    @property
    def compression(self) -> Compression:
        """The codec; ValueError for an unknown one."""
        return Compression(self.attributes & _CODEC_BITS)

    @property
    def is_compressed(self) -> bool:
        """Whether the records are compressed, even by an unknown codec."""
        return self.attributes & _CODEC_BITS != 0

    @property
    def log_append_time(self) -> bool:
        """Whether the batch's largest timestamp, set by the broker, is the timestamp of all records."""
        return self.attributes & _LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, such as transaction markers."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the batch's tombstones and markers may be removed; None before its first cleaning."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""A header's fields in the order of `BatchHeader`. On the hot path a plain tuple is cheaper to make, and reading its
items by position several times as fast as by name."""

# As `BatchHeader._make`, but without a Python call for each batch.
_batch_header = partial(tuple.__new__, BatchHeader)


class ControlType(IntEnum):
    """The type of a control record, from the second half of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def read_header(buf: Buffer, at: int = 0) -> BatchHeader:
    """Return the header at `at`, unchecked; DecodeError if fewer than 61 bytes are left."""
    try:
        return _batch_header(_HEADER.unpack_from(buf, at))
    except StructError:
        raise DecodeError(f"truncated batch header: {count_of(len(buf) - at, 'byte')}") from None


def check_batch(records: memoryview) -> BatchHeader:
    """Return the header of the one batch that a client sent for a partition, or raise KafkaError.

    CORRUPT_MESSAGE, which is retriable, if the bytes were damaged in transit; UNSUPPORTED_COMPRESSION_TYPE for an
    unknown codec; INVALID_TIMESTAMP for LogAppendTime; otherwise INVALID_RECORD, as in Kafka. The log checks the
    sequence, the timestamps and the size limit.
    """
    size = len(records)
    if size < HEADER_BYTES:
        raise _not_a_batch(records)
    fields = _HEADER.unpack_from(records)
    # Unpacking by position is several times as fast as access by name.
    base_offset, length, _, magic, crc, attributes, last_delta, _, _, producer_id, _, sequence, count = fields
    if magic != MAGIC or length + _LENGTH_COVERS_FROM != size:
        raise _not_a_batch(records)
    if base_offset != 0:
        raise invalid(f"a producer's batch starts at offset 0, not {base_offset}")
    if crc != crc32c(records[_ATTRIBUTES_AT:]):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch's CRC-32C does not match its content")
    if count <= 0 or last_delta + 1 != count:
        raise invalid(f"{count_of(count, 'record')} with a last offset delta of {last_delta}")
    if count > MAX_RECORDS if attributes & _CODEC_BITS else count * _MIN_RECORD_BYTES > size - HEADER_BYTES:
        raise invalid(f"{count_of(count, 'record')} in {count_of(size, 'byte')}")
    if attributes & ~_CLIENT_BITS:
        raise _refused_attributes(attributes)
    if attributes & _CODEC_BITS > _LAST_CODEC:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {attributes & _CODEC_BITS} does not exist")
    if producer_id >= 0 and sequence < 0:
        raise invalid(f"producer {producer_id} without a sequence")
    return _batch_header(fields)


def _not_a_batch(records: memoryview) -> KafkaError:
    """Return the error for records that are not exactly one whole batch of magic 2."""
    if len(records) <= _MAGIC_AT:
        return invalid("not a record batch")
    length, magic = _LENGTH_AND_MAGIC.unpack_from(records)
    size = length + _LENGTH_COVERS_FROM
    if size > len(records):
        return invalid(f"truncated record batch: its length is {size} bytes and {len(records)} are present")
    if magic in (0, 1):
        return invalid(f"magic {magic}; only record batches with magic {MAGIC} are accepted")
    if magic != MAGIC or size < HEADER_BYTES:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"not a record batch: magic {magic}, {size} bytes")
    return invalid(f"more than one record batch: the first has {size} of {len(records)} bytes")


def _refused_attributes(attributes: int) -> KafkaError:
    if attributes & CONTROL_BIT:
        return invalid("clients may not write control batches")
    if attributes & _LOG_APPEND_TIME_BIT:
        return KafkaError(ErrorCode.INVALID_TIMESTAMP, "only the broker may set LogAppendTime")
    return invalid(f"attributes {attributes & 0xFFFF:#06x} that a producer may not set")


def assign(records: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into the batch at the start of `records`; the CRC stays valid."""
    _INT64.pack_into(records, 0, base_offset)
    _INT32.pack_into(records, _LEADER_EPOCH_AT, leader_epoch)


def place(records: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int) -> HeaderFields:
    """Write base offset and leader epoch as `assign`; return the new header fields without reading them back."""
    length = header.batch_length
    _PLACE.pack_into(records, 0, base_offset, length, leader_epoch)
    return (base_offset, length, leader_epoch) + header[3:]  # noqa: RUF005 - half the cost of `*`


def set_header(records: bytearray, header: BatchHeader) -> None:
    """Overwrite the header of the batch at the start of `records`, including the CRC."""
    _HEADER.pack_into(records, 0, *header)


def set_log_append_time(records: bytearray | memoryview, timestamp_ms: int) -> None:
    """Set the timestamp of all records of the one batch in `records`, and recompute its CRC."""
    (attributes,) = _INT16.unpack_from(records, _ATTRIBUTES_AT)
    _INT16.pack_into(records, _ATTRIBUTES_AT, attributes | _LOG_APPEND_TIME_BIT)
    _INT64.pack_into(records, _MAX_TIMESTAMP_AT, timestamp_ms)
    _UINT32.pack_into(records, _CRC_AT, crc32c(memoryview(records)[_ATTRIBUTES_AT:]))


def crc_matches(batch: Buffer, header: BatchHeader) -> bool:
    """Return whether the CRC matches; `batch` must be exactly that batch."""
    return header.crc == crc32c(memoryview(batch)[_ATTRIBUTES_AT:])


def iter_batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch in `buf`; a partial batch at the end is skipped.

    DecodeError for bytes that cannot be a batch. CRCs are not checked.
    """
    at, end = 0, len(buf)
    while end - at >= HEADER_BYTES:
        header = read_header(buf, at)
        if header.magic != MAGIC or header.size_bytes < HEADER_BYTES:
            raise DecodeError(f"invalid record batch at byte {at}: magic {header.magic}, {header.size_bytes} bytes")
        following = at + header.size_bytes
        if following > end:
            return
        yield at, header
        at = following


def unpack(batch: Buffer, header: BatchHeader, max_bytes: int = MAX_INFLATED_BYTES) -> bytes:
    """Return the uncompressed records of the batch that begins `batch`; KafkaError if damaged or above `max_bytes`."""
    try:
        return decompress(header.compression, memoryview(batch)[HEADER_BYTES : header.size_bytes], max_bytes)
    except CompressionError as error:
        raise invalid(f"records cannot be decompressed: {error}") from None
    except ValueError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None


def iter_records(batch: Buffer, max_bytes: int = MAX_INFLATED_BYTES) -> Iterator[Record]:
    """Yield the records of the one batch that begins `batch`, inflated to at most `max_bytes`.

    KafkaError with INVALID_RECORD if they are malformed, larger than that, or not as many as the header says.
    """
    header = read_header(batch)
    data = unpack(batch, header, max_bytes)
    append_time = header.max_timestamp if header.log_append_time else None
    at = 0
    for _ in range(header.record_count):
        try:
            record, at = decode_record(data, at, header.base_offset, header.base_timestamp)
        except (IndexError, DecodeError):
            raise invalid(f"truncated record at byte {at}") from None
        if not (abs(record.offset) <= _MAX_INT64 and abs(record.timestamp) <= _MAX_INT64):
            raise invalid(f"record out of range: offset {record.offset}, timestamp {record.timestamp}")
        yield record if append_time is None else record._replace(timestamp=append_time)
    if at != len(data):
        raise invalid(f"{count_of(len(data) - at, 'byte')} after the last of {count_of(header.record_count, 'record')}")


RecordLike = Record | tuple[bytes | None, bytes | None]


def build_batch(
    records: Iterable[RecordLike],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_ms: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_control: bool = False,
    is_transactional: bool = False,
) -> bytearray:
    """Return a batch of `records`, with consecutive offsets from `base_offset` on.

    A (key, value) pair gets `timestamp_ms`; a `Record` has its own timestamp and headers, and its offset is ignored.
    ValueError if there are no records.
    """
    payload = bytearray()
    count = 0
    base_timestamp = max_timestamp = timestamp_ms
    for record in records:
        if isinstance(record, Record):
            _, timestamp, key, value, headers = record
        else:
            (key, value), timestamp, headers = record, timestamp_ms, ()
        if count == 0:
            base_timestamp = max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        put_record(payload, timestamp - base_timestamp, count, key, value, headers)
        count += 1
    if count == 0:
        raise ValueError("a batch holds at least one record")
    if compression is not Compression.NONE:
        payload = bytearray(compress(compression, payload, level))
    attributes = compression | is_transactional * TRANSACTIONAL_BIT | is_control * CONTROL_BIT
    batch = bytearray(HEADER_BYTES) + payload
    _HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - _LENGTH_COVERS_FROM,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    _UINT32.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return batch


def empty_batch(base_offset: int, last_offset: int, leader_epoch: int) -> bytearray:
    """Return a batch without records that covers these offsets, as compaction may leave it."""
    batch = bytearray(HEADER_BYTES)
    length, delta = HEADER_BYTES - _LENGTH_COVERS_FROM, last_offset - base_offset
    producer = (NO_PRODUCER_ID, -1, NO_SEQUENCE)
    times = (NO_TIMESTAMP, NO_TIMESTAMP)
    _HEADER.pack_into(batch, 0, base_offset, length, leader_epoch, MAGIC, 0, 0, delta, *times, *producer, 0)
    _UINT32.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return batch


def repack(
    header: BatchHeader, records: Buffer, compression: Compression, level: int | None, max_timestamp: int
) -> bytearray:
    """Return the batch of `header` with these uncompressed `records`, compressed by another codec.

    Of the header, only length, codec, CRC and largest timestamp change.
    """
    batch = bytearray(HEADER_BYTES) + compress(compression, records, level)
    attributes = header.attributes & ~_CODEC_BITS | compression
    length = len(batch) - _LENGTH_COVERS_FROM
    changed = header._replace(batch_length=length, attributes=attributes, max_timestamp=max_timestamp)
    _HEADER.pack_into(batch, 0, *changed)
    _UINT32.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return batch


def control_record_key(kind: ControlType) -> bytes:
    """Return the key of a control record: version 0 and the type."""
    return _CONTROL_KEY.pack(0, kind)


def control_type(key: bytes | None) -> ControlType | None:
    """Return the type in a control record's key; None for a type unknown here, which is to be skipped."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise invalid("truncated key of a control record")
    kind: int = _CONTROL_KEY.unpack_from(key)[1]
    return ControlType(kind) if kind in ControlType._value2member_map_ else None


class EndTxnMarker(NamedTuple):
    """The outcome of a transaction, and the epoch of the coordinator that wrote the marker."""

    committed: bool
    coordinator_epoch: int


def end_txn_marker(batch: Buffer) -> EndTxnMarker | None:
    """Return the marker in a control batch; None for another type, or if compaction removed the record."""
    record = next(iter_records(batch), None)
    if record is None:
        return None
    kind = control_type(record.key)
    if kind is not ControlType.COMMIT and kind is not ControlType.ABORT:
        return None
    if record.value is None or len(record.value) < _END_TXN_VALUE.size:
        raise invalid("truncated value of a transaction marker")
    return EndTxnMarker(kind is ControlType.COMMIT, _END_TXN_VALUE.unpack_from(record.value)[1])
