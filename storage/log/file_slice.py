"""A slice of a log file: the position and size of complete batches, which are read only when they are sent."""

from errno import EIO
from typing import NamedTuple

from storage.disk import Buffer, File

MAX_OFFSET = 2**63 - 1


class FileSlice:
    """Complete batches in a file; keeps the file open after its segment is deleted."""

    __slots__ = ("end_offset", "file", "position", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int, end_offset: int = MAX_OFFSET) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes
        self.end_offset = end_offset
        """An offset that no batch of the slice reaches: the next batch's base offset, if the read found it."""

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` within the slice; raise OSError if the disk does not return all of them."""
        data = self.file.pread(size, self.position + offset)
        if len(data) != size:
            raise OSError(EIO, f"{len(data)} of {size} bytes read", self.file.path)
        return data

    def read_nowait(self, offset: int, size: int) -> Buffer | None:
        """Return what `read` would; None if that would wait for the disk."""
        return self.file.pread_nowait(size, self.position + offset)

    def send_nowait(self, socket: int, offset: int, size: int) -> int | None:
        """Send bytes from `offset` within the slice through a socket's descriptor, as `File.send_nowait` does."""
        return self.file.send_nowait(socket, size, self.position + offset)


class FetchDataInfo(NamedTuple):
    """The complete batches that a read found: none, or one slice of one segment."""

    slices: list[FileSlice]
    size_bytes: int
