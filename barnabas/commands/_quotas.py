"""Client quotas: the options that name users, client ids and addresses, and the requests (KIP-13, KIP-546).

The options have the meaning that they have for `kafka-configs.sh`. The requests are made here and sent by kafka-python,
which has no methods for them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from barnabas._arguments import did_you_mean
from barnabas.commands._client import MAX_INT32, MAX_INT64, send
from barnabas.commands._output import CommandError, WrongCall, explain_code

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

USER, CLIENT_ID, IP = "user", "client-id", "ip"

CLIENT_QUOTAS = {
    "producer_byte_rate": "bytes per second that a broker receives in Produce requests",
    "consumer_byte_rate": "bytes per second that a broker sends in Fetch responses",
    "request_percentage": "percentage of a broker's time that requests take",
    "controller_mutation_rate": "partitions per second that are created and deleted",
}
ADDRESS_QUOTAS = {"connection_creation_rate": "connections per second that a broker accepts"}
QUOTAS = CLIENT_QUOTAS | ADDRESS_QUOTAS

_LARGEST = {"producer_byte_rate": MAX_INT64, "consumer_byte_rate": MAX_INT64, "connection_creation_rate": MAX_INT32}
_MOST_WRITTEN_OUT = 1e21
_EXACT, _DEFAULT, _ANY = 0, 1, 2

Values: TypeAlias = dict[str, float]
"""The values of quotas by name."""


class Entity(NamedTuple):
    """What has quotas: pairs of a type and a name, in the order of `_TYPES`; the name None is the default's."""

    parts: tuple[tuple[str, str | None], ...]

    @property
    def row(self) -> dict[str, Any]:
        """Return the entity for JSON, with null for a default."""
        return {"entity": dict(self.parts)}

    def __str__(self) -> str:
        """Return the entity in one line."""
        return ", ".join(f"any {kind}" if name is None else f"{kind} {name}" for kind, name in self.parts)


_TYPES = (USER, CLIENT_ID, IP)


def add_entity_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that name an entity."""
    group = parser.add_argument_group("entity")
    for options, kind, metavar, about in (
        (("--user",), USER, "NAME", "a user: the name of a principal without User:"),
        (("--client-id", "--client"), CLIENT_ID, "ID", "a client id; with --user, that client of the user"),
        (("--ip",), IP, "ADDRESS", "an address from which clients connect"),
    ):
        dest = kind.replace("-", "_")
        first = options[0].removeprefix("--")
        group.add_argument(*options, dest=dest, metavar=metavar, help=about)
        group.add_argument(
            f"--{first}-defaults",
            *(f"{option}-defaults" for option in options[1:]),
            dest=f"{dest}_defaults",
            action="store_true",
            help=f"every {first.replace('-', ' ')} without a quota of its own",
        )


def entity(options: argparse.Namespace) -> Entity:
    """Return the entity that the options name; WrongCall without one, or for a combination that Kafka has not."""
    found = named(options)
    if not found.parts:
        raise WrongCall("name an entity: --user, --client-id, --ip, or the defaults of one (--help lists them)")
    return found


def named(options: argparse.Namespace) -> Entity:
    """Return the entity that the options name, without parts if there is none; WrongCall for an impossible one."""
    parts = []
    for kind in _TYPES:
        dest = kind.replace("-", "_")
        name, is_default = getattr(options, dest), getattr(options, f"{dest}_defaults")
        if name is not None and is_default:
            raise WrongCall(f"--{kind} {name} and --{kind}-defaults exclude each other")
        if name == "":
            raise WrongCall(f"--{kind} needs a name; write --{kind}-defaults for every other {kind}")
        if name is not None or is_default:
            parts.append((kind, name))
    if len(parts) > 1 and parts[-1][0] == IP:
        raise WrongCall("--ip cannot be combined with a user or client id: quotas of addresses are for connections")
    return Entity(tuple(parts))


def check_quota(name: str, of: Entity) -> None:
    """Raise WrongCall unless a quota of that name exists for the entity."""
    wanted = ADDRESS_QUOTAS if of.parts[0][0] == IP else CLIENT_QUOTAS
    if name in wanted:
        return
    if name in QUOTAS:
        owner = "addresses (--ip)" if name in ADDRESS_QUOTAS else "users and client ids"
        raise WrongCall(f"{name} is a quota of {owner}; {of} can have {', '.join(wanted)}")
    raise WrongCall(f"there is no quota {name!r}{did_you_mean(name, wanted) or ': write one of ' + ', '.join(wanted)}")


def check_value(name: str, value: float) -> None:
    """Raise WrongCall if a value is larger than brokers take; they do not name the largest."""
    most = _LARGEST.get(name)
    if most is not None and value > float(most):  # 2^63, too: it is the double of the largest
        raise WrongCall(f"{name}={value_text(value)} is too large: at most {most}")


def describe_quotas(client: Admin, of: Entity | None = None, *, strict: bool = False) -> dict[Entity, Values]:
    """Return the quotas of each entity that has the parts of `of`, with `strict` no others; of all for None."""
    from kafka.protocol.admin import DescribeClientQuotasRequest

    component = DescribeClientQuotasRequest.ComponentData
    components = [
        component(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in (of.parts if of else ())
    ]
    response = send(client, DescribeClientQuotasRequest(components=components, strict=strict))
    if response.error_code:
        raise CommandError(explain_code(response.error_code, response.error_message))
    found = {
        _entity_of(entry): {value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)}
        for entry in response.entries or ()
    }
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def alter_quotas(client: Admin, of: Entity, changes: Mapping[str, float | None], *, validate_only: bool) -> str | None:
    """Set the quotas of an entity, and remove those of value None; return the error, if any. All change, or none."""
    from kafka.protocol.admin import AlterClientQuotasRequest

    entry = AlterClientQuotasRequest.EntryData
    wanted = entry(
        entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in of.parts],
        ops=[
            entry.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in changes.items()
        ],
    )
    response = send(client, AlterClientQuotasRequest(entries=[wanted], validate_only=validate_only))
    [result] = response.entries
    return explain_code(result.error_code, result.error_message) if result.error_code else None


def entities_of_client(user: str | None, client_id: str | None) -> Iterable[Entity]:
    """Yield the entities whose quotas may apply to a client, most specific first (KIP-55): the first one decides.

    A name that is None is one without quotas of its own.
    """
    users = dict.fromkeys((user, None))
    clients = dict.fromkeys((client_id, None))
    for name in users:
        yield from (Entity(((USER, name), (CLIENT_ID, each))) for each in clients)
        yield Entity(((USER, name),))
    yield from (Entity(((CLIENT_ID, each),)) for each in clients)


def value_text(value: float) -> str:
    """Return a quota's value as a user would write it: 1024 rather than 1024.0."""
    return str(int(value)) if value.is_integer() and abs(value) < _MOST_WRITTEN_OUT else str(value)


def _entity_of(entry: Any) -> Entity:
    names = {part.entity_type: part.entity_name for part in entry.entity}
    ordered = sorted(names.items(), key=lambda part: _TYPES.index(part[0]) if part[0] in _TYPES else len(_TYPES))
    return Entity(tuple(ordered))


def _order(of: Entity) -> list[tuple[str, bool, str]]:
    return [(kind, name is None, name or "") for kind, name in of.parts]
