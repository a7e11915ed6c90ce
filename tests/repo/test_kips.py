"""docs/KIPS.md, the matrix of KIPs: its rows are complete, and its tests exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import pytest

from tests.repo.tree import ROOT, files, parsed

PAGE = "docs/KIPS.md"
STATUSES = ("done", "partial", "planned", "out of scope")
PLANNED = {"groups", "metrics", "network", "quorum", "quotas", "security", "share", "streams", "tiered"}
HEADER = "| KIP | Title | Status | Tests | Missing, or why |"
LEFT_OUT = "Left out"
NAMED = re.compile(r"\bKIP-(\d+)")


class Row(NamedTuple):
    """One row of the matrix."""

    area: str
    number: int
    title: str
    status: str
    tests: tuple[str, ...]
    note: str


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def areas() -> dict[str, list[str]]:
    """Return the lines of each section of the page."""
    parts = re.split(r"^## (.+)\n", (ROOT / PAGE).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {name: text.splitlines() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def parse_row(area: str, line: str) -> Row:
    kip, title, status, tests, note = cells(line)
    found = re.fullmatch(r"KIP-(\d+)", kip)
    assert found, line
    named = tuple(re.findall(r"`([^`]+)`", tests))
    assert tests == ", ".join(f"`{name}`" for name in named), line
    return Row(area, int(found[1]), title, status, named, note)


def parse() -> list[Row]:
    rows = []
    for area, lines in areas().items():
        if area == LEFT_OUT:
            continue
        table = [line for line in lines if line.startswith("|")]
        assert table[0] == HEADER, area
        rows += [parse_row(area, line) for line in table[2:]]
    return rows


def left_out() -> list[list[int]]:
    """Return the numbers in each row of KIPs that do not concern a broker."""
    rows = [cells(line) for line in areas()[LEFT_OUT] if line.startswith("|")][2:]
    assert all(why for _, why, _ in rows)
    return [[int(number) for number in numbers.split(", ")] for _, _, numbers in rows]


@cache
def functions(file: str) -> frozenset[str]:
    """Return the names of all functions and methods in a file."""
    return frozenset(
        node.name for node in ast.walk(parsed(file)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


ROWS = parse()


def test_each_kip_has_one_row_and_the_rows_of_an_area_ascend() -> None:
    assert len(ROWS) > 250
    numbers = [row.number for row in ROWS] + [number for part in left_out() for number in part]
    assert sorted(numbers) == sorted(set(numbers))
    for one, other in pairwise(ROWS):
        assert one.area != other.area or one.number < other.number
    assert all(part == sorted(part) for part in left_out())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"KIP-{row.number}")
def test_a_row_has_what_its_status_needs(row: Row) -> None:
    assert row.title
    assert row.status in STATUSES
    assert bool(row.tests) == (row.status in ("done", "partial"))
    assert bool(row.note) == (row.status != "done")
    if row.status == "planned":
        assert row.note in PLANNED


@pytest.mark.parametrize("test", sorted({test for row in ROWS for test in row.tests}))
def test_a_named_test_exists(test: str) -> None:
    file, _, function = test.partition("::")
    assert file.startswith("tests/")
    assert (ROOT / file).is_file()
    if function:
        assert function.startswith("test_")
        assert function in functions(file)


def test_the_counts_are_those_of_the_rows() -> None:
    counts = {
        status: int(count)
        for status, count, _ in (cells(line) for line in (ROOT / PAGE).read_text().splitlines() if line.count("|") == 4)
        if status in STATUSES
    }
    assert counts == {status: sum(row.status == status for row in ROWS) for status in STATUSES}


def test_every_kip_that_is_named_anywhere_has_a_row() -> None:
    known = {row.number for row in ROWS}
    named: dict[int, str] = {}
    for path in files():
        if path.suffix in (".py", ".md", ".txt", ".toml") and path != ROOT / PAGE:
            text = path.read_text(encoding="utf-8")
            named.update({int(number): str(path.relative_to(ROOT)) for number in NAMED.findall(text)})
    assert len(named) > 90
    assert {number: file for number, file in named.items() if number not in known} == {}
