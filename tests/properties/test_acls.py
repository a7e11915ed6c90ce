"""Authorization compared with brute force over a list of entries, added and removed in any order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.acls.acl import Acl
from controller.acls.acl_filter import AclFilter
from controller.acls.acls_image import AclsImage
from controller.acls.authorizer import StandardAuthorizer

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 10, 11
DENY, ALLOW = 2, 3

NAMES = ("*", "a", "aa", "ab", "abc", "b", "hardcode", "ha")
PRINCIPALS = ("User:x", "User:y", "User:*", "Other:x")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
OPERATIONS = (ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
TYPES = (2, 3)

ACLS = st.builds(
    Acl,
    resource_type=st.sampled_from(TYPES),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from((LITERAL, PREFIXED)),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(HOSTS),
    operation=st.sampled_from(OPERATIONS),
    permission_type=st.sampled_from((DENY, ALLOW)),
)
FILTERS = st.builds(
    AclFilter,
    resource_type=st.sampled_from((ANY, *TYPES)),
    resource_name=st.none() | st.sampled_from(NAMES),
    pattern_type=st.sampled_from((ANY, MATCH, LITERAL, PREFIXED)),
    principal=st.none() | st.sampled_from(PRINCIPALS),
    host=st.none() | st.sampled_from(HOSTS),
    operation=st.sampled_from((ANY, *OPERATIONS)),
    permission_type=st.sampled_from((ANY, DENY, ALLOW)),
)
# Each step adds an entry, or removes one of those there are.
STEPS = st.lists(st.tuples(st.booleans(), ACLS, st.integers(0, 1 << 16)), max_size=25)


def covers(acl: Acl, name: str) -> bool:
    if acl.pattern_type == PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in ("*", name)


def is_of(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, "User:*") and acl.host in (host, "*")


def expected(acls: list[Acl], principal: str, host: str, operation: int, kind: int, name: str, default: bool) -> bool:
    found = [acl for acl in acls if acl.resource_type == kind and covers(acl, name)]
    if not found:
        return default
    allowed = False
    for acl in found:
        if not is_of(acl, principal, host):
            continue
        same = acl.operation in (ALL, operation)
        if acl.permission_type == DENY and same:
            return False
        implied = (operation == DESCRIBE and acl.operation in (READ, WRITE, DELETE, ALTER)) or (
            operation == DESCRIBE_CONFIGS and acl.operation == ALTER_CONFIGS
        )
        allowed = allowed or (acl.permission_type == ALLOW and (same or implied))
    return allowed


def expected_anywhere(acls: list[Acl], principal: str, host: str, operation: int, kind: int, default: bool) -> bool:
    if expected(acls, principal, host, operation, kind, "hardcode", default):
        return True
    mine = [
        acl
        for acl in acls
        if acl.resource_type == kind and is_of(acl, principal, host) and acl.operation in (ALL, operation)
    ]
    denied = [acl for acl in mine if acl.permission_type == DENY]
    if any((acl.resource_name, acl.pattern_type) == ("*", LITERAL) for acl in denied):
        return False
    for acl in mine:
        if acl.permission_type == DENY:
            continue
        if (acl.resource_name, acl.pattern_type) == ("*", LITERAL):
            return True
        dominated = any(
            acl.resource_name.startswith(other.resource_name)
            if other.pattern_type == PREFIXED
            else acl.pattern_type == LITERAL and acl.resource_name == other.resource_name
            for other in denied
        )
        if not dominated:
            return True
    return False


@given(
    STEPS,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS[1:]),
    st.sampled_from(OPERATIONS[1:]),
    st.sampled_from(NAMES),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_decisions_equal_those_of_brute_force_after_every_change(
    steps: list[tuple[bool, Acl, int]], principal: str, host: str, operation: int, name: str, default: bool
) -> None:
    authorizer = StandardAuthorizer((), allow_if_no_acl=default)
    image = AclsImage()
    acls: dict[bytes, Acl] = {}
    for number, (adds, acl, choice) in enumerate(steps):
        builder = image.change()
        if adds and acl not in acls.values():
            acls[number.to_bytes(16, "big")] = acl
            builder.add(number.to_bytes(16, "big"), acl)
        elif acls:
            removed = sorted(acls)[choice % len(acls)]
            del acls[removed]
            builder.remove(removed)
        before = dict(image.by_id)
        changed = builder.build()
        assert image.by_id == before
        image = changed
        authorizer.load(image)
        present = list(acls.values())
        for kind in TYPES:
            decided = authorizer.authorize(principal, host, operation, kind, name)
            assert decided == expected(present, principal, host, operation, kind, name, default)
            assert decided == authorizer.authorize(principal, host, operation, kind, name)
            anywhere = authorizer.authorize_by_resource_type(principal, host, operation, kind)
            assert anywhere == expected_anywhere(present, principal, host, operation, kind, default)


@given(STEPS, FILTERS)
@settings(max_examples=300, deadline=None)
def test_filters_find_what_matches_and_nothing_else(steps: list[tuple[bool, Acl, int]], wanted: AclFilter) -> None:
    acls = list(dict.fromkeys(acl for _, acl, _ in steps))
    builder = AclsImage().change()
    for number, acl in enumerate(acls):
        builder.add(number.to_bytes(16, "big"), acl)

    def matches(acl: Acl) -> bool:
        names = (acl.resource_name == wanted.resource_name) or (
            wanted.pattern_type == MATCH and wanted.resource_name is not None and covers(acl, wanted.resource_name)
        )
        return (
            wanted.resource_type in (ANY, acl.resource_type)
            and wanted.pattern_type in (ANY, MATCH, acl.pattern_type)
            and (wanted.resource_name is None or names)
            and wanted.principal in (None, acl.principal)
            and wanted.host in (None, acl.host)
            and wanted.operation in (ANY, acl.operation)
            and wanted.permission_type in (ANY, acl.permission_type)
        )

    found = builder.build().matching(wanted)
    assert sorted(acl for _, acl in found) == sorted(filter(matches, acls))
