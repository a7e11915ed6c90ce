"""Config definitions written as a table, two lines each.

    group.max.size INT 2147483647 read-only 1..
        Maximum number of members of a group.

The first line has the name, type, default (`null`: none; `''`: the empty text), update mode and, unless every value of
the type is valid, the valid ones: `1..` from 1 on, `1..10` up to 10, `a|b` one of these texts, `A|B~` the same in any
case, `a,b` a list of some of these, `some` any non-empty list, `named` any non-empty text. The second line is the
documentation.
"""

from __future__ import annotations

from controller.configs.definition import (
    ConfigDef,
    ConfigType,
    UpdateMode,
    Validator,
    at_least,
    between,
    named,
    one_of,
    one_of_any_case,
    some_of,
)


def table(text: str, *, without_effect: str = "", internal: bool = False) -> tuple[ConfigDef, ...]:
    """Return the definitions in `text`; `without_effect` is the reason why this broker ignores them."""
    lines = [line.strip() for line in text.strip().splitlines()]
    return tuple(
        _definition(row, documentation)._replace(without_effect=without_effect, internal=internal)
        for row, documentation in zip(lines[::2], lines[1::2], strict=True)
    )


def _definition(row: str, documentation: str) -> ConfigDef:
    name, type_name, default, mode, *accepted = row.split()
    return ConfigDef(
        name,
        ConfigType[type_name],
        None if default == "null" else default.strip("'"),
        documentation,
        _validator(*accepted) if accepted else None,
        UpdateMode(mode),
    )


def _validator(accepted: str) -> Validator:
    if accepted == "named":
        return named
    low, dots, high = accepted.partition("..")
    if dots:
        return between(_number(low), _number(high)) if high else at_least(_number(low))
    if accepted.endswith("~"):
        return one_of_any_case(*accepted[:-1].split("|"))
    if accepted == "some":
        return some_of()
    return some_of(*accepted.split(",")) if "," in accepted else one_of(*accepted.split("|"))


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)
