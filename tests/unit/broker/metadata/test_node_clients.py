"""Addresses of the other nodes, on a loop whose connections lead nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from broker.metadata.node_clients import NodeClients
from controller.image import MetadataImage
from controller.image_builder import apply_records
from controller.raft.voters import Voter, VoterEndpoint
from protocol.messages.broker_registration import RegisteredListener
from protocol.records.metadata import RegisterBrokerRecord
from tests.unit.broker.node import VirtualLoop
from tests.unit.broker.peer_node import Network, vote
from tests.unit.broker.whole_cluster import BOTH, CONTROLLER, node_settings

EMPTY = MetadataImage(cluster_id="cluster")


def ignore() -> None:
    pass


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()
    yield made
    made.close()


def node_clients(loop: VirtualLoop, roles: dict[int, str] | None = None, **settings: str) -> NodeClients:
    roles = roles or {1: BOTH, 2: BOTH, 3: BOTH}
    return NodeClients(node_settings(1, roles, **settings), loop, Random(1))


def registered(
    image: MetadataImage, broker_id: int, host: str, *, listener: str = "PLAINTEXT", port: int = 9092
) -> MetadataImage:
    record = RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=image.offset + 1,
        incarnation_id=bytes([broker_id]) * 16,
        end_points=[RegisteredListener(name=listener, host=host, port=port, security_protocol=0)],
        features=[],
        rack=None,
        log_dirs=[],
    )
    return apply_records(image, [record], offset=image.offset + 1, epoch=1)


def test_controller_addresses_come_from_configured_voters(loop: VirtualLoop) -> None:
    known = node_clients(loop)
    moved = Voter(3, endpoints=(VoterEndpoint("CONTROLLER", "elsewhere", 9),))
    assert known.voter(Voter(2), ignore, ignore).address == ("b2", 9093)
    assert known.controller(moved, ignore).address == ("b3", 9093)


def test_controller_addresses_come_from_the_voter_set_without_configured_ones(loop: VirtualLoop) -> None:
    known = node_clients(loop)
    endpoints = (VoterEndpoint("PLAINTEXT", "other", 9092), VoterEndpoint("controller", "here", 9093))
    assert known.voter(Voter(7, endpoints=endpoints), ignore, ignore).address == ("here", 9093)
    assert known.voter(Voter(7, endpoints=endpoints[:1]), ignore, ignore).address == ("other", 9092)


def test_broker_addresses_come_from_registration(loop: VirtualLoop) -> None:
    known = node_clients(loop)
    known.update_addresses(registered(EMPTY, 2, "elsewhere"))
    assert known.broker(2).address == ("elsewhere", 9092)


def test_connection_follows_registered_address(loop: VirtualLoop) -> None:
    known = node_clients(loop)
    peer = known.broker(2)
    before = registered(EMPTY, 2, "here")
    known.apply(EMPTY, before, ())
    assert peer.address == ("here", 9092)
    known.apply(before, registered(before, 2, "there", port=7000), ())
    assert peer.address == ("there", 7000)


def test_broker_without_inter_broker_listener_has_no_address(loop: VirtualLoop) -> None:
    known = node_clients(loop)
    known.update_addresses(registered(EMPTY, 2, "elsewhere", listener="EXTERNAL"))
    assert known.broker(2).address == ("", 0)


def test_closed_connections_are_dropped(loop: VirtualLoop) -> None:
    known = node_clients(loop)
    kept = known.broker(2)
    known.broker(3).close()
    known.update_addresses(registered(EMPTY, 2, "here"))
    assert [broker_id for broker_id, _ in known._broker_clients] == [2]
    assert kept.address == ("here", 9092)


@pytest.mark.parametrize(
    ("settings", "listener"),
    [
        ({}, "PLAINTEXT"),
        ({"listeners": "A://b1:1,B://b1:2,CONTROLLER://b1:9093", "inter_broker_listener_name": "B"}, "B"),
        ({"listeners": "A://b1:1,B://b1:2,CONTROLLER://b1:9093"}, "A"),
    ],
)
def test_inter_broker_listener_is_configured_or_first(
    loop: VirtualLoop, settings: dict[str, Any], listener: str
) -> None:
    protocols = ",".join(f"{name}:PLAINTEXT" for name in ("A", "B", "PLAINTEXT", "CONTROLLER"))
    assert node_clients(loop, listener_security_protocol_map=protocols, **settings).listener == listener


def test_node_sends_its_client_id(loop: VirtualLoop) -> None:
    assert node_clients(loop).voter(Voter(2), ignore, ignore)._client_id == "broker-1"
    assert (
        node_clients(loop, {1: CONTROLLER, 2: CONTROLLER}).voter(Voter(2), ignore, ignore)._client_id == "controller-1"
    )


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


def test_broker_with_refused_connection_has_ended(network: Network) -> None:
    known = node_clients(network)
    broker = registered(EMPTY, 2, "there").brokers[2]
    assert not network.run_until_complete(known.has_exited(broker))
    assert network.lines[-1].aborted
    network.down = True
    assert network.run_until_complete(known.has_exited(broker))


def test_unreachable_broker_is_not_known_to_have_ended(network: Network) -> None:
    known = node_clients(network)
    network.unreachable = True
    assert not network.run_until_complete(known.has_exited(registered(EMPTY, 2, "there").brokers[2]))
    network.hanging, network.unreachable = True, False
    assert not network.run_until_complete(known.has_exited(registered(EMPTY, 2, "there").brokers[2]))
    network.down, network.hanging = True, False
    elsewhere = registered(EMPTY, 2, "there", listener="EXTERNAL")
    assert not network.run_until_complete(known.has_exited(elsewhere.brokers[2]))


def test_broker_with_lost_connection_is_suspected_until_reached(network: Network) -> None:
    known = node_clients(network)
    peer = known.broker(2)
    network.run_until_complete(peer.call(vote()))
    assert not known.suspects.ids
    network.lines[-1].protocol.connection_lost(None)
    assert known.suspects.ids == {2}
    network.run_until_complete(peer.call(vote()))
    assert not known.suspects.ids


def test_loss_of_other_connections_suspects_no_broker(network: Network) -> None:
    known = node_clients(network)
    idle = known.broker(2, may_be_idle=True)
    for peer in (known.voter(Voter(2), ignore, ignore), known.controller(Voter(2), ignore), idle):
        network.run_until_complete(peer.call(vote()))
        network.lines[-1].protocol.connection_lost(None)
    assert not known.suspects.ids


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
def test_broker_with_invalid_host_name_is_not_known_to_have_ended(loop: VirtualLoop, host: str) -> None:
    broker = registered(EMPTY, 2, host).brokers[2]
    assert not loop.run_until_complete(node_clients(loop).has_exited(broker))


def test_fenced_broker_is_not_suspected(network: Network) -> None:
    known = node_clients(network)
    before = registered(EMPTY, 2, "there")
    known.suspects.lost(2)
    known.apply(EMPTY, before, ())  # Fenced, because it has just registered.
    assert not known.suspects.ids


@pytest.mark.parametrize(("of_brokers", "taken"), [(True, True), (False, False)])
def test_broker_responses_may_have_maximum_batch_size(network: Network, of_brokers: bool, taken: bool) -> None:
    known = node_clients(network)
    network.node.reply = lambda *_: [((1 << 31) - 1).to_bytes(4, "big") + bytes(100)]
    peer = known.broker(2) if of_brokers else known.controller(Voter(2), ignore)
    peer.call(vote())
    network.run_until_complete(asyncio.sleep(1))
    assert peer.ready is taken
    peer.close()
