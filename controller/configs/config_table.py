"""Config definitions written as a table.

    group.max.size INT 2147483647 read-only 1..
        Maximum number of members of a group.

The first line has the name, type, default (`null`: none; `''`: the empty text), update mode and, unless every value of
the type is valid, the valid ones: `1..` from 1 on, `1..10` up to 10, `a|b` one of these texts, `A|B~` the same in any
case, `a,b` a list of some of these, `a,b?` the same or an empty list, `some` any non-empty list, `1..9|-1` a range or
one more number, or the name of a validator (`_VALIDATORS`). The indented lines that follow are the documentation.
"""

from controller.configs.definition import (
    ConfigDef,
    ConfigType,
    UpdateMode,
    Validator,
    at_least,
    between,
    between_or,
    connections_per_host,
    nonempty,
    one_of,
    one_of_any_case,
    some_of,
    subset_of,
    throttled_replicas,
)

# Lookups in an enum are slow, and every start of a broker makes hundreds.
_TYPES = dict(ConfigType.__members__)
_MODES = {mode.value: mode for mode in UpdateMode}

_VALIDATORS: dict[str, Validator] = {
    "nonempty": nonempty,
    "some": some_of(),
    "hosts": connections_per_host,
    "throttled": throttled_replicas,
}


def table(text: str, *, without_effect: str = "", internal: bool = False) -> tuple[ConfigDef, ...]:
    """Return the definitions in `text`; `without_effect` is the reason why this broker ignores them."""
    lines = text.strip("\n").rstrip().splitlines()
    margin = len(lines[0]) - len(lines[0].lstrip())
    rows: list[list[str]] = []
    for line in lines:
        if line[margin].isspace():
            rows[-1].append(line.strip())
        else:
            rows.append([line.strip()])
    if bare := next((row[0] for row in rows if len(row) == 1), None):
        raise ValueError(f"no documentation: {bare}")
    definitions = []
    for row, *documentation in rows:
        name, type_name, default, mode, *accepted = row.split()
        definitions.append(
            ConfigDef(
                name,
                _TYPES[type_name],
                None if default == "null" else default.strip("'"),
                " ".join(documentation),
                _validator(*accepted) if accepted else None,
                _MODES[mode],
                internal,
                without_effect,
            )
        )
    return tuple(definitions)


def _validator(accepted: str) -> Validator:
    if accepted in _VALIDATORS:
        return _VALIDATORS[accepted]
    low, dots, high = accepted.partition("..")
    if dots:
        high, _, extra = high.partition("|")
        if extra:
            return between_or(int(low), int(high), int(extra))
        return between(_number(low), _number(high)) if high else at_least(_number(low))
    if accepted.endswith("~"):
        return one_of_any_case(*accepted[:-1].split("|"))
    if accepted.endswith("?"):
        return subset_of(*accepted[:-1].split(","))
    return some_of(*accepted.split(",")) if "," in accepted else one_of(*accepted.split("|"))


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)
