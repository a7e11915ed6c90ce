from __future__ import annotations

import json

import pytest

from tests.unit.barnabas.conftest import Command

LIMIT = "producer_byte_rate=1024"


def test_quotas_that_are_set_are_listed_and_removed(barnabas: Command, topic: str) -> None:
    shown = barnabas("quota", "set", "--user", topic, LIMIT, "request_percentage=12.5")
    assert shown == (
        0,
        f"set producer_byte_rate=1024 of user {topic}\nset request_percentage=12.5 of user {topic}\n",
        "",
    )
    barnabas("quota", "set", "--user", topic, "--client-id", "app", "consumer_byte_rate=7")
    assert [line.split()[-2:] for line in barnabas("quota", "ls", "--user", topic).lines] == [
        ["QUOTA", "VALUE"],
        ["producer_byte_rate", "1024"],
        ["request_percentage", "12.5"],
        ["consumer_byte_rate", "7"],
    ]
    assert f"user {topic}, client-id app" in barnabas("quota", "list", "--client-id", "app").out
    shown = barnabas("quota", "set", "--user", topic, "producer_byte_rate=2048")
    assert shown.lines == [f"set producer_byte_rate=2048 of user {topic} (was 1024)"]

    assert barnabas("quota", "remove", "--user", topic, "producer_byte_rate").lines == [
        f"removed producer_byte_rate=2048 of user {topic}"
    ]
    assert barnabas("quota", "rm", "--user", topic).lines == [f"removed request_percentage=12.5 of user {topic}"]
    assert len(barnabas("quota", "list", "--user", topic).lines) == 2


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("0", "must be greater than 0"),
        ("-1", "must be greater than 0"),
        ("1.5", "cannot be a fractional value"),
    ],
)
def test_a_value_that_is_refused_is_named(barnabas: Command, topic: str, value: str, problem: str) -> None:
    shown = barnabas("quota", "set", "--user", topic, f"producer_byte_rate={value}")
    assert (shown.status, shown.out) == (1, "")
    assert "producer_byte_rate" in shown.err
    assert problem in shown.err
    assert len(barnabas("quota", "list", "--user", topic).lines) == 1


@pytest.mark.parametrize("value", ["nan", "inf", "many"])
def test_a_value_that_is_no_number_is_refused(call: Command, value: str) -> None:
    shown = call("quota", "set", "--user", "a", f"producer_byte_rate={value}")
    assert shown.status == 2
    assert f"'producer_byte_rate={value}': '{value}' is not a number" in shown.err


@pytest.mark.parametrize(
    ("of", "quota", "shown", "most"),
    [
        ("--user", "producer_byte_rate=1e19", "producer_byte_rate=10000000000000000000", 2**63 - 1),
        ("--client-id", "consumer_byte_rate=1e30", "consumer_byte_rate=1e+30", 2**63 - 1),
        ("--ip", "connection_creation_rate=2147483648", "connection_creation_rate=2147483648", 2**31 - 1),
    ],
)
def test_value_above_the_largest_is_refused_with_it(call: Command, of: str, quota: str, shown: str, most: int) -> None:
    refused = f"barnabas quota set: {shown} is too large: at most {most}\n"
    assert call("quota", "set", of, "::1", quota) == (2, "", refused)


def test_no_more_is_set_than_given_where_the_number_has_no_double(barnabas: Command, topic: str) -> None:
    shown = barnabas("quota", "set", "--user", topic, f"producer_byte_rate={2**63 - 1}")
    assert shown.out == f"set producer_byte_rate={2**63 - 1024} of user {topic}\n"
    shown = barnabas("quota", "set", "--user", topic, f"producer_byte_rate={2**53 + 1}")
    assert shown.out == f"set producer_byte_rate={2**53} of user {topic} (was {2**63 - 1024})\n"


def test_quota_of_a_user_that_looks_like_a_principal_is_set_with_a_warning(barnabas: Command) -> None:
    shown = barnabas("quota", "set", "--user", "User:bob", LIMIT)
    assert (shown.status, shown.out) == (0, "set producer_byte_rate=1024 of user User:bob\n")
    assert shown.err == ("barnabas quota set: the user User:bob has the principal User:User:bob; did you mean bob?\n")
    assert barnabas("quota", "remove", "--user", "User:bob").status == 0


def test_the_largest_value_that_kafka_takes_is_kept(barnabas: Command, topic: str) -> None:
    barnabas("quota", "set", "--user", topic, f"producer_byte_rate={2**63}")
    (listed,) = json.loads(barnabas("quota", "list", "--user", topic, "--json").out)
    assert listed == {"entity": {"user": topic}, "quota": "producer_byte_rate", "value": float(2**63)}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("set", LIMIT), "name an entity"),
        (("set", "--user", "a", "--user-defaults", LIMIT), "exclude each other"),
        (("set", "--user", "", LIMIT), "--user needs a name"),
        (("set", "--user", "a", "--ip", "10.0.0.1", LIMIT), "--ip cannot be combined"),
        (("set", "--user", "a", "producer_byte_rat=1"), "did you mean producer_byte_rate"),
        (("set", "--user", "a", "nothing=1"), "write one of producer_byte_rate"),
        (("set", "--user", "a", "connection_creation_rate=1"), "is a quota of addresses (--ip)"),
        (("set", "--ip", "10.0.0.1", LIMIT), "is a quota of users and client ids"),
        (("set", "--user", "a", "producer_byte_rate"), "write QUOTA=VALUE"),
        (("set", "--user", "a", "producer_byte_rate=much"), "'much' is not a number"),
        (("remove", "producer_byte_rate"), "name an entity"),
        (("describe",), "name an entity"),
    ],
)
def test_a_wrong_call_is_refused_with_what_would_be_right(call: Command, words: tuple[str, ...], problem: str) -> None:
    shown = call("quota", *words)
    assert (shown.status, shown.out) == (2, "")
    assert problem in shown.err
