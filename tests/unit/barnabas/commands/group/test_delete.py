from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.unit.barnabas.conftest import Command


@pytest.fixture
def group(barnabas: Command, topic: str) -> str:
    barnabas("produce", topic, stdin=b"1\n")
    barnabas("consume", topic, "-g", topic, "-e")
    return topic


def test_deleted_group_is_not_listed(barnabas: Command, group: str) -> None:
    shown = barnabas("group", "delete", group, "--dry-run")
    assert shown == (0, f"would delete {group}: offsets of 1 partition\n", "")
    assert group in barnabas("group", "list").out
    assert barnabas("group", "delete", group) == (0, f"deleted {group}\n", "")
    assert group not in barnabas("group", "list").out


def test_only_the_offsets_of_a_topic_are_deleted(barnabas: Command, group: str) -> None:
    shown = barnabas("group", "delete", group, "--topic", "other")
    assert shown == (1, "", f"barnabas group delete: {group}: nothing is committed for other\n")
    shown = barnabas("group", "delete", group, "--topic", group)
    assert shown == (0, f"deleted {group}: offsets of 1 partition of {group}\n", "")
    assert barnabas("consume", group, "-g", group, "-e").lines == ["1"]


def test_a_mistyped_group_is_answered_with_the_closest_one(barnabas: Command, group: str) -> None:
    typed = group.replace("mistyped", "mytisped")
    unknown = f"{typed}: there is no such group"
    assert barnabas("group", "delete", typed).err == f"barnabas group delete: {unknown}; did you mean {group}?\n"
    assert barnabas("group", "seek", typed, "--to", "start").err == (
        f"barnabas group seek: {unknown}; with --topics, it is created; did you mean {group}?\n"
    )
    assert barnabas("group", "seek", "new", "--to-group", typed).err == (
        f"barnabas group seek: {unknown}; did you mean {group}?\n"
    )


def test_group_with_members_is_kept_and_missing_group_is_named(
    barnabas: Command, group: str, consuming: Callable[[str], AbstractContextManager[None]]
) -> None:
    with consuming(group):
        status, out, err = barnabas("group", "delete", group, "missing")
    assert (status, out) == (1, "")
    assert err.splitlines() == [
        f"barnabas group delete: {group}: it is Stable with 1 member: stop its consumers first",
        "barnabas group delete: missing: there is no such group",
    ]
