"""Process roles: broker, controller or both, and the voters of the quorum.

    process.roles=broker,controller    both in one process; the default
    process.roles=controller           a voter; serves controller listeners only, no clients
    process.roles=broker               follows the metadata of the controllers in `controller.quorum.voters`

The rules are Kafka's (`KafkaConfig`), with one exception: a node with both roles and without `controller.quorum.voters`
is its own only voter and needs no controller listener.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from broker.network.listeners import ListenerAddress, join_host_port, split_host_port

BROKER = "broker"
CONTROLLER = "controller"

_ROLES = "process.roles"
_VOTERS = "controller.quorum.voters"
_LISTENERS = "listeners"


class RoleError(Exception):
    """The settings contradict each other; `key` is the one to correct, `cause` the one that it contradicts."""

    def __init__(self, key: str, problem: str, cause: str = _ROLES) -> None:
        super().__init__(problem)
        self.key = key
        self.cause = cause


class QuorumVoter(NamedTuple):
    """A voter's id and address."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{join_host_port(self.host, self.port)}"


def parse_voters(items: Iterable[str]) -> tuple[QuorumVoter, ...]:
    """Return the voters of `id@host:port` items, by id; RoleError if one is malformed or an id occurs twice."""
    voters: dict[int, QuorumVoter] = {}
    for item in items:
        text, at, address = item.strip().partition("@")
        try:
            host, port = split_host_port(address)
            node_id = int(text)
        except ValueError:
            at = ""
        if not at or node_id < 0 or not host:
            raise RoleError(_VOTERS, f"{_VOTERS}: {item!r} is not of the form ID@HOST:PORT")
        if node_id in voters:
            raise RoleError(_VOTERS, f"{_VOTERS}: node {node_id} is named twice")
        voters[node_id] = QuorumVoter(node_id, host, port)
    return tuple(voters[node_id] for node_id in sorted(voters))


def check_roles(setting: Callable[[str], Any], node_id: int, voters: Collection[QuorumVoter]) -> frozenset[str]:
    """Return the roles; RoleError if they contradict the voters."""
    roles = frozenset(setting(_ROLES))
    if not roles or not roles <= {BROKER, CONTROLLER}:
        raise RoleError(
            _ROLES, f"{_ROLES}={','.join(setting(_ROLES))} has to be broker, controller, or broker,controller"
        )
    ids = {voter.node_id for voter in voters}
    named = ",".join(map(str, voters))
    if CONTROLLER in roles:
        if BROKER not in roles and not voters:
            raise RoleError(
                _VOTERS,
                f"{_VOTERS} is empty, which {_ROLES}=controller does not allow: name all voters, as ID@HOST:PORT,"
                " this node among them",
            )
        if voters and node_id not in ids:
            raise RoleError(
                _VOTERS, f"{_VOTERS}={named} has to name this node, as {node_id}@HOST:PORT, as it is a controller"
            )
    elif not voters:
        raise RoleError(
            _VOTERS,
            f"{_VOTERS} is empty, which {_ROLES}=broker does not allow: name the controllers, as ID@HOST:PORT",
        )
    elif node_id in ids:
        raise RoleError(
            _ROLES,
            f"{_VOTERS}={named} names this node, {node_id}, as a voter, but it is not a controller:"
            " give it another node.id, or add controller to process.roles",
        )
    return roles


def check_role_listeners(
    roles: Collection[str],
    voters: Collection[QuorumVoter],
    node_id: int,
    listeners: Collection[ListenerAddress],
    controllers: Collection[str],
) -> None:
    """Raise RoleError if the listeners do not fit `roles`; `controllers` are the names of controller listeners."""
    own = [endpoint for endpoint in listeners if endpoint.listener in controllers]
    others = [endpoint for endpoint in listeners if endpoint.listener not in controllers]
    if CONTROLLER not in roles and own:
        raise RoleError(
            _LISTENERS,
            f"listeners: {own[0].listener} is a controller listener, but process.roles=broker: remove it",
        )
    if BROKER not in roles and others:
        raise RoleError(
            _LISTENERS,
            f"listeners: {others[0].listener} is not in controller.listener.names, but process.roles=controller:"
            " remove it",
        )
    if BROKER in roles and not others:
        raise RoleError(
            _LISTENERS,
            "listeners has to name a listener that is not in controller.listener.names",
            "controller.listener.names",
        )
    voter = next((voter for voter in voters if voter.node_id == node_id), None)
    if voter is not None and len(voters) > 1 and not own:
        endpoint = f"{next(iter(controllers), 'CONTROLLER')}://{join_host_port(voter.host, voter.port)}"
        raise RoleError(_LISTENERS, f"listeners has to name {endpoint} too, where the other voters connect to", _VOTERS)
