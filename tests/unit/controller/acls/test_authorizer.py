"""Which operations access control entries allow (Kafka: `StandardAuthorizer`)."""

from __future__ import annotations

import pytest

from controller.acls.acl import SUPPORTED_OPERATIONS, AclOperation, AclResourceType
from controller.acls.acls_image import AclsImage
from controller.acls.authorizer import (
    _MAX_DECISIONS,
    StandardAuthorizer,
    SuperUsersError,
    parse_super_users,
)
from tests.unit.controller.acls.entries import acl, acl_id, authorizer_of, image_of, is_allowed


def allows(*lines: str, to: str = "READ", on: str = "TOPIC:orders", **client: str) -> bool:
    """Return whether the entries allow User:a (at 10.0.0.1) an operation on a resource."""
    return is_allowed(authorizer_of(*lines), to, on, **client)


def test_nothing_is_allowed_without_an_entry() -> None:
    assert not allows()
    assert not allows("allow User:a READ TOPIC:other")
    assert not allows("allow User:a READ GROUP:orders")
    assert not allows("allow User:b READ TOPIC:orders")
    assert not allows("allow User:a WRITE TOPIC:orders")


@pytest.mark.parametrize(
    "line",
    [
        "allow User:a READ TOPIC:orders",
        "allow User:* READ TOPIC:orders",
        "allow User:a ALL TOPIC:orders",
        "allow User:a READ TOPIC:*",
        "allow User:a READ TOPIC:ord*",
        "allow User:a READ TOPIC:orders*",
        "allow User:a READ TOPIC:orders from 10.0.0.1",
    ],
)
def test_an_entry_allows_its_principal_host_operation_and_pattern(line: str) -> None:
    assert allows(line)
    assert not allows(line, to="CREATE") or "ALL" in line
    assert not allows(line, principal="Group:b") or "User:*" in line
    assert not allows(line, host="10.0.0.2") or "from" not in line


def test_the_wildcard_principal_is_any_principal_of_any_type() -> None:
    assert allows("allow User:* READ TOPIC:orders", principal="Service:x")
    assert not allows("allow Service:* READ TOPIC:orders", principal="Service:x")


def test_a_prefix_covers_its_own_name_and_no_shorter_one() -> None:
    assert allows("allow User:a READ TOPIC:orders*", on="TOPIC:orders-eu")
    assert not allows("allow User:a READ TOPIC:orders*", on="TOPIC:order")
    assert not allows("allow User:a READ TOPIC:orders", on="TOPIC:orders-eu")


@pytest.mark.parametrize(
    "deny",
    [
        "deny User:a READ TOPIC:orders",
        "deny User:* READ TOPIC:orders",
        "deny User:a ALL TOPIC:orders",
        "deny User:a READ TOPIC:*",
        "deny User:a READ TOPIC:o*",
        "deny User:a READ TOPIC:orders from 10.0.0.1",
    ],
)
def test_one_entry_that_denies_wins_over_all_that_allow(deny: str) -> None:
    allow = ["allow User:a ALL TOPIC:orders", "allow User:* READ TOPIC:*", "allow User:a READ TOPIC:orders*"]
    assert allows(*allow)
    for at in range(len(allow) + 1):
        assert not allows(*allow[:at], deny, *allow[at:])


def test_operations_that_imply_describe_do_so_only_if_they_are_allowed() -> None:
    for operation in ("READ", "WRITE", "DELETE", "ALTER"):
        assert allows(f"allow User:a {operation} TOPIC:orders", to="DESCRIBE")
        assert allows(f"deny User:a {operation} TOPIC:orders", "allow User:a DESCRIBE TOPIC:orders", to="DESCRIBE")
    assert allows("allow User:a ALTER_CONFIGS TOPIC:orders", to="DESCRIBE_CONFIGS")
    assert allows(
        "deny User:a ALTER_CONFIGS TOPIC:orders", "allow User:a DESCRIBE_CONFIGS TOPIC:orders", to="DESCRIBE_CONFIGS"
    )
    assert not allows("allow User:a CREATE TOPIC:orders", to="DESCRIBE")
    assert not allows("allow User:a READ TOPIC:orders", to="DESCRIBE_CONFIGS")
    assert not allows("allow User:a DESCRIBE TOPIC:orders", to="READ")


def test_super_users_may_do_everything() -> None:
    authorizer = authorizer_of("deny User:* ALL TOPIC:*", super_users="User:root User:a")
    assert is_allowed(authorizer, "READ", "TOPIC:orders")
    assert not is_allowed(authorizer, "READ", "TOPIC:orders", principal="User:A")
    assert authorizer.authorize_by_resource_type("User:root", "::1", AclOperation.WRITE, AclResourceType.TOPIC)


def test_without_an_entry_for_a_resource_everyone_is_allowed_if_so_configured() -> None:
    authorizer = authorizer_of("allow User:b READ TOPIC:orders", allow_if_no_acl=True)
    assert is_allowed(authorizer, "READ", "TOPIC:other")
    assert not is_allowed(authorizer, "READ", "TOPIC:orders")
    covered = authorizer_of("allow User:b READ TOPIC:ord*", allow_if_no_acl=True)
    assert not is_allowed(covered, "READ", "TOPIC:orders")
    everything = authorizer_of("allow User:b READ TOPIC:*", allow_if_no_acl=True)
    assert not is_allowed(everything, "READ", "TOPIC:other")
    assert is_allowed(everything, "READ", "GROUP:other")


@pytest.mark.parametrize(
    ("entry", "client"),
    [
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:DB8::5", "2001:db8::5"),
    ],
)
def test_hosts_are_compared_as_addresses(entry: str, client: str) -> None:
    assert allows(f"allow User:a READ TOPIC:orders from {entry}", host=client)
    assert not allows("allow User:a READ TOPIC:orders", f"deny User:a READ TOPIC:orders from {entry}", host=client)


def test_a_host_that_is_no_address_matches_no_client() -> None:
    assert not allows("allow User:a READ TOPIC:orders from example.com", host="10.0.0.1")


# CVE-2024-27309: after the removal of one entry, a resource with several others was treated as if it had one.
@pytest.mark.parametrize("removed", range(4))
def test_cve_2024_27309_removing_an_entry_leaves_the_effect_of_the_others(removed: int) -> None:
    lines = [
        "allow User:a READ TOPIC:orders",
        "deny User:a READ TOPIC:orders from 10.0.0.1",
        "allow User:a ALL TOPIC:orders",
        "deny User:b ALL TOPIC:orders",
    ]
    builder = image_of(*lines).change()
    builder.remove(acl_id(removed))
    authorizer = authorizer_of()
    authorizer.load(builder.build())
    assert is_allowed(authorizer, "READ", "TOPIC:orders") == (removed == 1)
    assert is_allowed(authorizer, "READ", "TOPIC:orders", host="10.0.0.2")
    assert is_allowed(authorizer, "WRITE", "TOPIC:orders") == (removed != 2)
    assert not is_allowed(authorizer, "READ", "TOPIC:orders", principal="User:b")


def test_a_decision_is_made_again_when_the_entries_change() -> None:
    authorizer = authorizer_of()
    table = authorizer.decisions("User:a", "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC)
    assert not table["orders"]
    authorizer.load(image_of("allow User:a READ TOPIC:orders"))
    assert is_allowed(authorizer, "READ", "TOPIC:orders")
    assert authorizer.authorize_by_resource_type("User:a", "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC)
    authorizer.load(AclsImage())
    assert not is_allowed(authorizer, "READ", "TOPIC:orders")
    assert not authorizer.authorize_by_resource_type("User:a", "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC)


@pytest.mark.parametrize("changed", ["User:a", "User:*"])
@pytest.mark.parametrize("line", ["allow {} READ TOPIC:orders", "deny {} READ TOPIC:orders"])
def test_a_decision_is_made_again_when_the_entries_of_the_client_or_of_everyone_change(changed: str, line: str) -> None:
    others = [] if line.startswith("allow") else ["allow User:a READ TOPIC:orders", "allow User:* READ TOPIC:orders"]
    image = image_of(*others)
    authorizer = authorizer_of()
    authorizer.load(image)
    for _ in range(2):
        before = is_allowed(authorizer, "READ", "TOPIC:orders")
        builder = image.change()
        builder.add(acl_id(100), acl(line.format(changed)))
        authorizer.load(builder.build())
        assert is_allowed(authorizer, "READ", "TOPIC:orders") is not before
        authorizer.load(image)
        assert is_allowed(authorizer, "READ", "TOPIC:orders") is before


def test_decisions_about_other_clients_are_kept_when_entries_change() -> None:
    authorizer = authorizer_of("allow User:a READ TOPIC:orders")
    key = ("User:a", "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC)
    table = authorizer.decisions(*key)
    assert table["orders"]
    assert not table["payments"]
    builder = authorizer.acls.change()
    builder.add(acl_id(100), acl("allow User:b READ TOPIC:payments"))
    authorizer.load(builder.build())
    assert authorizer.decisions(*key) is table
    assert dict(table) == {"orders": True, "payments": False}


def test_with_a_default_of_allow_no_decision_outlives_a_change() -> None:
    authorizer = StandardAuthorizer((), allow_if_no_acl=True)
    authorizer.load(image_of("allow User:a READ TOPIC:orders"))
    assert is_allowed(authorizer, "READ", "TOPIC:payments")
    builder = authorizer.acls.change()
    builder.add(acl_id(100), acl("allow User:b READ TOPIC:payments"))
    authorizer.load(builder.build())
    assert not is_allowed(authorizer, "READ", "TOPIC:payments")


def test_a_client_cannot_fill_the_memory_with_decisions() -> None:
    authorizer = authorizer_of("allow User:a READ TOPIC:orders")
    table = authorizer.decisions("User:a", "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC)
    for number in range(_MAX_DECISIONS + 10):
        assert not table[str(number)]
    assert len(table) <= _MAX_DECISIONS
    assert not table["x" * 300]
    assert "x" * 300 not in table
    for number in range(5000):
        authorizer.decisions(f"User:{number}", "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC)
        authorizer.authorize_by_resource_type(f"User:{number}", "h", AclOperation.READ, AclResourceType.TOPIC)
    assert len(authorizer._tables) < 5000
    assert len(authorizer._any) < 5000


def may_write_anywhere(*lines: str, **client: str) -> bool:
    """Return whether User:a may write to some topic."""
    authorizer = authorizer_of(*lines)
    principal, host = client.get("principal", "User:a"), client.get("host", "10.0.0.1")
    return authorizer.authorize_by_resource_type(principal, host, AclOperation.WRITE, AclResourceType.TOPIC)


@pytest.mark.parametrize(
    "line",
    [
        "allow User:a WRITE TOPIC:orders",
        "allow User:* ALL TOPIC:orders",
        "allow User:a WRITE TOPIC:ord*",
        "allow User:a WRITE TOPIC:*",
        "allow User:a WRITE TOPIC:orders from 10.0.0.1",
    ],
)
def test_one_topic_with_write_is_enough_for_idempotent_producers(line: str) -> None:
    assert may_write_anywhere(line)
    assert not may_write_anywhere(line.replace("allow", "deny"))
    assert not may_write_anywhere(line.replace("WRITE", "READ").replace("ALL", "READ"))
    assert not may_write_anywhere(line.replace("TOPIC", "GROUP"))


def test_what_is_denied_for_all_names_of_a_pattern_is_not_allowed_by_it() -> None:
    assert not may_write_anywhere("allow User:a WRITE TOPIC:orders", "deny User:a WRITE TOPIC:orders")
    assert not may_write_anywhere("allow User:a WRITE TOPIC:orders", "deny User:a WRITE TOPIC:ord*")
    assert not may_write_anywhere("allow User:a WRITE TOPIC:orders*", "deny User:a WRITE TOPIC:ord*")
    assert not may_write_anywhere("allow User:a WRITE TOPIC:orders", "deny User:a WRITE TOPIC:*")
    assert may_write_anywhere("allow User:a WRITE TOPIC:orders*", "deny User:a WRITE TOPIC:orders")
    assert may_write_anywhere("allow User:a WRITE TOPIC:orders*", "deny User:a WRITE TOPIC:orders-eu*")
    assert may_write_anywhere("allow User:a WRITE TOPIC:*", "deny User:a WRITE TOPIC:ord*")


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_super_users("") == frozenset()
    assert parse_super_users(" User:a;User:CN=b,O=c ; ") == {"User:a", "User:CN=b,O=c"}


@pytest.mark.parametrize("text", ["alice", "User:a;bob", ":x", "User:"])
def test_a_super_user_without_type_or_name_is_refused(text: str) -> None:
    with pytest.raises(SuperUsersError, match="is not a principal: write it as type:name"):
        parse_super_users(text)


def test_ten_partitions_among_ten_thousand_entries_are_looked_up_ten_times() -> None:
    lines = [f"allow User:u{number % 100} WRITE TOPIC:t{number}" for number in range(5000)]
    lines += [f"allow User:u{number} WRITE TOPIC:p{number % 50}-{number}*" for number in range(5000)]
    authorizer = authorizer_of(*lines)
    table = authorizer.decisions("User:u7", "10.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC)
    assert [table[f"t{number}"] for number in range(7, 1007, 100)] == [True] * 10
    assert len(authorizer.acls) == 10_000
    assert is_allowed(authorizer, "WRITE", "TOPIC:p7-7-x", principal="User:u7")
    assert not is_allowed(authorizer, "WRITE", "TOPIC:p7-8-x", principal="User:u7")


def test_each_concrete_resource_type_has_operations() -> None:
    assert set(SUPPORTED_OPERATIONS) == set(AclResourceType) - {AclResourceType.UNKNOWN, AclResourceType.ANY}
    assert StandardAuthorizer((), allow_if_no_acl=False).is_super_user("User:a") is False
    assert acl("deny User:a ALL TOPIC:a*").resource_name == "a"


@pytest.mark.parametrize("allowed", ["TOPIC:a*", "TOPIC:orders", "TOPIC:*"])
def test_an_entry_that_denies_all_names_leaves_nothing_to_write_to(allowed: str) -> None:
    assert may_write_anywhere(f"allow User:a WRITE {allowed}")
    assert not may_write_anywhere(f"allow User:a WRITE {allowed}", "deny User:a WRITE TOPIC:*")
    assert not may_write_anywhere(f"allow User:a WRITE {allowed}", "deny User:* WRITE TOPIC:*")
