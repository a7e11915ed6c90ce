"""Record batches, magic 2: the header that the broker checks and patches, and the records within.

    offset  size
         0     8  base offset                patched by the leader
         8     4  batch length               bytes after this field
        12     4  partition leader epoch     patched by the leader
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
        61        records, compressed as one

Neither patched field is under the CRC, so a batch goes from socket to disk and back as the bytes that
arrived. The hot path is `check_batch` and `assign`, on a view and without a copy; records are decoded only
where a rule demands it, and never to more than a bound. Sources: KIP-98 (the format), KIP-534 (delete
horizon). One record's encoding lives in `record.py`, a look at all of a batch's without decoding them in
`record_scan.py`, codecs in `compression.py`, and what a producer may append next in `storage/log/producer_state.py`.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import partial
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class, whatever its name
from typing import NamedTuple, TypeAlias

from protocol.checksum import crc32c
from protocol.compression import Compression, CompressionError, compress, decompress
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.plural import count_of
from protocol.primitives import Buffer
from protocol.record import Record, decode_record, invalid, put_record

HEADER_BYTES = 61
MAGIC = 2
# No batch of a client makes the broker larger than this by itself.
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
    """The 61 bytes in front of a batch's records; timestamps in ms."""

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
        """The whole batch, header included."""
        return _LENGTH_COVERS_FROM + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record, which compaction may have removed since."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence, wrapped after 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return self.base_sequence + self.last_offset_delta & MAX_SEQUENCE

    @property
    def compression(self) -> Compression:
        """The codec; ValueError for one that does not exist."""
        return Compression(self.attributes & _CODEC_BITS)

    @property
    def is_compressed(self) -> bool:
        """Whether the records have to be unpacked, be it by a codec that does not exist."""
        return self.attributes & _CODEC_BITS != 0

    @property
    def log_append_time(self) -> bool:
        """Whether every record's timestamp is the batch's largest one, set by the broker."""
        return self.attributes & _LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        """Whether a transaction decides if the records count."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are marks of the broker, such as the end of a transaction."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may go, once the first cleaning has fixed it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""A header's fields in the order of `BatchHeader`, for who takes them apart by position: where each batch passes, a
tuple is cheaper to make, and its parts several times as cheap to have."""

# What `BatchHeader._make` does, without a call of a Python function for each batch.
_batch_header = partial(tuple.__new__, BatchHeader)


class ControlType(IntEnum):
    """What a control record says, as its key's second half names it."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def read_header(buf: Buffer, at: int = 0) -> BatchHeader:
    """Return the header that begins at `at`, unchecked; DecodeError if fewer than 61 bytes are left."""
    try:
        return _batch_header(_HEADER.unpack_from(buf, at))
    except StructError:
        raise DecodeError(f"no batch header in {count_of(len(buf) - at, 'byte')}") from None


def check_batch(records: memoryview) -> BatchHeader:
    """Return the header of the one batch that a client sent for a partition, or raise why it is refused.

    KafkaError with CORRUPT_MESSAGE where bytes were damaged on the way and sending again may help, with
    UNSUPPORTED_COMPRESSION_TYPE for an unknown codec, and otherwise with INVALID_RECORD, as Apache Kafka
    does. The producer's sequence, the timestamp's range and the size limit are the log's to check.
    """
    size = len(records)
    if size < HEADER_BYTES:
        raise _not_a_batch(records)
    fields = _HEADER.unpack_from(records)
    # By position, which is several times as fast as by name.
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
    """Say what is there instead of exactly one whole batch of magic 2."""
    if len(records) <= _MAGIC_AT:
        return invalid("no record batch")
    length, magic = _LENGTH_AND_MAGIC.unpack_from(records)
    size = length + _LENGTH_COVERS_FROM
    if size > len(records):
        return invalid(f"no whole record batch: it says {size} bytes and {len(records)} are there")
    if magic in (0, 1):
        return invalid(f"magic {magic}; only record batches with magic {MAGIC} are accepted")
    if magic != MAGIC or size < HEADER_BYTES:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no record batch: magic {magic}, {size} bytes")
    return invalid(f"more than one record batch: the first has {size} of {len(records)} bytes")


def _refused_attributes(attributes: int) -> KafkaError:
    if attributes & CONTROL_BIT:
        return invalid("clients may not write control batches")
    if attributes & _LOG_APPEND_TIME_BIT:
        return KafkaError(ErrorCode.INVALID_TIMESTAMP, "only the broker may set LogAppendTime")
    return invalid(f"attributes {attributes & 0xFFFF:#06x} that a producer may not set")


def assign(records: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at the start of `records` its place in the log, in place; the CRC stays valid."""
    _INT64.pack_into(records, 0, base_offset)
    _INT32.pack_into(records, _LEADER_EPOCH_AT, leader_epoch)


def place(records: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int) -> HeaderFields:
    """Do what `assign` does with the batch of that header; return the fields that it has now, without reading them."""
    length = header.batch_length
    _PLACE.pack_into(records, 0, base_offset, length, leader_epoch)
    return (base_offset, length, leader_epoch) + header[3:]  # noqa: RUF005 - half the cost of `*`


def set_header(records: bytearray, header: BatchHeader) -> None:
    """Let the batch at the start of `records` have this header, in place, the CRC in it included."""
    _HEADER.pack_into(records, 0, *header)


def set_log_append_time(records: bytearray | memoryview, timestamp_ms: int) -> None:
    """Make `timestamp_ms` the timestamp of all records of the one batch in `records`, with a new CRC."""
    (attributes,) = _INT16.unpack_from(records, _ATTRIBUTES_AT)
    _INT16.pack_into(records, _ATTRIBUTES_AT, attributes | _LOG_APPEND_TIME_BIT)
    _INT64.pack_into(records, _MAX_TIMESTAMP_AT, timestamp_ms)
    _UINT32.pack_into(records, _CRC_AT, crc32c(memoryview(records)[_ATTRIBUTES_AT:]))


def crc_matches(batch: Buffer, header: BatchHeader) -> bool:
    """Tell whether the batch, which `batch` holds exactly, is undamaged."""
    return header.crc == crc32c(memoryview(batch)[_ATTRIBUTES_AT:])


def iter_batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch in `buf`; a partial one at the end is left out.

    DecodeError where the bytes cannot be a batch. CRCs are not checked.
    """
    at, end = 0, len(buf)
    while end - at >= HEADER_BYTES:
        header = read_header(buf, at)
        if header.magic != MAGIC or header.size_bytes < HEADER_BYTES:
            raise DecodeError(f"no record batch at byte {at}: magic {header.magic}, {header.size_bytes} bytes")
        following = at + header.size_bytes
        if following > end:
            return
        yield at, header
        at = following


def unpack(batch: Buffer, header: BatchHeader, max_bytes: int = MAX_INFLATED_BYTES) -> bytes:
    """Return the records' bytes of the batch that begins `batch`, at most `max_bytes` of them; KafkaError."""
    try:
        return decompress(header.compression, memoryview(batch)[HEADER_BYTES : header.size_bytes], max_bytes)
    except CompressionError as error:
        raise invalid(f"records cannot be unpacked: {error}") from None
    except ValueError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None


def iter_records(batch: Buffer, max_bytes: int = MAX_INFLATED_BYTES) -> Iterator[Record]:
    """Yield the records of the one batch that begins `batch`, inflating at most `max_bytes`.

    KafkaError with INVALID_RECORD where they are malformed, not as many as the header says, or larger than
    that.
    """
    header = read_header(batch)
    data = unpack(batch, header, max_bytes)
    append_time = header.max_timestamp if header.log_append_time else None
    at = 0
    for _ in range(header.record_count):
        try:
            record, at = decode_record(data, at, header.base_offset, header.base_timestamp)
        except (IndexError, DecodeError):
            raise invalid(f"no whole record at byte {at}") from None
        if not (abs(record.offset) <= _MAX_INT64 and abs(record.timestamp) <= _MAX_INT64):
            raise invalid(f"a record with offset {record.offset} and timestamp {record.timestamp}")
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
    """Return a batch of `records`, each at the offset after the one before it.

    A (key, value) pair takes `timestamp_ms`; a `Record` brings its own timestamp and headers, and its offset
    is not looked at. ValueError if there are none.
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
    """Return a batch without records in the place of these offsets, as compaction leaves them too."""
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
    """Return the batch that `header` begins, whose unpacked `records` are given, with another codec.

    Nothing else of it changes, but that its largest timestamp is said to be `max_timestamp`.
    """
    batch = bytearray(HEADER_BYTES) + compress(compression, records, level)
    attributes = header.attributes & ~_CODEC_BITS | compression
    length = len(batch) - _LENGTH_COVERS_FROM
    changed = header._replace(batch_length=length, attributes=attributes, max_timestamp=max_timestamp)
    _HEADER.pack_into(batch, 0, *changed)
    _UINT32.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return batch


def control_record_key(kind: ControlType) -> bytes:
    """Return the key of a control record: its version, 0, and its type."""
    return _CONTROL_KEY.pack(0, kind)


def control_type(key: bytes | None) -> ControlType | None:
    """Return what a control record says by its key; None for a type of a later Kafka, to be skipped."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise invalid("a control record without a whole key")
    kind: int = _CONTROL_KEY.unpack_from(key)[1]
    return ControlType(kind) if kind in ControlType._value2member_map_ else None


class EndTxnMarker(NamedTuple):
    """What ends a transaction, and the epoch of the coordinator that said so."""

    committed: bool
    coordinator_epoch: int


def end_txn_marker(batch: Buffer) -> EndTxnMarker | None:
    """Return the marker in a control batch; None if it holds another kind, or compaction has emptied it."""
    record = next(iter_records(batch), None)
    if record is None:
        return None
    kind = control_type(record.key)
    if kind is not ControlType.COMMIT and kind is not ControlType.ABORT:
        return None
    if record.value is None or len(record.value) < _END_TXN_VALUE.size:
        raise invalid("a transaction marker without a whole value")
    return EndTxnMarker(kind is ControlType.COMMIT, _END_TXN_VALUE.unpack_from(record.value)[1])
