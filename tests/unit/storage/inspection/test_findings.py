from collections.abc import Iterator

from storage.inspection.findings import Finding, readable


def test_a_finding_names_file_position_and_field() -> None:
    assert str(Finding("a/b", 7, "crc", "does not match")) == "a/b at 7: crc: does not match"
    assert str(Finding("a/b", None, "count", "is missing")) == "a/b: count: is missing"


def test_a_file_that_cannot_be_read_is_a_finding_behind_those_before_it() -> None:
    def found() -> Iterator[Finding]:
        yield Finding("x", 1, "a", "b")
        raise IsADirectoryError(21, "Is a directory", "x")

    assert [str(one) for one in readable("x", found())] == ["x at 1: a: b", "x: file: cannot be read: is a directory"]
