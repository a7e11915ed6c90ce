"""The minimum work per request for a broker in Python: the baseline of the data path benchmarks.

    produce    receive frames, check the CRC-32C of the batch bytes, write them to a file, respond
    fetch      read a slice of a file and send it; as many slices in turn as the broker reads, since a single slice
               would be read from the CPU cache

`python -m benchmarks._bare_loop PORT FILE produce|fetch [BYTES PIECES]`; for `fetch`, BYTES of one response, and the
number of slices.
"""

import asyncio
import os
import sys
from typing import cast

import crc32c
import uvloop

_ANSWER = bytes.fromhex("00000000")
_BATCH_CRC_FROM = 21


class Sink(asyncio.BufferedProtocol):
    """Receives frames whose last bytes are a batch."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._buffer = memoryview(bytearray(1 << 18))
        self._filled = 0
        self._position = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the free part of the buffer, after the received bytes."""
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle each complete frame."""
        end, at = self._filled + nbytes, 0
        while end - at >= 4:
            size = 4 + int.from_bytes(self._buffer[at : at + 4], "big")
            if end - at < size:
                break
            self.handle(self._buffer[at + 4 : at + size])
            at += size
        self._buffer[: end - at] = bytes(self._buffer[at:end])
        self._filled = end - at

    def handle(self, frame: memoryview) -> None:
        """Check the CRC and write."""
        crc32c.crc32c(frame[_BATCH_CRC_FROM:])
        os.pwrite(self._file, frame, self._position)
        self._position += len(frame)
        self._transport.write(_ANSWER)


class Source(Sink):
    """Responds to frames with the slices of a file in turn."""

    def __init__(self, file: int, answer_bytes: int, pieces: int) -> None:
        super().__init__(file)
        os.pwrite(file, bytes(answer_bytes * pieces), 0)
        self._answer_bytes = answer_bytes
        self._end = answer_bytes * pieces
        self._head = answer_bytes.to_bytes(4, "big")

    def handle(self, frame: memoryview) -> None:  # noqa: ARG002
        """Read a slice and send it."""
        self._transport.writelines((self._head, os.pread(self._file, self._answer_bytes, self._position)))
        self._position = (self._position + self._answer_bytes) % self._end


async def serve(port: int, path: str, role: str, answer_bytes: int = 0, pieces: int = 1) -> None:
    """Serve until the process is terminated."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    make = (lambda: Sink(file)) if role == "produce" else (lambda: Source(file, answer_bytes, pieces))
    await asyncio.get_running_loop().create_server(make, "127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), *sys.argv[2:4], *map(int, sys.argv[4:])))  # type: ignore[arg-type]  # of a type that is known here
