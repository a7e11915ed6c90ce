"""Config definitions: name, type, default, validator and documentation, and parsing of values.

Values are stored as text (in `server.properties`, in ConfigRecords and on the wire) and are parsed where they are used,
by the rules of Kafka's `ConfigDef`: blanks around numbers, booleans in any case, lists split at commas. The messages of
`ConfigError` are printed by tools, and are worded as Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, IntEnum
from math import isfinite
from typing import Any, NamedTuple, TypeAlias


class ValueProblem(NamedTuple):
    """A problem with `part` of a value, or with the whole value if None."""

    part: str | None
    text: str


EMPTY_ITEM = ValueProblem(None, "values must not be empty.")


# Returns the problem with a parsed value, or None; `{name}` in it stands for the config's name.
Validator: TypeAlias = Callable[[Any], "str | ValueProblem | None"]


class ConfigType(IntEnum):
    """The type of a config, with the numbers of DescribeConfigs (Kafka: `ConfigDef.Type`)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """How a broker config can be altered while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigError(ValueError):
    """A config value that its definition does not allow."""


class ConfigConflictError(ConfigError):
    """The value of the config `name` is valid alone but not together with others."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name


class ConfigDef(NamedTuple):
    """The definition of one config. `default` is text, as in a properties file.

    `without_effect` is the reason why this broker ignores the config, empty if it does not. An `internal` one is shown
    only if it is set.
    """

    name: str
    type: ConfigType
    default: str | None
    documentation: str
    validator: Validator | None = None
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    internal: bool = False
    without_effect: str = ""

    @property
    def effective(self) -> bool:
        """Return whether this broker acts on the config."""
        return not self.without_effect

    @property
    def full_documentation(self) -> str:
        """Return the documentation for clients, with the reason if the config has no effect."""
        return (
            f"{self.documentation} Without effect here: {self.without_effect}."
            if self.without_effect
            else self.documentation
        )

    @property
    def sensitive(self) -> bool:
        """Return whether the value is a secret, which no response may contain."""
        return self.type is ConfigType.PASSWORD


def parse_value(definition: ConfigDef, text: str | None) -> Any:
    """Return the value of `text`: int, float, bool, str, a tuple of str, or None for no value.

    Raise ConfigError with the config's name, the value and the problem.
    """
    if text is None:
        return None
    name = definition.name
    try:
        value = _PARSERS[definition.type](text.strip())
    except ValueError as error:
        raise ConfigError(f"Invalid value {text} for configuration {name}: {error}") from None
    problem = definition.validator(value) if definition.validator is not None else None
    if problem is None and isinstance(value, tuple) and "" in value:
        problem = EMPTY_ITEM
    if problem is not None:
        raise ConfigError(_message(name, value, problem).replace("{name}", name))
    return value


def _message(name: str, value: Any, problem: str | ValueProblem) -> str:
    if isinstance(problem, str):
        part = f"[{', '.join(value)}]" if isinstance(value, tuple) else format_value(value)
        problem = ValueProblem(part, problem)
    if problem.part is None:
        return f"Configuration '{name}' {problem.text}"
    return f"Invalid value {problem.part} for configuration {name}: {problem.text}"


def format_value(value: Any) -> str | None:
    """Return the text of a value, formatted as by Kafka."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return _format_double(value) if isinstance(value, float) else str(value)


def _format_double(value: float) -> str:
    """Return the text of a number, formatted as by Java: 1.0E7 for ten million."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    if not isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    mantissa, _, exponent = repr(value).partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0").rstrip("0")
    point = len(whole) if whole != "0" else len(fraction.lstrip("0")) - len(fraction)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent or 0) + point - 1}"


def split_list(text: str) -> tuple[str, ...]:
    """Return the items of a LIST's text; none for an empty text."""
    text = text.strip()
    return tuple(item.strip() for item in text.split(",")) if text else ()


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return lowered == "true"


def _integer(type_name: str, bits: int) -> Callable[[str], int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def parse(text: str) -> int:
        # int() alone would also accept underscores and non-ASCII digits, which Kafka refuses.
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and low <= int(text) <= high):
            raise ValueError(f"Not a number of type {type_name}")
        return int(text)

    return parse


def _double(text: str) -> float:
    try:
        return float(text.replace("_", "?"))  # float() alone would accept underscores
    except ValueError:
        raise ValueError("Not a number of type DOUBLE") from None


_PARSERS: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _integer("INT", 32),
    ConfigType.SHORT: _integer("SHORT", 16),
    ConfigType.LONG: _integer("LONG", 64),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: split_list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}


def at_least(low: float) -> Validator:
    """Accept numbers of at least `low`."""
    return lambda value: None if value >= low else f"Value must be at least {low}"


def between(low: float, high: float) -> Validator:
    """Accept numbers from `low` to `high`, inclusive."""

    def check(value: float) -> str | None:
        if value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}" if value > high else None

    return check


def between_or(low: int, high: int, extra: int) -> Validator:
    """Accept numbers from `low` to `high`, inclusive, and `extra`."""
    problem = f"Value must be between {low} and {high} or equal to {extra}"
    return lambda value: None if value == extra or low <= value <= high else problem


def nonempty(value: str) -> str | None:
    """Accept any non-empty text."""
    return None if value else "String must be non-empty"


def one_of(*choices: str) -> Validator:
    """Accept one of `choices`."""
    return lambda value: None if value in choices else f"String must be one of: {', '.join(choices)}"


def one_of_any_case(*choices: str) -> Validator:
    """Accept one of `choices`, which are upper case, in any case."""
    problem = f"String must be one of (case insensitive): {', '.join(choices)}"
    return lambda value: None if value.upper() in choices else problem


def subset_of(*choices: str) -> Validator:
    """Accept a list of some of `choices`."""
    problem = f"String must be one of: {', '.join(choices)}"

    def check(value: tuple[str, ...]) -> ValueProblem | None:
        wrong = next((item for item in value if item not in choices), None)
        return EMPTY_ITEM if wrong == "" else None if wrong is None else ValueProblem(wrong, problem)

    return check


def some_of(*choices: str) -> Validator:
    """Accept a non-empty list of `choices`; of any strings without choices."""
    valid = f"[{', '.join(choices)}]" if choices else "any non-empty value"
    empty = ValueProblem(None, f"must not be empty. Valid values include: {valid}")
    check = subset_of(*choices) if choices else lambda _: None
    return lambda value: check(value) if value else empty


def throttled_replicas(value: tuple[str, ...]) -> str | None:
    """Accept `*` or a list of partition:broker pairs."""
    if value in ((), ("*",)):
        return None
    pairs = [item.split(":") for item in value]
    if all(len(pair) == 2 and all(part.isascii() and part.isdigit() for part in pair) for pair in pairs):
        return None
    form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    return f"{{name}} must be the literal '*' or a list of replicas in the following format: {form}"


_HOST_AND_NUMBER = re.compile(r"\[?[0-9A-Za-z%._:-]+\]?\s*:\s*[0-9]+")


def connections_per_host(value: str) -> str | None:
    """Accept host:number pairs; the host can be an IPv6 address, with or without brackets."""
    pairs = filter(None, map(str.strip, value.split(",")))
    if all(map(_HOST_AND_NUMBER.fullmatch, pairs)):
        return None
    return "Value must be a list of the form host:number,host:number"
