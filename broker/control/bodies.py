"""Bodies of control requests: JSON objects, checked against NamedTuples.

A NamedTuple declares the fields of a body: their names, types and defaults; one without a default is required. The type
of a field is `str`, `bool`, `int`, `float`, a `Literal`, a NamedTuple, a list or dict of one of these, or a union;
`Annotated[int, NumberRange(1, 9)]` bounds a number. The parameters of a query are read in the same way, from text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from broker.control.api_problem import bad_request, did_you_mean

B = TypeVar("B")

_NAMES: Mapping[Any, str] = {str: "a text", bool: "true or false", int: "an integer", float: "a number"}


class NumberRange(NamedTuple):
    """The bounds of a number, both included."""

    low: float
    high: float = float("inf")


class _Mismatch(Exception):  # noqa: N818 - found and handled here
    """A value that is not of the type; the message says what would be."""


def parse_body(kind: type[B], given: object) -> B:
    """Return `given` as a `kind`, a NamedTuple; `ApiProblem` with the field that is missing, unknown or invalid."""
    if not isinstance(given, dict):
        raise bad_request("the body must be a JSON object")
    try:
        return cast("B", _object(kind, given, ""))
    except _Mismatch as problem:
        raise bad_request(str(problem)) from None


def parse_query(kind: type[B], given: Mapping[str, str]) -> B:
    """Return the parameters of a query as a `kind`, a NamedTuple; `ApiProblem` as `parse_body`."""
    hints = field_types(cast("Any", kind))  # mypy takes a type for not hashable
    return parse_body(kind, {name: _from_text(hints.get(name), text) for name, text in given.items()})


@cache
def field_types(kind: Any) -> dict[str, Any]:
    """Return the types of a NamedTuple's fields, by name."""
    return get_type_hints(kind, include_extras=True)


def _from_text(hint: Any, text: str) -> object:
    """Return a parameter's text as the first type of `hint` that it can be."""
    for kind in _alternatives(hint):
        base = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        if base is bool and text in ("true", "false"):
            return text == "true"
        if base in (int, float):
            try:
                return base(text)
            except ValueError:
                continue
    return text


def _object(kind: Any, given: Mapping[str, object], path: str) -> object:
    hints = field_types(kind)
    for name in given:
        if name not in hints:
            raise _Mismatch(f"there is no field {path}{name}{did_you_mean(name, list(hints))}")
    found = {name: _value(hints[name], value, f"{path}{name}") for name, value in given.items()}
    missing = [name for name in hints if name not in found and name not in kind._field_defaults]
    if missing:
        raise _Mismatch(f"the field {path}{missing[0]} is missing")
    return kind(**found)


def _value(hint: Any, value: object, path: str) -> object:
    kinds = _alternatives(hint)
    structured = [kind for kind in kinds if _is_object(kind)]
    if isinstance(value, dict) and structured:
        return _object(structured[0], value, f"{path}.")
    if isinstance(value, list) and (lists := [kind for kind in kinds if get_origin(kind) is list]):
        (item,) = get_args(lists[0])
        return [_value(item, one, f"{path}[{at}]") for at, one in enumerate(value)]
    if isinstance(value, dict) and (mappings := [kind for kind in kinds if get_origin(kind) is dict]):
        item = get_args(mappings[0])[1]
        return {name: _value(item, one, f"{path}.{name}") for name, one in value.items()}
    problems = []
    for kind in kinds:
        try:
            return _plain(kind, value)
        except _Mismatch as problem:
            problems.append(str(problem))
    raise _Mismatch(f"{path}: {value!r} is not {' or '.join(problems)}")


def _plain(kind: Any, value: object) -> object:
    """Return a value that is neither an object nor a list."""
    bounds = None
    if get_origin(kind) is Annotated:
        kind, bounds = get_args(kind)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise _Mismatch(f"one of {', '.join(map(str, get_args(kind)))}")
        return value
    if get_origin(kind) is list:
        raise _Mismatch("a list")
    if _is_object(kind) or get_origin(kind) is dict:
        raise _Mismatch("an object")
    if kind is NoneType:
        if value is not None:
            raise _Mismatch("null")
        return None
    expected = _NAMES[kind]
    if bounds is not None:
        upper = "" if bounds.high == float("inf") else f" to {bounds.high}"
        expected += f" from {bounds.low}{upper}"
    fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if not fits or (kind is not bool and isinstance(value, bool)):
        raise _Mismatch(expected)
    if bounds is not None and not bounds.low <= cast("float", value) <= bounds.high:
        raise _Mismatch(expected)
    return value


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_object(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "_field_defaults")
