from __future__ import annotations

from barnabas.commands._quotas import Entity, entities_of_client, value_text


def test_entities_of_a_client_are_in_the_order_of_the_broker() -> None:
    assert [str(of) for of in entities_of_client("ann", "app")] == [
        "user ann, client-id app",
        "user ann, any client-id",
        "user ann",
        "any user, client-id app",
        "any user, any client-id",
        "any user",
        "client-id app",
        "any client-id",
    ]
    assert [str(of) for of in entities_of_client(None, "app")] == [
        "any user, client-id app",
        "any user, any client-id",
        "any user",
        "client-id app",
        "any client-id",
    ]


def test_a_default_is_null_in_json() -> None:
    assert Entity((("user", "ann"), ("client-id", None))).row == {"entity": {"user": "ann", "client-id": None}}


def test_values_are_written_as_users_write_them() -> None:
    assert [value_text(value) for value in (1024.0, 12.5, 2.0**63, 1e300)] == ["1024", "12.5", str(2**63), "1e+300"]
