from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from barnabas.commands import _input
from barnabas.commands._input import Input
from barnabas.commands._output import CommandError


def read(monkeypatch: pytest.MonkeyPatch, data: bytes, delimiter: bytes) -> list[bytes]:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(data))))
    return list(Input([], delimiter, whole=False))


@pytest.mark.parametrize("delimiter", [b"\n", b"::", b"\0"])
def test_messages_end_at_the_delimiter_and_the_last_one_need_not(
    monkeypatch: pytest.MonkeyPatch, delimiter: bytes
) -> None:
    assert read(monkeypatch, delimiter.join([b"a\r", b"", b"b"]), delimiter) == [b"a\r", b"", b"b"]
    assert read(monkeypatch, delimiter.join([b"a", b"b", b""]), delimiter) == [b"a", b"b"]
    assert read(monkeypatch, b"", delimiter) == []


def test_delimiter_may_span_two_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_input, "CHUNK_BYTES", 3)
    assert read(monkeypatch, b"ab::cd::e", b"::") == [b"ab", b"cd", b"e"]


def test_files_are_read_in_their_order_and_messages_numbered(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"1\n2\n")
    source = Input([str(tmp_path / "b"), str(tmp_path / "a")], b"\n", whole=False)
    assert [(source.name[-1], source.number, message) for message in source] == [
        ("b", 1, b"1"),
        ("b", 2, b"2"),
        ("a", 1, b"1"),
        ("a", 2, b"2"),
    ]
    assert source.size_bytes == 8


def test_complete_file_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    assert list(Input([str(tmp_path / "a")], b"\n", whole=True)) == [b"1\n2\n"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    source = Input([str(tmp_path / "missing")], b"\n", whole=False)
    assert source.size_bytes is None
    with pytest.raises(CommandError, match=r"cannot read .*missing: No such file"):
        list(source)


def test_empty_delimiter_is_refused() -> None:
    with pytest.raises(CommandError, match="at least one byte"):
        Input([], b"", whole=False)
