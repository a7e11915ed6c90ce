"""A `.log` file as a sequence of pieces: valid batches, and byte ranges that are not.

A batch is valid if it is complete and its CRC matches; `checks.py` checks the rest. An invalid piece ends at the next
valid batch, so that damage does not hide the batches after it. If the length field of a damaged batch leads to a valid
batch or to the end of the file, the piece is that one batch.
"""

from collections.abc import Iterator
from typing import NamedTuple

from protocol.errors import KafkaError
from protocol.plural import count_of
from protocol.record_batch import HEADER_BYTES, MAGIC, BatchHeader, crc_matches, iter_records, read_header
from storage.disk import File

_CHUNK_BYTES = 1 << 20
_MAGIC_AT = 16
_LENGTH_COVERS_FROM = 12
_LAST_CODEC = 4
_CODEC_BITS = 7


class Damage(NamedTuple):
    """The wrong field of an invalid batch header, and the problem."""

    field: str
    problem: str


class Piece(NamedTuple):
    """A byte range of a file: a valid batch with its `header`, or invalid bytes with their `damage`."""

    position: int
    size_bytes: int
    header: BatchHeader | None
    damage: Damage | None = None
    original: BatchHeader | None = None
    """The original header of a batch whose length or magic alone is damaged: the CRC covers neither."""

    @property
    def end(self) -> int:
        """The position of the next piece."""
        return self.position + self.size_bytes


class Window:
    """Random access to a file through one chunk of 1 MiB."""

    def __init__(self, file: File, end: int) -> None:
        self._file = file
        self._chunk = b""
        self._start = 0
        self.end = end

    def read(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position`; fewer at the end of the file."""
        size = min(size, self.end - position)
        if not self._start <= position <= position + size <= self._start + len(self._chunk):
            self._chunk = self._file.pread(min(max(size, _CHUNK_BYTES), self.end - position), position)
            self._start = position
        at = position - self._start
        return memoryview(self._chunk)[at : at + size]


def pieces(file: File, end: int, start: int = 0) -> Iterator[Piece]:
    """Yield the pieces of a file's bytes `start` to `end`, without a gap."""
    window = Window(file, end)
    position = start
    while position < end:
        piece = _piece_at(window, position)
        if piece.damage is not None and not _is_boundary(window, piece.end):
            piece = piece._replace(size_bytes=_next_batch(window, position + 1) - position)
        if piece.damage is not None and piece.size_bytes >= HEADER_BYTES:
            piece = _explained(window, piece)
        yield piece
        position = piece.end


def read_piece(file: File, piece: Piece) -> bytes:
    """Return the bytes of a piece."""
    return file.pread(piece.size_bytes, piece.position)


def _piece_at(window: Window, position: int) -> Piece:
    left = window.end - position
    if left < HEADER_BYTES:
        problem = f"{count_of(left, 'byte')} of a truncated batch header"
        return Piece(position, left, None, Damage("base_offset", problem))
    header = read_header(window.read(position, HEADER_BYTES))
    fits = HEADER_BYTES <= header.size_bytes <= left
    size = header.size_bytes if fits else 1  # `pieces` extends the piece to the next batch
    if header.magic != MAGIC:
        damage = Damage("magic", f"{header.magic} instead of {MAGIC}")
    elif not fits:
        problem = f"{header.batch_length} is not a valid length: {count_of(left, 'byte')} left in the file"
        damage = Damage("batch_length", problem)
    elif not crc_matches(window.read(position, size), header):
        damage = Damage("crc", f"{header.crc:#010x} does not match the content{_implausible(header)}")
    elif header.last_offset_delta < 0:
        damage = Damage("last_offset_delta", f"{header.last_offset_delta} is negative")
    else:
        return Piece(position, size, header)
    return Piece(position, size, None, damage)


def _explained(window: Window, piece: Piece) -> Piece:
    """Return the piece with the original header, if only the batch's length or magic is damaged."""
    data = window.read(piece.position, piece.size_bytes)
    header = read_header(data)
    length = piece.size_bytes - _LENGTH_COVERS_FROM
    if not crc_matches(data, header) or header.last_offset_delta < 0:
        return piece
    original = header._replace(magic=MAGIC, batch_length=length)
    if header.batch_length != length:
        piece = piece._replace(damage=Damage("batch_length", f"{header.batch_length} instead of {length}"))
    return piece._replace(original=original)


def _implausible(header: BatchHeader) -> str:
    """Return a remark that lists fields under the CRC with impossible values; "" if there are none."""
    wrong = []
    if header.attributes & _CODEC_BITS > _LAST_CODEC or header.attributes & ~0x7F:
        wrong.append(f"attributes {header.attributes & 0xFFFF:#06x}")
    if header.last_offset_delta < 0 or header.record_count > header.last_offset_delta + 1:
        wrong.append(f"record_count {header.record_count} with last_offset_delta {header.last_offset_delta}")
    if header.producer_id < -1 or (header.producer_id < 0 <= header.base_sequence):
        wrong.append(f"producer_id {header.producer_id} with base_sequence {header.base_sequence}")
    return f" ({', '.join(wrong)})" if wrong else ""


def _is_boundary(window: Window, position: int) -> bool:
    return position == window.end or _piece_at(window, position).damage is None


def _next_batch(window: Window, position: int) -> int:
    """Return the position of the next valid batch, or the end."""
    while window.end - position >= HEADER_BYTES:
        chunk = bytes(window.read(position, _CHUNK_BYTES))
        at = chunk.find(bytes([MAGIC]), _MAGIC_AT)
        while at >= 0:
            candidate = position + at - _MAGIC_AT
            # The header rules out most candidates; computing a CRC may take long.
            header = window.read(candidate, HEADER_BYTES)
            plausible = len(header) == HEADER_BYTES and not _implausible(read_header(header))
            if plausible and _piece_at(window, candidate).damage is None:
                return candidate
            at = chunk.find(bytes([MAGIC]), at + 1)
        position += max(len(chunk) - _MAGIC_AT, 1)
    return window.end


def wrong_records(batch: bytes) -> str | None:
    """Return what is wrong with the records of a valid batch; None if nothing.

    The batch's CRC matches, so a producer sent these records as they are.
    """
    header = read_header(batch)
    before = header.base_offset - 1
    try:
        for record in iter_records(batch):
            if not before < record.offset <= header.last_offset:
                return f"record offset {record.offset} is not above {before} and at most {header.last_offset}"
            before = record.offset
    except KafkaError as error:
        return error.message
    return None
