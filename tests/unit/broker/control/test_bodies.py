"""Bodies of control requests against NamedTuples."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import pytest

from broker.control.api_problem import ApiProblem
from broker.control.bodies import NumberRange, parse_body, parse_query


class Inner(NamedTuple):
    name: str


class Outer(NamedTuple):
    text: str
    number: Annotated[int, NumberRange(1, 9)] = 1
    share: Annotated[float, NumberRange(0, 1)] = 1.0
    flag: bool = False
    choice: Literal["a", "b"] = "a"
    several: list[int] | int | None = None
    inner: Inner | None = None
    counts: dict[str, int] | None = None


def test_fields_are_parsed_and_defaults_filled_in() -> None:
    parsed = parse_body(Outer, {"text": "x", "share": 0, "several": [1, 2], "inner": {"name": "y"}, "counts": {"t": 3}})
    assert parsed == Outer("x", share=0, several=[1, 2], inner=Inner("y"), counts={"t": 3})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "the body must be a JSON object"),
        ({}, "the field text is missing"),
        ({"text": 1}, "text: 1 is not a text"),
        ({"text": "x", "number": 10}, "number: 10 is not an integer from 1 to 9"),
        ({"text": "x", "number": True}, "number: True is not an integer from 1 to 9"),
        ({"text": "x", "number": 1.5}, "number: 1.5 is not an integer from 1 to 9"),
        ({"text": "x", "flag": 1}, "flag: 1 is not true or false"),
        ({"text": "x", "choice": "c"}, "choice: 'c' is not one of a, b"),
        ({"text": "x", "several": "y"}, "several: 'y' is not a list or an integer or null"),
        ({"text": "x", "several": [1, "y"]}, "several[1]: 'y' is not an integer"),
        ({"text": "x", "inner": {"nam": "y"}}, "there is no field inner.nam; did you mean name?"),
        ({"text": "x", "inner": {}}, "the field inner.name is missing"),
        ({"text": "x", "inner": 1}, "inner: 1 is not an object or null"),
        ({"text": "x", "counts": {"t": "y"}}, "counts.t: 'y' is not an integer"),
        ({"text": "x", "numbr": 1}, "there is no field numbr; did you mean number?"),
        (
            {"text": "x", "zzz": 1},
            "there is no field zzz; there are: text, number, share, flag, choice, several, inner, counts",
        ),
    ],
)
def test_an_invalid_body_is_refused_with_the_field(given: Any, message: str) -> None:
    with pytest.raises(ApiProblem) as refused:
        parse_body(Outer, given)
    assert str(refused.value) == message
    assert refused.value.status == 400


def test_parameters_of_a_query_are_read_from_text() -> None:
    given = {"text": "1", "number": "2", "share": "0.5", "flag": "true", "several": "3"}
    assert parse_query(Outer, given) == Outer("1", 2, 0.5, flag=True, several=3)


def test_an_invalid_parameter_is_refused() -> None:
    with pytest.raises(ApiProblem, match="number: 'x' is not an integer from 1 to 9"):
        parse_query(Outer, {"text": "1", "number": "x"})
