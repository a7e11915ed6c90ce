"""The matrix of authorization: every API in every version, from clients with every kind of permissions.

The clients of an API follow from its requirements in `broker.routes`:

    super        a super user
    anonymous    no authentication, and no access control entries
    nobody       no entries
    allow        every requirement, on literal names
    prefixed     every requirement, on prefixed names
    cluster      only the operations on the cluster that are enough instead
    deny N       as allow, and requirement N is denied
    without N    as allow, without requirement N

`requests.py` has the requests. The outcome of a cell is what a response says of authorization: error codes, names, ids,
and authorized operations. `tests/golden/authorization.json` has those of Apache Kafka (`record.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from broker.authorization.requirement import Requirement
from broker.routes import ROUTES
from controller.acls.acl import CLUSTER_NAME, Acl, AclOperation, AclPermissionType, AclResourceType, PatternType
from protocol.api import APIS, ApiKey
from protocol.fields import fields_of
from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Struct
from tests.authorization.requests import (
    ALLOWED,
    EXISTING,
    GROUP,
    HOLDER,
    OTHER_HOLDER,
    PREFIX,
    PREFIXES,
    REQUESTS,
    Target,
    build,
    token_owner,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "authorization.json"

SUPER, ANONYMOUS, CLUSTER = "super", "anonymous", "cluster"
ADMIN = "User:admin"
"""The super user."""
CLOSED = "closed"

_NAMES = {
    "name", "topic", "topic_name", "group_id", "key", "transactional_id", "resource_name", "resource_type", "topic_id",
    "principal_name",
}  # fmt: skip
_ALLOW, _DENY = AclPermissionType.ALLOW, AclPermissionType.DENY

Send = Callable[[str, str, ApiKey, int, Message], Any]
"""Sends a request of a principal to a type of listener, and returns the response, or `CLOSED`."""

Outcomes = dict[str, dict[str, dict[str, str]]]
"""By API and listener, client, and range of versions."""


class Client(NamedTuple):
    """A client with its entries; its principal is not used for another API."""

    name: str
    principal: str
    acls: tuple[Acl, ...] = ()


def apis() -> Iterator[tuple[ApiKey, str]]:
    """Yield each API of the matrix with each type of its listeners."""
    for key in ROUTES:
        if key in REQUESTS:
            for listener_type in sorted(APIS[key].listeners):
                yield key, listener_type


def clients(key: ApiKey, listener_type: str) -> Iterator[Client]:
    """Yield the clients of an API."""
    requirements = ROUTES[key].requirements(listener_type)
    prefix = f"User:{key}-{listener_type}"

    def client(name: str, acls: Iterable[Acl]) -> Client:
        principal = f"{prefix}-{name.replace(' ', '-')}"
        return Client(name, principal, tuple(acl._replace(principal=principal) for acl in acls))

    yield Client(SUPER, ADMIN)
    yield Client(ANONYMOUS, "User:ANONYMOUS")
    yield client("nobody", ())
    if not requirements:
        return
    granted = [list(_entries(requirement, _ALLOW)) for requirement in requirements]
    allowed = [acl for acls in granted for acl in acls]
    yield client("allow", allowed)
    yield client("prefixed", (acl for each in requirements for acl in _entries(each, _ALLOW, prefixed=True)))
    if instead := [each.or_on_cluster for each in requirements if each.or_on_cluster is not None]:
        yield client(
            "cluster", (_entry(AclResourceType.CLUSTER, CLUSTER_NAME, operation, _ALLOW) for operation in instead)
        )
    for number, requirement in enumerate(requirements, 1):
        yield client(f"deny {number}", [*allowed, *_entries(requirement, _DENY)])
        if len(requirements) > 1:
            yield client(f"without {number}", (acl for acl in allowed if acl not in granted[number - 1]))


def _entries(requirement: Requirement, permission: AclPermissionType, *, prefixed: bool = False) -> Iterator[Acl]:
    kind = requirement.resource_type
    if kind is AclResourceType.CLUSTER:
        yield _entry(kind, CLUSTER_NAME, requirement.operation, permission)
    elif prefixed:
        yield _entry(kind, PREFIXES.get(kind.name, PREFIX), requirement.operation, permission, PatternType.PREFIXED)
    else:
        for name in ALLOWED[kind.name]:
            yield _entry(kind, name, requirement.operation, permission)


def _entry(
    kind: AclResourceType,
    name: str,
    operation: AclOperation,
    permission: AclPermissionType,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(kind, name, pattern, "", "*", operation, permission)


def prepare(send: Send, acls: Iterable[Acl]) -> dict[str, bytes]:
    """Create topics, entries and tokens, wait until the coordinators serve, and return the ids of the topics."""

    def as_admin(key: ApiKey, version: int, /, **fields: Any) -> Any:
        return send(ADMIN, "broker", key, version, build(key, fields))

    new = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        for name in EXISTING
    ]
    created = as_admin(ApiKey.CREATE_TOPICS, 7, topics=new, timeout_ms=30_000)
    assert not any(topic.error_code for topic in created.topics)
    creations = [
        {
            "resource_type": acl.resource_type,
            "resource_name": acl.resource_name,
            "resource_pattern_type": acl.pattern_type,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission_type,
        }
        for acl in acls
    ]
    assert not any(result.error_code for result in as_admin(ApiKey.CREATE_ACLS, 3, creations=creations).results)
    for owner in (HOLDER, OTHER_HOLDER):
        assert not as_admin(ApiKey.CREATE_DELEGATION_TOKEN, 3, max_lifetime_ms=1, **token_owner(owner)).error_code
    until: tuple[Callable[[], bool], ...] = (
        lambda: not as_admin(ApiKey.FIND_COORDINATOR, 3, key=GROUP, key_type=0).error_code,
        lambda: not as_admin(ApiKey.FIND_COORDINATOR, 3, key=GROUP, key_type=1).error_code,
        lambda: not as_admin(ApiKey.LIST_GROUPS, 4, states_filter=[]).error_code,
        lambda: not as_admin(ApiKey.LIST_TRANSACTIONS, 0, state_filters=[], producer_id_filters=[]).error_code,
        lambda: (
            not any(
                topic.error_code or topic.partitions[0].error_code
                for topic in as_admin(ApiKey.METADATA, 9, topics=[{"name": name} for name in EXISTING]).topics
            )
        ),
        lambda: (
            not as_admin(ApiKey.INIT_PRODUCER_ID, 4, transactional_id="warm", transaction_timeout_ms=5000).error_code
        ),
    )
    for condition in until:
        while not condition():
            pass
    return {topic.name: topic.topic_id for topic in created.topics}


def run(send: Send, ids: Mapping[str, bytes], of: Iterable[tuple[ApiKey, str]] | None = None) -> Outcomes:
    """Send every request as every client; return the outcomes."""
    outcomes: Outcomes = {}
    for key, listener_type in apis() if of is None else of:
        by_client = outcomes[f"{key.name} {listener_type}"] = {}
        for client in clients(key, listener_type):
            target = Target(ids, listener_type, client.name in (SUPER, CLUSTER))
            cells = {}
            for version in APIS[key].versions:
                request = build(key, REQUESTS[key](version, target))
                response = send(client.principal, listener_type, key, version, request)
                cells[version] = response if response == CLOSED else outcome_of(response)
            by_client[client.name] = _by_range(cells)
    return outcomes


def outcome_of(response: Message) -> str:
    """Return what a response says of authorization, as text."""
    return _text(_reduced(response))


def _text(found: Mapping[str, Any]) -> str:
    return json.dumps(found, sort_keys=True)


def _reduced(struct: Struct) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if field.name == "configs":
            if value:
                found[field.name] = "some"
        elif field.is_list and field.struct is not None:
            rows = sorted((row for one in value or () if (row := _reduced(one))), key=_text)
            if rows:
                found[field.name] = rows
        elif field.name.endswith(("error_code", "authorized_operations")) and value not in (0, -(1 << 31)):
            found[field.name] = value
        elif field.name == "topic_id":
            if value != ZERO_UUID:
                found[field.name] = "an id"
        elif field.name in _NAMES and value not in ("", None):
            found[field.name] = value
    return found


def _by_range(cells: Mapping[int, str]) -> dict[str, str]:
    """Return the outcomes by ranges of versions with the same one, such as 0-3."""
    ranges: list[tuple[int, int, str]] = []
    for version, outcome in cells.items():
        if ranges and ranges[-1][2] == outcome:
            ranges[-1] = (ranges[-1][0], version, outcome)
        else:
            ranges.append((version, version, outcome))
    return {f"{first}-{last}": outcome for first, last, outcome in ranges}
