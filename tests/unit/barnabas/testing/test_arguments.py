from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.testing._arguments import did_you_mean, mapping, number, text, whole_number


@pytest.mark.parametrize(
    ("check", "good", "bad", "needed"),
    [
        (whole_number, 3, "3", "a whole number, not str"),
        (whole_number, 0, True, "a whole number, not bool"),
        (whole_number, -1, 1.0, "a whole number, not float"),
        (number, 1.5, "1.5", "a number, not str"),
        (number, 2, False, "a number, not bool"),
        (text, "a", b"a", "a text, not bytes"),
        (mapping, {"a": 1}, ["a"], "a dict, not list"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused(
    check: Callable[[str, Any], object], good: object, bad: object, needed: str
) -> None:
    assert check("x", good) == good
    with pytest.raises(TypeError) as refused:
        check("x", bad)
    assert str(refused.value) == f"x={bad!r}: it has to be {needed}"


def test_a_mapping_that_is_not_given_is_empty() -> None:
    assert mapping("x", None) == {}


def test_the_closest_word_or_all_are_named() -> None:
    assert did_you_mean("topc", ["topic", "group"]) == "; did you mean topic?"
    assert did_you_mean(7, ["topic", "group"]) == "; there are: topic, group"
