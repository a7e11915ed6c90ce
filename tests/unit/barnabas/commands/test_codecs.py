import io

import kafka.codec
import pytest
import zstandard

from barnabas.commands._codecs import ZstdCompressor, ZstdDecompressor, provide_zstd

DATA = b"the same again, " * 100


@pytest.fixture
def without_zstandard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka.codec, "zstd", None)
    assert not kafka.codec.has_zstd()
    provide_zstd()


@pytest.mark.usefixtures("without_zstandard")
def test_kafka_python_has_zstd_without_zstandard() -> None:
    assert kafka.codec.has_zstd()
    packed = kafka.codec.zstd_encode(DATA)
    assert len(packed) < len(DATA) / 10
    assert kafka.codec.zstd_decode(packed) == DATA


def test_zstandard_is_used_where_it_is_installed() -> None:
    provide_zstd()
    assert kafka.codec.zstd is zstandard


@pytest.mark.usefixtures("without_zstandard")
def test_both_zstd_libraries_read_each_other() -> None:
    assert zstandard.ZstdDecompressor().decompress(ZstdCompressor().compress(DATA)) == DATA
    assert kafka.codec.zstd_decode(zstandard.ZstdCompressor().compress(DATA)) == DATA


def test_concatenated_frames_are_read_as_one() -> None:
    frames = io.BytesIO(zstandard.ZstdCompressor().compress(b"one ") + zstandard.ZstdCompressor().compress(b"two"))
    with ZstdDecompressor().stream_reader(frames, read_across_frames=True) as reader:
        assert reader.read() == b"one two"
