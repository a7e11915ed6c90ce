from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.unit.barnabas.conftest import Command, Shown


@pytest.fixture
def group(barnabas: Command, topic: str) -> str:
    """A group with the name of its topic that has read 3 of 5 records."""
    barnabas("produce", topic, stdin=b"0\n1\n2\n3\n4\n")
    barnabas("consume", topic, "-g", topic, "-n", "3")
    return topic


def committed(barnabas: Callable[..., Shown], group: str) -> list[int]:
    (described,) = json.loads(barnabas("group", "describe", group, "--json").out)
    return [row["committed"] for row in described["partitions"]]


@pytest.mark.parametrize(
    ("to", "offset"), [("start", 0), ("end", 5), ("1", 1), ("-2", 1), ("+1", 4), ("@-1h", 0), ("@now", 5)]
)
def test_seek_accepts_every_kind_of_offset(barnabas: Command, group: str, to: str, offset: int) -> None:
    shown = barnabas("group", "seek", group, "--to", to)
    assert shown.status == 0
    assert [line.split() for line in shown.lines] == [
        ["TOPIC", "PARTITION", "BEFORE", "AFTER"],
        [group, "0", "3", str(offset)],
    ]
    assert committed(barnabas, group) == [offset]


@pytest.mark.parametrize("to", ["+9", "12"])
def test_seek_beyond_the_end_needs_force_and_goes_to_the_end(barnabas: Command, group: str, to: str) -> None:
    shown = barnabas("group", "seek", group, "--to", to, "--topics", f"{group}:0")
    why = f"{group}-0: 12 is beyond the end, 5; --force commits the end instead"
    assert (shown.status, shown.err) == (1, f"barnabas group seek: {why}\n")
    assert barnabas("group", "seek", group, "--to", to, "--force").status == 0
    assert barnabas("group", "describe", group).lines[-1].split()[2] == "5"


def test_a_dry_run_moves_nothing(barnabas: Command, group: str) -> None:
    (row,) = json.loads(barnabas("group", "seek", group, "--to", "start", "--dry-run", "--json").out)
    assert (row["before"], row["after"]) == (3, 0)
    assert committed(barnabas, group) == [3]


def test_seek_takes_offsets_from_a_file_or_another_group(barnabas: Command, group: str, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text(f"# where to\n{group} 0 4\n")
    for option in ("--to-file", "--to"):
        assert barnabas("group", "seek", group, option, str(path)).status == 0
        assert committed(barnabas, group) == [4]
    assert barnabas("group", "seek", f"{group}-2", "--to-group", group, "--dry-run").err.endswith(
        "would be a new group\n"
    )
    shown = barnabas("group", "seek", f"{group}-2", "--to-group", group)
    assert (shown.status, shown.err) == (0, f"barnabas group seek: {group}-2 is a new group\n")
    assert committed(barnabas, f"{group}-2") == [4]
    for line, complaint in (
        (f"{group} zero", "line 1: write TOPIC PARTITION OFFSET"),
        (f"{group} 9 0", "no partition 9"),
    ):
        path.write_text(f"{group} 0 0\n" * ("9" in line) + line)
        shown = barnabas("group", "seek", group, "--to-file", str(path))
        assert shown.status == 1
        assert complaint in shown.err
        assert committed(barnabas, group) == [4]


def test_seek_accepts_topics_without_committed_offsets(barnabas: Command, group: str) -> None:
    barnabas("topic", "create", f"{group}-2:3")
    assert barnabas("group", "seek", group, "--to", "end", "--topics", f"{group}-2:1").status == 0
    assert committed(barnabas, group) == [3, 0]
    assert barnabas("group", "seek", f"{group}-new", "--to", "start", "--topics", group).status == 0
    assert committed(barnabas, f"{group}-new") == [0]


def test_seek_refuses_an_active_group(
    barnabas: Command, group: str, consuming: Callable[[str], AbstractContextManager[None]]
) -> None:
    with consuming(group):
        shown = barnabas("group", "seek", group, "--to", "start")
    assert shown == (
        1,
        "",
        f"barnabas group seek: {group} is Stable with 1 member: stop its consumers first\n",
    )


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["missing", "--to", "start"], 1, "missing: there is no such group; with --topics, it is created"),
        (["{group}", "--to", "start", "--topics", "missing"], 1, "missing: there is no such topic"),
        (["{group}", "--to", "start", "--topics", "{group}:7"], 1, "{group} has no partition 7"),
        (["{group}", "--to", "soon"], 2, "'soon': write start, end"),
        (["{group}"], 2, "one of the arguments --to --to-file --to-group is required"),
    ],
)
def test_invalid_seek_is_reported_and_moves_nothing(
    barnabas: Command, group: str, arguments: list[str], status: int, complaint: str
) -> None:
    shown = barnabas("group", "seek", *(argument.format(group=group) for argument in arguments))
    assert (shown.status, shown.out) == (status, "")
    assert complaint.format(group=group) in shown.err
    assert committed(barnabas, group) == [3]


def test_seek_to_invalid_text_lists_the_valid_forms(barnabas: Command) -> None:
    shown = barnabas("group", "seek", "g", "--to", "foo")
    assert shown.status == 2
    assert shown.err.endswith("write start, end, a number N, +N, -N or @TIME, or the name of a file that exists\n")
