"""`process.roles`, `controller.quorum.voters` and listeners, and their contradictions."""

from __future__ import annotations

import pytest

from broker.metadata.process_roles import QuorumVoter, RoleError, check_role_listeners, check_roles, parse_voters
from broker.network.listeners import ListenerAddress

THREE = parse_voters(["3@c:9093", "1@a:9093", " 2@[::1]:9093"])
BOTH = frozenset({"broker", "controller"})
CLIENTS = ListenerAddress("PLAINTEXT", "", 9092)
CONTROLLERS = ListenerAddress("CONTROLLER", "", 9093)


def roles(names: str, node_id: int = 1, voters: tuple[QuorumVoter, ...] = THREE) -> frozenset[str]:
    return check_roles({"process.roles": tuple(names.split(","))}.__getitem__, node_id, voters)


def test_voters_are_sorted_by_id() -> None:
    assert (QuorumVoter(1, "a", 9093), QuorumVoter(2, "::1", 9093), QuorumVoter(3, "c", 9093)) == THREE
    assert ",".join(map(str, THREE)) == "1@a:9093,2@[::1]:9093,3@c:9093"
    assert parse_voters([]) == ()


@pytest.mark.parametrize("item", ["a:9093", "1@a", "x@a:9093", "-1@a:9093", "1@:9093", "1@a:99999", ""])
def test_invalid_voter_is_quoted_in_error(item: str) -> None:
    with pytest.raises(RoleError, match="is not of the form ID@HOST:PORT"):
        parse_voters([item])


def test_duplicate_voter_is_refused() -> None:
    with pytest.raises(RoleError, match="node 1 is named twice"):
        parse_voters(["1@a:1", "1@b:1"])


def test_a_node_may_be_a_broker_a_controller_or_both() -> None:
    assert roles("broker", 4) == {"broker"}
    assert roles("controller") == {"controller"}
    assert roles("broker,controller") == roles("controller,broker") == BOTH
    assert roles("broker,controller", voters=()) == BOTH


@pytest.mark.parametrize(
    ("names", "node_id", "voters", "problem"),
    [
        ("", 1, THREE, "has to be broker, controller, or broker,controller"),
        ("broker,janitor", 1, THREE, "process.roles=broker,janitor has to be"),
        ("controller", 1, (), "is empty, which process.roles=controller does not allow: .* this node among them"),
        ("broker", 1, (), "is empty, which process.roles=broker does not allow: name the controllers"),
        ("controller", 4, THREE, "has to name this node, as 4@HOST:PORT"),
        ("broker", 2, THREE, "names this node, 2, as a voter, but it is not a controller"),
    ],
)
def test_roles_inconsistent_with_voters_are_refused(
    names: str, node_id: int, voters: tuple[QuorumVoter, ...], problem: str
) -> None:
    with pytest.raises(RoleError, match=problem):
        roles(names, node_id, voters)


def test_listeners_are_those_of_the_role() -> None:
    for having, listeners, voters in (
        (BOTH, [CLIENTS, CONTROLLERS], THREE),
        (BOTH, [CLIENTS], THREE[:1]),
        (BOTH, [CLIENTS], ()),
        ({"broker"}, [CLIENTS], THREE[1:]),
        ({"controller"}, [CONTROLLERS], THREE),
    ):
        check_role_listeners(having, voters, 1, listeners, ["CONTROLLER"])


@pytest.mark.parametrize(
    ("having", "listeners", "problem"),
    [
        ({"broker"}, [CLIENTS, CONTROLLERS], "CONTROLLER is a controller listener, but process.roles=broker"),
        ({"controller"}, [CLIENTS, CONTROLLERS], "PLAINTEXT is not in controller.listener.names, but"),
        (BOTH, [CONTROLLERS], "has to name a listener that is not in controller.listener.names"),
        (BOTH, [CLIENTS], "has to name CONTROLLER://a:9093 too, where the other voters connect to"),
    ],
)
def test_listeners_of_another_role_are_refused(
    having: frozenset[str] | set[str], listeners: list[ListenerAddress], problem: str
) -> None:
    with pytest.raises(RoleError, match=problem):
        check_role_listeners(having, THREE, 1, listeners, ["CONTROLLER"])
