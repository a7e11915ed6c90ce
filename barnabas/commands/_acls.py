"""Access control entries (ACLs): the options that name them, and the requests (KIP-11, KIP-140, KIP-290).

The options have the meaning that they have for `kafka-acls.sh`. The requests are made here and sent by kafka-python,
whose own methods lack the operation TWO_PHASE_COMMIT.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas._arguments import did_you_mean
from barnabas.commands._client import send
from barnabas.commands._output import CommandError, WrongCall, explain_code

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

ANY = 1
"""In a filter: any resource type, pattern type, operation or permission."""

TYPES = {"topic": 2, "group": 3, "cluster": 4, "transactional-id": 5, "delegation-token": 6, "user": 7}
PATTERNS = {"any": ANY, "match": 2, "literal": 3, "prefixed": 4}
OPERATIONS = {
    "ALL": 2,
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
    "CREATE_TOKENS": 13,
    "DESCRIBE_TOKENS": 14,
    "TWO_PHASE_COMMIT": 15,
}
PERMISSIONS = {"DENY": 2, "ALLOW": 3}
_SUPPORTED = {
    "topic": "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    "group": "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    "cluster": "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALL",
    "transactional-id": "WRITE DESCRIBE TWO_PHASE_COMMIT ALL",
    "delegation-token": "DESCRIBE ALL",
    "user": "CREATE_TOKENS DESCRIBE_TOKENS ALL",
}
"""The operations that have a meaning for a type of resource (Kafka: `AclEntry.supportedOperations`)."""

CLUSTER_NAME = "kafka-cluster"
ANY_HOST = "*"
USER_TYPE = "User"  # of all principals, which clients get from SASL and TLS
COLUMNS = ("resource", "pattern", "principal", "host", "operation", "permission")

_SECURITY_DISABLED = 54
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class AclBinding(NamedTuple):
    """An entry, or with None or the pattern "any" or "match" a filter (Kafka: `AclBinding`, `AclBindingFilter`)."""

    type: str | None
    name: str | None
    pattern: str
    principal: str | None
    host: str | None
    operation: str | None
    permission: str | None

    @property
    def row(self) -> dict[str, Any]:
        """Return the entry for a table or JSON."""
        others = {name: getattr(self, name) for name in COLUMNS[1:]}
        return {"resource": f"{self.type}/{self.name}", **others}

    def __str__(self) -> str:
        """Return the entry in one line."""
        where = "" if self.pattern == "literal" else f" ({self.pattern})"
        host = "" if self.host == ANY_HOST else f" from {self.host}"
        return f"{self.permission} {self.principal} {self.operation} on {self.type}/{self.name}{where}{host}"


ANY_ACL = AclBinding(None, None, "any", None, None, None, None)


class Resource(NamedTuple):
    """A resource that the options name, and the operations on it that a shorthand such as `--producer` implies."""

    type: str
    name: str
    operations: tuple[str, ...] = ()


def add_resource_options(parser: argparse.ArgumentParser, patterns: Sequence[str]) -> None:
    """Declare the options that name resources."""
    group = parser.add_argument_group("resources")
    group.add_argument("--topic", action="append", default=[], metavar="NAME", help="a topic; * for all; repeatable")
    group.add_argument("--group", action="append", default=[], metavar="NAME", help="a consumer group")
    group.add_argument("--cluster", action="store_true", help="the cluster")
    group.add_argument("--transactional-id", action="append", default=[], metavar="ID", help="a transactional id")
    group.add_argument("--delegation-token", action="append", default=[], metavar="ID", help="a delegation token")
    group.add_argument(
        "--user-principal",
        type=principal,
        action="append",
        default=[],
        metavar="TYPE:NAME",
        help="a user, for whom tokens may be created or described",
    )
    group.add_argument(
        "--resource-pattern-type",
        "--pattern",
        dest="pattern",
        choices=patterns,
        default="literal",
        help="literal: the name itself; prefixed: names that begin with it"
        + ("; match: entries that cover it; any: all entries of that name" if "any" in patterns else ""),
    )


def add_entry_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options for principals, hosts and operations, and the shorthands."""
    group = parser.add_argument_group("entries")
    for what in ("allow", "deny"):
        group.add_argument(
            f"--{what}-principal",
            type=principal,
            action="append",
            default=[],
            metavar="TYPE:NAME",
            help="such as User:alice; User:* for everyone; repeatable",
        )
        group.add_argument(
            f"--{what}-host",
            action="append",
            default=[],
            metavar="ADDRESS",
            help=f"an address from which these are {'allowed' if what == 'allow' else 'denied'} (default: all)",
        )
    group.add_argument(
        "--operation",
        type=operation,
        action="append",
        default=[],
        metavar="OPERATION",
        help=f"{', '.join(OPERATIONS)} (default: ALL); repeatable",
    )
    group.add_argument(
        "--producer",
        action="store_true",
        help="WRITE, DESCRIBE and CREATE on --topic, WRITE and DESCRIBE on --transactional-id",
    )
    group.add_argument("--consumer", action="store_true", help="READ and DESCRIBE on --topic, READ on --group")
    group.add_argument("--idempotent", action="store_true", help="with --producer: IDEMPOTENT_WRITE on the cluster")


def principal(text: str) -> str:
    """Return the principal if it has a type; ArgumentTypeError otherwise."""
    kind, colon, name = text.partition(":")
    if not kind or not name:
        raise argparse.ArgumentTypeError(
            f"{text!r}: write TYPE:NAME, such as User:{kind if kind and not colon else 'alice'}"
        )
    return text


def operation(text: str) -> str:
    """Return the operation by its name in capitals: DescribeConfigs and describe-configs are DESCRIBE_CONFIGS."""
    by_letters = {name.replace("_", ""): name for name in OPERATIONS}
    found = by_letters.get(text.upper().replace("_", "").replace("-", ""))
    if found is None:
        raise argparse.ArgumentTypeError(f"unknown operation {text!r}{did_you_mean(text.upper(), OPERATIONS)}")
    return found


def resources(options: argparse.Namespace) -> list[Resource]:
    """Return the resources that the options name."""
    return list(_named(options))


def _named(options: argparse.Namespace) -> Iterator[Resource]:
    yield from (Resource("topic", name) for name in options.topic)
    yield from (Resource("group", name) for name in options.group)
    if options.cluster:
        yield Resource("cluster", CLUSTER_NAME)
    yield from (Resource("transactional-id", name) for name in options.transactional_id)
    yield from (Resource("delegation-token", name) for name in options.delegation_token)
    yield from (Resource("user", name) for name in options.user_principal)


def entries(options: argparse.Namespace) -> list[AclBinding]:
    """Return the entries that the options name, each once; WrongCall if they are incomplete or contradictory.

    Without principals there are none.
    """
    _check_principals(options)
    found = _by_shorthand(options) if options.producer or options.consumer else resources(options)
    if not found:
        raise WrongCall("name a resource: --topic, --group, --cluster, --transactional-id, ... (--help lists them)")
    acls = [
        AclBinding(resource.type, resource.name, _pattern(options, resource), who, host, what, permission)
        for resource in found
        for what in resource.operations or options.operation or ("ALL",)
        for who, host, permission in _permissions(options)
    ]
    for acl in acls:
        supported = _SUPPORTED[str(acl.type)].split()
        if acl.operation not in supported:
            raise WrongCall(f"{acl.operation} has no meaning for a {acl.type}: write one of {', '.join(supported)}")
    return list(dict.fromkeys(acls))


def why_without_effect(acl: AclBinding) -> str | None:
    """Return why an entry has no effect, or not the one that its user may mean; None otherwise.

    Brokers accept such entries, here and in Apache Kafka.
    """
    kind, _, name = str(acl.principal).partition(":")
    if kind != USER_TYPE:
        why = "the entry has no effect, because all clients have principals of the type User"
        return f"{acl.principal}: {why}; did you mean User:{name}?"
    where, prefix = str(acl.name), str(acl.name).removesuffix("*")
    if acl.type in ("cluster", "user", "delegation-token") or where in ("", "*"):
        return None
    meant = ""
    if prefix and prefix != where:
        meant = f"; for all names that begin with {prefix}, write --{acl.type} {prefix} --pattern prefixed"
    if acl.type == "topic" and not _TOPIC_NAME.fullmatch(where):
        such = "has this name" if acl.pattern == "literal" else "has a name that begins so"
        return f"topic/{where}: the entry has no effect, because no topic {such}{meant}"
    return f"{acl.type}/{where}: the * is a part of the name{meant}" if meant else None


def _pattern(options: argparse.Namespace, resource: Resource) -> str:
    """Return the type of pattern of a resource; there is one cluster, which is named in full."""
    return "literal" if resource.type == "cluster" else str(options.pattern)


def _permissions(options: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Return principal, host and permission of each entry for one operation on one resource."""
    for permission, principals, hosts in (
        ("ALLOW", options.allow_principal, options.allow_host),
        ("DENY", options.deny_principal, options.deny_host),
    ):
        for who in principals:
            for host in hosts or (ANY_HOST,):
                yield who, host, permission


def _check_principals(options: argparse.Namespace) -> None:
    for what in ("allow", "deny"):
        if getattr(options, f"{what}_host") and not getattr(options, f"{what}_principal"):
            raise WrongCall(f"--{what}-host without --{what}-principal")


def _by_shorthand(options: argparse.Namespace) -> list[Resource]:
    """Return the resources of `--producer` and `--consumer` with their operations."""
    if options.operation or options.deny_principal:
        raise WrongCall(
            "--producer and --consumer imply their operations, and allow them: leave out --operation and --deny-..."
        )
    if options.cluster or options.delegation_token or options.user_principal:
        raise WrongCall("--producer and --consumer are about topics, groups and transactional ids only")
    if not options.topic:
        raise WrongCall("--producer and --consumer need --topic")
    if options.consumer and not options.group:
        raise WrongCall("--consumer needs --group")
    if not options.consumer and options.group:
        raise WrongCall("--group is for --consumer")
    if not options.producer and (options.transactional_id or options.idempotent):
        raise WrongCall("--transactional-id and --idempotent are for --producer")
    found: list[Resource] = []
    if options.producer:
        found += (Resource("topic", name, ("WRITE", "DESCRIBE", "CREATE")) for name in options.topic)
        found += (Resource("transactional-id", name, ("WRITE", "DESCRIBE")) for name in options.transactional_id)
        if options.idempotent:
            found.append(Resource("cluster", CLUSTER_NAME, ("IDEMPOTENT_WRITE",)))
    if options.consumer:
        found += (Resource("topic", name, ("READ", "DESCRIBE")) for name in options.topic)
        found += (Resource("group", name, ("READ",)) for name in options.group)
    return found


def describe_acls(client: Admin, wanted: AclBinding) -> list[AclBinding]:
    """Return the entries that match a filter, sorted."""
    from kafka.protocol.admin import DescribeAclsRequest

    response = send(client, DescribeAclsRequest(**_filter_fields(wanted), min_version=_min_version([wanted])))
    _check(response.error_code, response.error_message)
    return sorted(_entry(resource, acl) for resource in response.resources for acl in resource.acls)


def create_acls(client: Admin, acls: Sequence[AclBinding]) -> list[str | None]:
    """Create entries; return an error for each that cannot be created. CommandError if there is no authorizer."""
    from kafka.protocol.admin import CreateAclsRequest

    creation = CreateAclsRequest.AclCreation
    creations = [
        creation(
            resource_type=TYPES[str(acl.type)],
            resource_name=acl.name,
            resource_pattern_type=PATTERNS[acl.pattern],
            principal=acl.principal,
            host=acl.host,
            operation=OPERATIONS[str(acl.operation)],
            permission_type=PERMISSIONS[str(acl.permission)],
        )
        for acl in acls
    ]
    results = send(client, CreateAclsRequest(creations=creations, min_version=_min_version(acls))).results
    return [_problem(result) for result in results]


def delete_acls(client: Admin, filters: Sequence[AclBinding]) -> list[list[AclBinding] | str]:
    """Delete the entries that match each filter; return them for each, or its error.

    CommandError if there is no authorizer.
    """
    from kafka.protocol.admin import DeleteAclsRequest

    wanted = [DeleteAclsRequest.DeleteAclsFilter(**_filter_fields(one)) for one in filters]
    results = send(client, DeleteAclsRequest(filters=wanted, min_version=_min_version(filters))).filter_results
    return [
        _problem(result) or sorted(_entry(acl, acl) for acl in result.matching_acls if not acl.error_code)
        for result in results
    ]


def _filter_fields(wanted: AclBinding) -> dict[str, Any]:
    return {
        "resource_type_filter": TYPES.get(str(wanted.type), ANY),
        "resource_name_filter": wanted.name,
        "pattern_type_filter": PATTERNS[wanted.pattern],
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": OPERATIONS.get(str(wanted.operation), ANY),
        "permission_type": PERMISSIONS.get(str(wanted.permission), ANY),
    }


def _min_version(acls: Sequence[AclBinding]) -> int:
    """Return the version that has what these entries need: 1 the patterns, 3 users."""
    return 3 if any(acl.type == "user" for acl in acls) else 1


def _entry(resource: Any, acl: Any) -> AclBinding:
    """Return an entry of a response; numbers of newer versions of Kafka stay numbers."""
    return AclBinding(
        _name_of(TYPES, resource.resource_type),
        resource.resource_name,
        _name_of(PATTERNS, resource.pattern_type),
        acl.principal,
        acl.host,
        _name_of(OPERATIONS, acl.operation),
        _name_of(PERMISSIONS, acl.permission_type),
    )


def _name_of(names: Mapping[str, int], number: int) -> str:
    return next((name for name, each in names.items() if each == number), str(number))


def _problem(result: Any) -> str | None:
    """Return the error of a result, if any; CommandError if it is of the whole cluster."""
    if result.error_code == _SECURITY_DISABLED:
        _check(result.error_code, result.error_message)
    return explain_code(result.error_code, result.error_message) if result.error_code else None


def _check(code: int, message: str | None) -> None:
    if code == _SECURITY_DISABLED:
        raise CommandError(
            "the cluster has no authorizer, so every client can do everything; set authorizer.class.name on all nodes "
            "(docs/SECURITY.md)"
        )
    if code:
        raise CommandError(explain_code(code, message))
