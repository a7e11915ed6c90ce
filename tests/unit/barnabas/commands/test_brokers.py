from __future__ import annotations

import pytest

from barnabas.commands._brokers import Lines


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"one\ntwo\n", b""], [[b"one\n", b"two\n"], []]),
        ([b"on", b"e\ntw", b"o\n", b""], [[], [b"one\n"], [b"two\n"], []]),
        ([b"one\nrest", b""], [[b"one\n"], [b"rest\n"]]),
        ([b"\n\n", b""], [[b"\n", b"\n"], []]),
        ([b""], [[]]),
    ],
)
def test_lines_are_complete_for_any_split_of_the_input(pieces: list[bytes], lines: list[list[bytes]]) -> None:
    cut = Lines()
    assert [cut.add(piece) for piece in pieces] == lines
