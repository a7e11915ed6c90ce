"""A scan for the complete, valid batches of a file whose end a crash may have damaged."""

from collections.abc import Iterator

from protocol.record_batch import HEADER_BYTES, MAGIC, BatchHeader, crc_matches, read_header
from storage.disk import File

_SCAN_BYTES = 1024 * 1024


def valid_batches(file: File, end: int) -> Iterator[BatchHeader]:
    """Yield the header of each complete batch with a matching CRC, up to the first batch that is invalid."""
    position, wanted = 0, _SCAN_BYTES
    while end - position >= HEADER_BYTES:
        size = min(wanted, end - position)
        chunk = memoryview(file.pread(size, position))
        if len(chunk) < size:
            end = position + len(chunk)
        at, wanted = 0, _SCAN_BYTES
        while len(chunk) - at >= HEADER_BYTES:
            header = read_header(chunk, at)
            size = header.size_bytes
            if header.magic != MAGIC or header.last_offset_delta < 0:
                return
            if size < HEADER_BYTES or size > end - position - at:
                return
            if at + size > len(chunk):
                wanted = max(size, _SCAN_BYTES)
                break
            if not crc_matches(chunk[at : at + size], header):
                return
            yield header
            at += size
        position += at
