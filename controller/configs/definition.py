"""What a configuration is: its name, type, default, check and documentation, and how its text becomes a value.

Values live as text (in `server.properties`, in ConfigRecords and on the wire) and are parsed where they are used, by
the rules of Kafka's ConfigDef: numbers may have blanks around them, booleans any case, lists are split at commas.
The messages of `ConfigError` are what tools print, and are worded as Kafka's users know them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any, NamedTuple, TypeAlias

# What is wrong with a parsed value, or None.
Validator: TypeAlias = Callable[[Any], str | None]


class ConfigType(IntEnum):
    """The type of a configuration; the numbers are those of DescribeConfigs."""

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
    """Where a broker's configuration can be altered while it runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigError(ValueError):
    """A configuration whose value is not what its definition asks for."""


class ConfigDef(NamedTuple):
    """The definition of one configuration. `default` is text, as a properties file would have it."""

    name: str
    type: ConfigType
    default: str | None
    documentation: str
    validator: Validator | None = None
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    internal: bool = False
    effective: bool = True

    @property
    def sensitive(self) -> bool:
        """Say whether the value is a secret that no response may contain."""
        return self.type is ConfigType.PASSWORD


def parse_value(definition: ConfigDef, text: str | None) -> Any:
    """Return the value that `text` stands for: int, float, bool, str, a tuple of str, or None where there is none.

    Raises ConfigError naming the configuration, the value and what is wrong with it.
    """
    if text is None:
        return None
    name = definition.name
    text = text.strip()
    try:
        value = _PARSERS[definition.type](text)
    except ValueError as error:
        raise ConfigError(f"Invalid value {text} for configuration {name}: {error}") from None
    if definition.validator is not None:
        complaint = definition.validator(value)
        if complaint is not None:
            raise ConfigError(f"Invalid value {text} for configuration {name}: {complaint}")
    return value


def split_list(text: str) -> tuple[str, ...]:
    """Return the items of a LIST's text; an empty text has none."""
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
        # int() alone would also take underscores and other scripts' digits, which Kafka does not.
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and low <= int(text) <= high):
            raise ValueError(f"Not a number of type {type_name}")
        return int(text)

    return parse


def _double(text: str) -> float:
    try:
        return float(text)
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
    """Accept numbers from `low` on."""
    return lambda value: None if value >= low else f"Value must be at least {low}"


def between(low: float, high: float) -> Validator:
    """Accept numbers from `low` to `high`, both included."""

    def check(value: float) -> str | None:
        if value < low:
            return f"Value must be at least {low}"
        return None if value <= high else f"Value must be no more than {high}"

    return check


def either(extra: object, check: Validator) -> Validator:
    """Accept the one value `extra` beside what `check` accepts."""
    return lambda value: None if value == extra else check(value)


def one_of(*choices: str) -> Validator:
    """Accept one of the given strings."""
    return lambda value: None if value in choices else f"String must be one of: {', '.join(choices)}"


def subset_of(*choices: str) -> Validator:
    """Accept a list of some of the given strings."""
    check = one_of(*choices)
    return lambda value: next((check(item) for item in value if item not in choices), None)


def throttled_replicas(value: tuple[str, ...]) -> str | None:
    """Accept `*`, or a list of partition:broker pairs."""
    if value in ((), ("*",)):
        return None
    pairs = [item.split(":") for item in value]
    if all(len(pair) == 2 and all(part.isascii() and part.isdigit() for part in pair) for pair in pairs):
        return None
    return "Value must be the literal '*' or a list of replicas in the form partition:broker,partition:broker"


def connections_per_host(value: str) -> str | None:
    """Accept host:number pairs; the host may be an IPv6 address, in brackets or not."""
    for pair in filter(None, map(str.strip, value.split(","))):
        host, _, number = pair.rpartition(":")
        if not (host.strip() and number.strip().isascii() and number.strip().isdigit()):
            return "Value must be a list of the form host:number,host:number"
    return None
