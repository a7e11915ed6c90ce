"""Configuration definitions parsed from table rows."""

from __future__ import annotations

import pytest

from controller.configs.config_table import table
from controller.configs.definition import ConfigDef, ConfigError, ConfigType, UpdateMode, parse_value


def one(row: str) -> ConfigDef:
    [definition] = table(f"\n    {row}\n        What it means.\n")
    return definition


def test_a_row_has_name_type_default_mode_and_documentation() -> None:
    assert one("a.b INT 5 cluster-wide") == ConfigDef(
        "a.b", ConfigType.INT, "5", "What it means.", update_mode=UpdateMode.CLUSTER_WIDE
    )


def test_missing_default_differs_from_an_empty_default() -> None:
    assert one("a STRING null read-only").default is None
    assert one("a STRING '' read-only").default == ""


def test_all_rows_of_a_table_share_its_reason() -> None:
    first, second = table(
        "a INT 5 read-only\n  One.\nb INT 6 read-only\n  Two.", without_effect="none of it", internal=True
    )
    assert [first.name, second.name] == ["a", "b"]
    assert first.without_effect == second.without_effect == "none of it"
    assert first.internal
    assert not first.effective


def test_documentation_can_have_several_lines() -> None:
    [definition] = table("a INT 5 read-only\n  One\n  sentence.")
    assert definition.documentation == "One sentence."


def test_a_row_without_documentation_is_refused() -> None:
    with pytest.raises(ValueError, match="no documentation: a INT 5 read-only"):
        table("a INT 5 read-only\nb INT 6 read-only\n  Two.")


@pytest.mark.parametrize(
    ("row", "good", "bad"),
    [
        ("a INT 5 read-only 1..", "1", "0"),
        ("a INT 5 read-only -1..5", "-1", "6"),
        ("a DOUBLE 0.5 read-only 0..1", "0.25", "1.5"),
        ("a STRING x read-only x|y", "y", "X"),
        ("a STRING x read-only X|Y~", "y", "z"),
        ("a LIST x read-only x,y", "y,x", "x,z"),
        ("a LIST x read-only x,y", "y,x", ""),
        ("a LIST x read-only x,y?", "", "x,z"),
        ("a INT 5 read-only 1..9|-1", "-1", "0"),
        ("a STRING x read-only nonempty", "anything", ""),
    ],
)
def test_row_validators_accept_and_reject_values(row: str, good: str, bad: str) -> None:
    definition = one(row)
    parse_value(definition, good)
    with pytest.raises(ConfigError):
        parse_value(definition, bad)
