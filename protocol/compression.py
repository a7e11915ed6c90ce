"""The codecs of record batches: gzip, snappy, lz4 and zstd.

Compressed data is written as Java's client reads it: snappy in the framing of snappy-java ("xerial"), lz4 in frames of
independent blocks. Raw snappy, which some clients write, is read too. `decompress` never produces more than
`max_bytes`: a batch that would inflate to gigabytes raises `CompressionError` before the memory is allocated. Each
library is imported when its codec is first used, since a broker seldom decompresses batches.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct

from protocol.primitives import Buffer


class Compression(IntEnum):
    """A batch's codec: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressionError(ValueError):
    """The compressed bytes are damaged, or inflate to more than the limit."""


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` compressed at `level`, in Kafka's numbering; None is Kafka's default level."""
    return bytes(data) if codec is Compression.NONE else _COMPRESS[codec](data, level)


def decompress(codec: Compression, data: Buffer, max_bytes: int) -> bytes:
    """Return the uncompressed `data`; raise `CompressionError` if damaged or larger than `max_bytes`."""
    if codec is not Compression.NONE:
        return _DECOMPRESS[codec](data, max_bytes)
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(data)


def _too_large(max_bytes: int) -> CompressionError:
    return CompressionError(f"more than {max_bytes} bytes when decompressed")


# gzip: RFC 1952; several members in a row are allowed.

_GZIP_WINDOW_BITS = 31
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_PORTION_BYTES = 64 * 1024


def _gzip(data: Buffer, level: int | None) -> bytes:
    packer = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=_GZIP_WINDOW_BITS)
    return packer.compress(data) + packer.flush()


def _gunzip(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    members: list[bytes] = []
    room, at = max_bytes, 0
    while True:
        unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        # In portions of 64 KiB: zlib copies the input left after a member's end, which for many small members would be
        # the whole rest each time.
        while not unpacker.eof:
            portion = view[at : at + _GZIP_PORTION_BYTES]
            if not portion:
                raise CompressionError("gzip: the stream ends early")
            try:
                # One byte more than is allowed: 0 would mean "no limit".
                member = unpacker.decompress(portion, room + 1)
            except zlib.error as error:
                raise CompressionError(f"gzip: {error}") from None
            room -= len(member)
            if room < 0:
                raise _too_large(max_bytes)
            members.append(member)
            at += len(portion) - len(unpacker.unused_data)
        if view[at : at + len(_GZIP_MAGIC)] != _GZIP_MAGIC:
            return members[0] if len(members) == 1 else b"".join(members)


# snappy: raw, or snappy-java's framing of raw blocks: magic, version, lowest compatible version, then (int32 length,
# block) until the end. The header may appear again where streams were concatenated.

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT32 = Struct(">i")


def _snap(data: Buffer, _level: int | None) -> bytes:
    from cramjam import snappy

    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _unsnap(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnap_block(view, max_bytes, max_bytes)
    parts: list[bytes] = []
    room, at, end = max_bytes, len(_XERIAL_HEADER), len(view)
    if end < at:
        raise CompressionError("snappy: the stream ends early")
    while at < end:
        if view[at : at + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            continue
        if end - at < _INT32.size:
            raise CompressionError("snappy: the stream ends early")
        (size,) = _INT32.unpack_from(view, at)
        at += _INT32.size
        if not 0 <= size <= end - at:
            raise CompressionError(f"snappy: a block of {size} bytes with {end - at} left")
        part = _unsnap_block(view[at : at + size], room, max_bytes)
        room -= len(part)
        parts.append(part)
        at += size
    return b"".join(parts)


def _unsnap_block(block: memoryview, room: int, max_bytes: int) -> bytes:
    from cramjam import DecompressionError, snappy

    try:
        if snappy.decompress_raw_len(block) > room:
            raise _too_large(max_bytes)
        return bytes(snappy.decompress_raw(block))
    except DecompressionError as error:
        raise CompressionError(str(error)) from None


# lz4: one LZ4 frame of independent blocks, the only kind that Java's client accepts. Of Kafka's levels, the default 9
# selects the fast compressor, and all others the high-compression one, whose levels begin at 3 here.

_LZ4_FAST = 9
_LZ4_LEAST_THOROUGH = 3


def _lz4(data: Buffer, level: int | None) -> bytes:
    from lz4 import frame

    effort = 0 if level in (None, _LZ4_FAST) else max(level or 0, _LZ4_LEAST_THOROUGH)
    packed: bytes = frame.compress(data, compression_level=effort, block_linked=False, store_size=False)
    return packed


def _unlz4(data: Buffer, max_bytes: int) -> bytes:
    from lz4 import frame

    unpacker = frame.LZ4FrameDecompressor()
    try:
        unpacked: bytes = unpacker.decompress(data, max_length=max_bytes + 1)
    except RuntimeError as error:
        raise CompressionError(f"lz4: {error}") from None
    if len(unpacked) > max_bytes:
        raise _too_large(max_bytes)
    if not unpacker.eof:
        raise CompressionError("lz4: the frame ends early")
    return unpacked


# zstd: RFC 8878. The library decompresses into a buffer whose size must be known. The block headers bound that size;
# the frame header may lack it (Java's does) and may be wrong.

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50
_ZSTD_MAX_BLOCK_BYTES = 128 * 1024
_ZSTD_RLE = 1
_ZSTD_COMPRESSED = 2
_ZSTD_DEFAULT_LEVEL = 3


def _zstd(data: Buffer, level: int | None) -> bytes:
    from cramjam import zstd

    return bytes(zstd.compress(data, level=_ZSTD_DEFAULT_LEVEL if level is None else level))


def _unzstd(data: Buffer, max_bytes: int) -> bytes:
    from cramjam import DecompressionError, zstd

    view = memoryview(data)
    try:
        reach = _zstd_reach(view)
    except (IndexError, ValueError):
        raise CompressionError("zstd: invalid or truncated frame") from None
    unpacked = bytearray(min(reach, max_bytes))
    try:
        size = zstd.decompress_into(view, unpacked)
    except DecompressionError as error:
        raise _too_large(max_bytes) if reach > max_bytes else CompressionError(f"zstd: {error}") from None
    return bytes(memoryview(unpacked)[:size])


def _zstd_reach(view: memoryview) -> int:
    """Return an upper bound of these frames' uncompressed size; IndexError or ValueError if they are truncated."""
    reach = at = 0
    while at < len(view):
        magic = int.from_bytes(view[at : at + 4], "little")
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE_MAGIC:
            at += 8 + int.from_bytes(view[at + 4 : at + 8], "little")
            continue
        if magic != _ZSTD_MAGIC:
            raise ValueError
        descriptor = view[at + 4]
        single_segment = descriptor >> 5 & 1
        content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
        dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 3]
        at += 5 + (1 - single_segment) + dictionary_id_bytes + content_size_bytes
        last = 0
        while not last:
            block = view[at] | view[at + 1] << 8 | view[at + 2] << 16
            last, kind, size = block & 1, block >> 1 & 3, block >> 3
            reach += _ZSTD_MAX_BLOCK_BYTES if kind == _ZSTD_COMPRESSED else size
            at += 3 + (1 if kind == _ZSTD_RLE else size)
        at += 4 * (descriptor >> 2 & 1)
    return reach


_COMPRESS: dict[Compression, Callable[[Buffer, int | None], bytes]] = {
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snap,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_DECOMPRESS: dict[Compression, Callable[[Buffer, int], bytes]] = {
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnap,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
