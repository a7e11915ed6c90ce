"""Sets of names that patterns cover."""

from __future__ import annotations

from controller.acls.acl import PatternType
from controller.acls.names import NameSet

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def covered(names: NameSet, *candidates: str) -> list[str]:
    return [name for name in candidates if names.covers(name)]


def test_literals_cover_their_name_and_prefixes_all_names_that_begin_with_them() -> None:
    names = NameSet([(LITERAL, "orders"), (PREFIXED, "app-"), (PREFIXED, "b")])
    assert covered(names, "orders", "order", "orders1", "app-", "app-x", "app", "b", "bb", "a", "c", "") == [
        *("orders", "app-", "app-x", "b", "bb")
    ]


def test_the_wildcard_is_every_name_only_as_a_literal() -> None:
    assert covered(NameSet([(LITERAL, "*")]), "a", "*", "") == ["a", "*", ""]
    assert covered(NameSet([(PREFIXED, "*")]), "a", "*", "*a") == ["*", "*a"]


def test_prefixes_within_others_change_nothing() -> None:
    names = NameSet([(PREFIXED, name) for name in ("ab", "a", "abc", "b", "ba", "c")])
    assert names.prefixes == ["a", "b", "c"]
    assert covered(names, "abd", "a", "bz", "cz", "d") == ["abd", "a", "bz", "cz"]


def test_names_that_sort_between_a_prefix_and_the_next_are_found() -> None:
    names = NameSet([(PREFIXED, "app"), (PREFIXED, "apq")])
    assert covered(names, "app-cart", "appz", "apq", "apr", "apo", "ap") == ["app-cart", "appz", "apq"]
    assert not names.covers_by_prefix("apo")
