from __future__ import annotations

import pytest

from barnabas.commands._config_changes import Outcome, notes


def outcome(
    before: str | None, after: str | None, *, to_default: bool = False, was_set: bool = True, sensitive: bool = False
) -> Outcome:
    return Outcome("a.b", before, after, to_default=to_default, was_set=was_set, sensitive=sensitive)


@pytest.mark.parametrize(
    ("one", "note"),
    [
        (outcome("1", "2"), "1 -> 2"),
        (outcome("1", "2", to_default=True), "1 -> 2 (default)"),
        (outcome("1", None, to_default=True), "1 -> - (default)"),
        (outcome("", "x"), '"" -> x'),
        (outcome("1", "1"), ""),
        (outcome("1", "1", to_default=True), ""),
        (outcome("1", "1", to_default=True, was_set=False), "it was not set"),
        (outcome("1", "2", was_set=False), "1 -> 2"),
        (outcome(None, None, sensitive=True), "not shown, since it is sensitive"),
    ],
)
def test_a_change_is_described_by_the_values_before_and_after(one: Outcome, note: str) -> None:
    assert one.note == note


def test_values_that_do_not_change_have_no_note() -> None:
    assert notes([outcome("1", "1"), outcome("1", "2"), outcome("3", "4")]) == "a.b: 1 -> 2, a.b: 3 -> 4"
    assert notes([outcome("1", "1")]) == ""
