"""Reads the batches of a segment in chunks, with their CRCs checked.

Bytes that are not in the page cache are read in a thread. A batch whose CRC does not match ends the pass: rewriting it
would give the damaged bytes a valid CRC. The file is opened at the start and stays readable if it is renamed or deleted
during the pass.
"""

from collections.abc import Iterator
from functools import partial
from struct import Struct

from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.record_batch import BatchHeader, crc_matches, iter_batches
from storage.log.segment import LENGTH_COVERS_FROM, LogSegment
from storage.steps import Steps

_LENGTH = Struct(">8xi")


class BatchReader:
    """The batches of `segment` from byte `position` on, in chunks of about `chunk_bytes`."""

    __slots__ = ("_chunk_bytes", "_end", "_file", "_path", "_position", "bytes_read")

    def __init__(self, segment: LogSegment, position: int, chunk_bytes: int) -> None:
        self._chunk_bytes = max(chunk_bytes, 1024)
        self._file = segment.file
        self._path = segment.path
        self._position = position
        self._end = segment.size_bytes
        self.bytes_read = 0

    def chunk(self) -> Steps[bytes | None]:
        """Return the next bytes, which begin with a whole batch; None at the end; KafkaError for a damaged length."""
        left = self._end - self._position
        if left <= 0:
            return None
        data = yield from self._read(min(self._chunk_bytes, left))
        whole = _LENGTH.unpack_from(data)[0] + LENGTH_COVERS_FROM if len(data) > LENGTH_COVERS_FROM else 0
        if not LENGTH_COVERS_FROM < whole <= left:
            raise self._corrupt(0)
        return data if whole <= len(data) else (yield from self._read(whole))

    def batches(self, chunk: bytes) -> Iterator[tuple[bytes | memoryview, BatchHeader]]:
        """Yield each whole batch of `chunk` and advance past the last; KafkaError for a damaged one."""
        view, end = memoryview(chunk), 0
        try:
            for at, header in iter_batches(chunk):
                batch = view[at : at + header.size_bytes]
                if not crc_matches(batch, header):
                    raise self._corrupt(at)
                end = at + header.size_bytes
                yield batch, header
        except DecodeError:
            raise self._corrupt(end) from None
        self._position += end
        self.bytes_read += end

    def _read(self, size: int) -> Steps[bytes]:
        data = self._file.pread_nowait(size, self._position)
        if data is None:
            data = yield partial(self._file.pread, size, self._position)
        return bytes(data)

    def _corrupt(self, at: int) -> KafkaError:
        where = self._position + at
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no valid record batch at byte {where} of {self._path}")
