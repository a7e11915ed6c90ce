"""zstd for kafka-python, from cramjam, which the broker uses too.

kafka-python takes zstd from the package zstandard, which takes 24 MB. `provide_zstd` gives it the two classes that it
uses; where zstandard is installed, that is used.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from types import SimpleNamespace


class ZstdCompressor:
    """The part of zstandard's class that kafka-python uses."""

    def compress(self, data: bytes) -> bytes:
        """Return `data` as a frame."""
        from cramjam import zstd

        return bytes(zstd.compress(data))


class ZstdDecompressor:
    """The part of zstandard's class that kafka-python uses."""

    def stream_reader(self, source: BytesIO, read_across_frames: bool) -> AbstractContextManager[BytesIO]:  # noqa: ARG002
        """Return a reader of what `source` holds, in all of its frames."""
        from cramjam import zstd

        return nullcontext(BytesIO(bytes(zstd.decompress(source.read()))))


def provide_zstd() -> None:
    """Let kafka-python read and write zstd where zstandard is not installed."""
    import kafka.codec

    if kafka.codec.zstd is None:
        kafka.codec.zstd = SimpleNamespace(ZstdCompressor=ZstdCompressor, ZstdDecompressor=ZstdDecompressor)
