from __future__ import annotations

import argparse

import pytest

from barnabas.commands._acls import AclBinding, add_entry_options, add_resource_options, entries, operation
from barnabas.commands._output import WrongCall


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_resource_options(parser, ("literal", "prefixed"))
    add_entry_options(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("text", ["DESCRIBE_CONFIGS", "DescribeConfigs", "describe-configs"])
def test_an_operation_is_known_in_every_spelling(text: str) -> None:
    assert operation(text) == "DESCRIBE_CONFIGS"


def test_each_principal_gets_each_operation_on_each_resource_from_each_host() -> None:
    found = entries(
        parsed(
            *("--allow-principal", "User:a", "--allow-principal", "User:b", "--allow-host", "::1"),
            *("--deny-principal", "User:c", "--deny-host", "10.0.0.1", "--deny-host", "10.0.0.2"),
            *("--operation", "read", "--operation", "describe", "--topic", "t", "--group", "g"),
        )
    )
    allowed = [(who, "::1", "ALLOW") for who in ("User:a", "User:b")]
    denied = [("User:c", host, "DENY") for host in ("10.0.0.1", "10.0.0.2")]
    assert found == [
        AclBinding(kind, name, "literal", who, host, what, permission)
        for kind, name in (("topic", "t"), ("group", "g"))
        for what in ("READ", "DESCRIBE")
        for who, host, permission in (*allowed, *denied)
    ]


def test_a_producer_and_consumer_gets_the_operations_of_both() -> None:
    found = entries(
        parsed(
            *("--allow-principal", "User:a", "--producer", "--consumer", "--idempotent"),
            *("--topic", "t", "--group", "g", "--transactional-id", "i", "--pattern", "prefixed"),
        )
    )
    assert [(acl.type, acl.operation) for acl in found] == [
        ("topic", "WRITE"),
        ("topic", "DESCRIBE"),
        ("topic", "CREATE"),
        ("transactional-id", "WRITE"),
        ("transactional-id", "DESCRIBE"),
        ("cluster", "IDEMPOTENT_WRITE"),
        ("topic", "READ"),
        ("group", "READ"),
    ]
    assert {acl.type: acl.pattern for acl in found}["cluster"] == "literal"
    assert {acl.pattern for acl in found if acl.type != "cluster"} == {"prefixed"}


@pytest.mark.parametrize(
    "words",
    [
        ["--producer", "--topic", "t", "--operation", "read"],
        ["--producer", "--topic", "t", "--deny-principal", "User:b"],
        ["--consumer", "--topic", "t", "--group", "g", "--cluster"],
        ["--consumer", "--topic", "t", "--group", "g", "--transactional-id", "i"],
        ["--consumer", "--topic", "t", "--group", "g", "--idempotent"],
        ["--producer", "--topic", "t", "--group", "g"],
        ["--producer"],
        ["--consumer", "--topic", "t"],
    ],
)
def test_a_shorthand_with_options_of_something_else_is_refused(words: list[str]) -> None:
    with pytest.raises(WrongCall):
        entries(parsed("--allow-principal", "User:a", *words))


def test_an_entry_in_one_line() -> None:
    acl = AclBinding("topic", "t", "prefixed", "User:a", "::1", "READ", "DENY")
    assert str(acl) == "DENY User:a READ on topic/t (prefixed) from ::1"
