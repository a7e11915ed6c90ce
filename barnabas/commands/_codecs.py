"""zstd for kafka-python from cramjam, which the broker uses too.

kafka-python's zstd needs the package zstandard, of 24 MB. `provide_zstd` replaces the two classes that it uses, unless
zstandard is installed.
"""

from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from types import SimpleNamespace


class ZstdCompressor:
    """The part of zstandard's class that kafka-python uses."""

    def compress(self, data: bytes) -> bytes:
        """Return `data` as a zstd frame."""
        from cramjam import zstd

        return bytes(zstd.compress(data))


class ZstdDecompressor:
    """The part of zstandard's class that kafka-python uses."""

    def stream_reader(self, source: BytesIO, read_across_frames: bool) -> AbstractContextManager[BytesIO]:  # noqa: ARG002
        """Return a reader of the decompressed frames in `source`."""
        from cramjam import zstd

        return nullcontext(BytesIO(bytes(zstd.decompress(source.read()))))


def provide_zstd() -> None:
    """Make kafka-python read and write zstd if zstandard is not installed."""
    import kafka.codec

    if kafka.codec.zstd is None:
        kafka.codec.zstd = SimpleNamespace(ZstdCompressor=ZstdCompressor, ZstdDecompressor=ZstdDecompressor)
