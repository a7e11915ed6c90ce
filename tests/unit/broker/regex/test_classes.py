"""Character classes and case folding."""

from __future__ import annotations

import unicodedata

import pytest

from broker.regex.classes import CATEGORIES, CharacterClass, Part, literal, orbit


@pytest.mark.parametrize(
    ("character", "others"),
    [
        ("k", "K\u212a"),
        ("\u212a", "kK"),
        ("\u017f", "sS"),
        ("É", "é"),
        ("ǆ", "Ǆǅ"),
        ("µ", "μΜ"),
        ("1", ""),
        ("\u0131", ""),
        ("İ", ""),
        ("i", "I"),
        ("ß", "ẞ"),
    ],
)
def test_characters_that_fold_to_each_other(character: str, others: str) -> None:
    assert set(orbit(character)) == {character, *others}


def test_folding_is_symmetric() -> None:
    letters = [chr(point) for point in range(0x2FFF) if unicodedata.category(chr(point)).startswith("L")]
    assert not [one for one in letters if any(set(orbit(other)) != set(orbit(one)) for other in orbit(one))]


def test_literal_without_other_cases_stays_a_character() -> None:
    assert literal("1", folds_case=True) == "1"
    assert literal("a", folds_case=False) == "a"
    assert literal("a", folds_case=True) == CharacterClass((Part(((97, 97),)), Part(((65, 65),))))


def test_every_category_of_python_can_be_named() -> None:
    assert {unicodedata.category(chr(point)) for point in range(0x110000)} - {"Cn"} <= CATEGORIES
