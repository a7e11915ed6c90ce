import gzip
import random
import struct
import subprocess
import sys

import cramjam
import lz4.frame
import pytest

from protocol.compression import Compression, CompressionError, compress, decompress

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b"The broker never looks inside, but when it does it reads everything. " * 3000


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "one byte", "text"])
def test_compressed_data_round_trips(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_text_gets_smaller(codec: Compression) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) / 4


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, (1, 6, 9)),
        (Compression.LZ4, (9, 1, 17)),
        (Compression.ZSTD, (-131072, -5, 3, 22)),
    ],
)
def test_higher_compression_level_never_produces_more_bytes(codec: Compression, levels: tuple[int, ...]) -> None:
    words = random.Random(1).choices(TEXT.split(b" ")[:14], k=20_000)
    data = b" ".join(words)
    packed = [compress(codec, data, level) for level in levels]
    assert [decompress(codec, one, len(data)) for one in packed] == [data] * len(levels)
    sizes = [len(one) for one in packed]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


@pytest.mark.parametrize(
    ("codec", "level"), [(Compression.GZIP, -1), (Compression.GZIP, 6), (Compression.LZ4, 9), (Compression.ZSTD, 3)]
)
def test_the_default_is_kafka_s_level(codec: Compression, level: int) -> None:
    assert compress(codec, TEXT, level) == compress(codec, TEXT)


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_type_can_be_compressed(codec: Compression, kind: type) -> None:
    assert decompress(codec, kind(compress(codec, kind(TEXT))), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", Compression)
def test_decompressed_size_beyond_the_limit_is_refused(codec: Compression) -> None:
    with pytest.raises(CompressionError, match="more than"):
        decompress(codec, compress(codec, TEXT), len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_that_ends_early_is_refused(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    for size in (1, 3, 7, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CompressionError):
            decompress(codec, packed[:size], len(TEXT))


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_of_no_codec_are_refused(codec: Compression) -> None:
    with pytest.raises(CompressionError):
        decompress(codec, b"\xff\xff\xff\xff neither this nor that", 1000)


def bomb(codec: Compression, zeros: int) -> bytes:
    """Return `zeros` compressed zero bytes, compressed in pieces."""
    if codec is Compression.SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
        framed = struct.pack(">i", len(block)) + block
        return compress(codec, b"")[:16] + framed * (zeros >> 20)
    packed = compress(codec, bytes(1 << 20))
    return packed * (zeros >> 20) if codec in (Compression.GZIP, Compression.ZSTD) else compress(codec, bytes(zeros))


@pytest.mark.parametrize("codec", CODECS)
def test_compression_bomb_stops_at_the_limit_without_allocating(codec: Compression) -> None:
    program = (
        "import resource, sys; from protocol.compression import *\n"
        "codec = Compression(int(sys.argv[1])); data = sys.stdin.buffer.read(); compress(codec, b'warm')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: decompress(codec, data, 1 << 20)\n"
        "except CompressionError: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(int(codec))],
        input=bomb(codec, 1 << 28),
        capture_output=True,
        check=True,
    )
    assert int(done.stdout) < 32 * 1024


def test_java_snappy_frames_blocks_of_at_most_32_kb() -> None:
    packed = compress(Compression.SNAPPY, TEXT)
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    at, sizes = 16, []
    while at < len(packed):
        (size,) = struct.unpack_from(">i", packed, at)
        sizes.append(cramjam.snappy.decompress_raw_len(packed[at + 4 : at + 4 + size]))
        at += 4 + size
    assert max(sizes) == 32 * 1024
    assert sum(sizes) == len(TEXT)


def test_raw_snappy_is_read_too() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


def test_concatenated_java_snappy_streams_are_one() -> None:
    packed = compress(Compression.SNAPPY, b"one ") + compress(Compression.SNAPPY, b"two")
    assert decompress(Compression.SNAPPY, packed, 7) == b"one two"


@pytest.mark.parametrize("length", [-1, 1000])
def test_a_snappy_block_of_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(CompressionError, match="block of"):
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"")[:16] + struct.pack(">i", length), 100)


def test_many_small_gzip_members_take_no_longer_than_their_bytes() -> None:
    packed = (gzip.compress(b"") * 10 + gzip.compress(b"x")) * 10_000
    assert decompress(Compression.GZIP, packed, 10_000) == b"x" * 10_000


def test_gzip_members_may_be_of_any_size() -> None:
    noise = random.Random(1).randbytes(300_000)
    packed = gzip.compress(noise) + gzip.compress(b"end")
    assert decompress(Compression.GZIP, packed, len(noise) + 3) == noise + b"end"


def test_gzip_members_are_joined_and_trailing_bytes_ignored() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0"
    assert decompress(Compression.GZIP, packed, 7) == b"one two"


def test_lz4_is_written_in_independent_blocks_without_content_size() -> None:
    flags = compress(Compression.LZ4, TEXT)[4]
    version, independent, content_size = flags >> 6, flags >> 5 & 1, flags >> 3 & 1
    assert (version, independent, content_size) == (1, 1, 0)


def test_lz4_of_linked_blocks_is_read_too() -> None:
    assert decompress(Compression.LZ4, lz4.frame.compress(TEXT, block_linked=True), len(TEXT)) == TEXT


def test_zstd_frames_of_every_header_shape_are_read() -> None:
    streaming = cramjam.zstd.Compressor()
    streaming.compress(TEXT)
    without_size = bytes(streaming.finish())
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"skip!"
    frames = (b"", b"a" * 300, b"b" * 70_000, b"c" * 300_000)
    packed = skippable + without_size + b"".join(bytes(cramjam.zstd.compress(frame)) for frame in frames)
    expected = TEXT + b"".join(frames)
    assert decompress(Compression.ZSTD, packed, len(expected)) == expected


def test_incompressible_bytes_pass_through_zstd() -> None:
    noise = b"".join(struct.pack(">I", n * 2654435761 & 0xFFFFFFFF) for n in range(100_000))
    assert decompress(Compression.ZSTD, compress(Compression.ZSTD, noise), len(noise)) == noise


def test_no_codec_library_is_imported_before_its_first_use() -> None:
    program = "import sys, protocol.compression; print([name for name in sys.modules if name in ('cramjam', 'lz4')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
