"""Configuration values parsed from text, validated, and formatted."""

from __future__ import annotations

from typing import Any

import pytest

from controller.configs.definition import (
    ConfigDef,
    ConfigError,
    ConfigType,
    ValueProblem,
    at_least,
    between,
    between_or,
    connections_per_host,
    format_value,
    one_of,
    parse_value,
    subset_of,
    throttled_replicas,
)

T = ConfigType


def parse(kind: ConfigType, text: str | None, validator: Any = None) -> Any:
    return parse_value(ConfigDef("a.name", kind, None, "", validator), text)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (T.BOOLEAN, "true", True),
        (T.BOOLEAN, " FALSE ", False),
        (T.INT, " 10 ", 10),
        (T.INT, "-2147483648", -(1 << 31)),
        (T.INT, "+5", 5),
        (T.SHORT, "32767", 32767),
        (T.LONG, "9223372036854775807", (1 << 63) - 1),
        (T.DOUBLE, "0.5", 0.5),
        (T.LIST, "a, b ,c", ("a", "b", "c")),
        (T.LIST, " ", ()),
        (T.STRING, " text ", "text"),
        (T.PASSWORD, "secret", "secret"),
        (T.LONG, None, None),
    ],
)
def test_values(kind: ConfigType, text: str | None, value: Any) -> None:
    assert parse(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (T.BOOLEAN, "yes", "Expected value to be either true or false"),
        (T.INT, "2147483648", "Not a number of type INT"),
        (T.INT, "1_000", "Not a number of type INT"),
        (T.INT, "٣", "Not a number of type INT"),
        (T.INT, "", "Not a number of type INT"),
        (T.INT, "1.5", "Not a number of type INT"),
        (T.SHORT, "32768", "Not a number of type SHORT"),
        (T.LONG, "9223372036854775808", "Not a number of type LONG"),
        (T.DOUBLE, "half", "Not a number of type DOUBLE"),
    ],
)
def test_invalid_text_is_reported_with_name_and_reason(kind: ConfigType, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse(kind, text)
    assert str(wrong.value) == f"Invalid value {text} for configuration a.name: {problem}"


@pytest.mark.parametrize(
    ("validator", "good", "bad", "problem"),
    [
        (at_least(1), 1, 0, "Value must be at least 1"),
        (between(0, 9), 9, 10, "Value must be no more than 9"),
        (between(1, 9), 1, 0, "Value must be at least 1"),
        (between_or(1, 9, -1), -1, 0, "Value must be between 1 and 9 or equal to -1"),
        (one_of("a", "b"), "b", "c", "String must be one of: a, b"),
        (subset_of("a", "b"), ("a", "b", "a"), ("a", "c"), ValueProblem("c", "String must be one of: a, b")),
        (throttled_replicas, ("0:1", "12:345"), ("0:1", "x"), "{name} must be the literal '*'"),
        (throttled_replicas, ("*",), ("*", "0:1"), "{name} must be the literal '*'"),
        (throttled_replicas, (), ("0:1:2",), "{name} must be the literal '*'"),
        (connections_per_host, "", "10", "Value must be a list of the form host:number"),
        (connections_per_host, "10.0.0.1:5, example.org:7", ":5", "Value must be a list of the form host:number"),
        (connections_per_host, "[::1]:5", "10.0.0.1:-5", "Value must be a list of the form host:number"),
        (connections_per_host, "host_1 : 5", "two words:5", "Value must be a list of the form host:number"),
    ],
)
def test_checks(validator: Any, good: Any, bad: Any, problem: str) -> None:
    assert validator(good) is None
    complaint = validator(bad)
    assert complaint == problem or complaint.startswith(problem)


def test_value_that_fails_validation_is_reported_as_written() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value 0 for configuration a.name: Value must be at least 1"):
        parse(T.INT, "0", at_least(1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (5, "5"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (1e20, "1.0E20"),
        (12345678.5, "1.23456785E7"),
        (-0.00012, "-1.2E-4"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
    ],
)
def test_values_are_written_plainly(value: Any, text: str | None) -> None:
    assert format_value(value) == text


def test_a_list_has_no_empty_items() -> None:
    with pytest.raises(ConfigError, match=r"Configuration 'a.name' values must not be empty\."):
        parse(T.LIST, "a,,b")


def test_config_without_effect_has_a_reason() -> None:
    definition = ConfigDef("a", T.INT, "1", "What it means.")
    assert definition.full_documentation == "What it means."
    reserved = definition._replace(without_effect="it is too early")
    assert reserved.full_documentation == "What it means. Without effect here: it is too early."
    assert not reserved.effective


def test_passwords_are_secret() -> None:
    assert ConfigDef("p", T.PASSWORD, None, "").sensitive
    assert not ConfigDef("p", T.STRING, None, "").sensitive
