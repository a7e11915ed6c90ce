"""The parts of a broker: cordoned log directories, by the setting."""

from __future__ import annotations

from broker.broker_server import cordoned_ids
from storage.checkpoint import MetaProperties
from storage.disk import OsDisk
from storage.log_directory import LogDirectory


def directories(*paths: str) -> list[LogDirectory]:
    found = []
    for number, path in enumerate(paths):
        directory = LogDirectory(OsDisk(), path)
        directory.meta = MetaProperties("cluster", 1, bytes([number + 1]) * 16)
        found.append(directory)
    return found


ONE, TWO = bytes([1]) * 16, bytes([2]) * 16


def test_directories_are_named_by_their_paths() -> None:
    known = directories("/a", "/b")
    assert cordoned_ids(known, []) == ()
    assert cordoned_ids(known, ["/b/"]) == (TWO,)
    assert cordoned_ids(known, ["/b", "/elsewhere", "/a"]) == (ONE, TWO)


def test_star_cordons_all_directories() -> None:
    assert cordoned_ids(directories("/a", "/b"), ["*"]) == (ONE, TWO)
