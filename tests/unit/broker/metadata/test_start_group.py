"""Start groups: brokers that are started together know each other once they are ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from broker.metadata.start_group import TAG_BYTES, WAIT_S, StartGroup, incarnation_id, until_known
from controller.image import BrokerImage, MetadataImage
from tests.unit.broker.whole_cluster import WholeCluster

if TYPE_CHECKING:
    from broker.metadata.raft_driver import RaftDriver

FIRST, SECOND = StartGroup(b"1" * TAG_BYTES, 3), StartGroup(b"2" * TAG_BYTES, 3)


def image(*brokers: tuple[StartGroup | None, bool]) -> MetadataImage:
    """Return metadata of brokers, each fenced or not, and in a group or in none."""
    nodes = {
        node_id: BrokerImage(node_id, 1, incarnation_id(bytes([node_id] * 16), group), {}, {}, None, fenced, False, ())
        for node_id, (group, fenced) in enumerate(brokers)
    }
    return MetadataImage(cluster_id="", brokers=nodes)


@pytest.mark.parametrize(
    ("brokers", "known"),
    [
        ([(FIRST, False)] * 3, True),
        ([(FIRST, False)] * 2, False),
        ([(FIRST, False), (FIRST, True), (FIRST, False)], False),
        ([(FIRST, False), (SECOND, False), (FIRST, False)], False),
        ([(FIRST, False), (None, False), (FIRST, False)], False),
        ([(FIRST, False)] * 3 + [(SECOND, True), (None, True)], True),
    ],
)
def test_a_group_is_known_when_all_its_brokers_are_unfenced(
    brokers: list[tuple[StartGroup | None, bool]], known: bool
) -> None:
    assert FIRST.is_known_to(image(*brokers)) == known


def test_a_group_is_read_from_its_tag_and_count() -> None:
    assert StartGroup.parse("3131313131313131:3") == FIRST


@pytest.mark.parametrize("text", ["", "3131313131313131", "31:3", "3131313131313131:0", "3131313131313131:x", "zz:3"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$|non-hexadecimal|invalid literal"):
        StartGroup.parse(text)


def test_two_runs_in_a_group_have_different_incarnation_ids() -> None:
    one, other = (incarnation_id(bytes([drawn] * 16), FIRST) for drawn in (1, 2))
    assert one != other
    assert len(one) == len(other) == 16


def test_the_metadata_is_watched_only_until_the_group_is_known() -> None:
    subscribers: list[object] = []
    controller = SimpleNamespace(
        image=image(*[(FIRST, False)] * 3), subscribe=subscribers.append, unsubscribe=subscribers.remove
    )

    async def body() -> None:
        await until_known(FIRST, cast("RaftDriver", controller), asyncio.get_running_loop())

    asyncio.run(body())
    assert subscribers == []


@pytest.fixture
def start() -> Iterator[Callable[[int], WholeCluster]]:
    made: list[WholeCluster] = []

    def start(seed: int) -> WholeCluster:
        made.append(WholeCluster(seed=seed))
        together(made[-1], FIRST)
        return made[-1]

    yield start
    for cluster in made:
        cluster.close()


def together(cluster: WholeCluster, group: StartGroup) -> None:
    for host in cluster.hosts.values():
        host.start_group = group
    cluster.start()


def listed(cluster: WholeCluster) -> list[list[bytes]]:
    """For each serving broker, return the incarnation id prefixes in its metadata."""
    return [
        [node.incarnation_id[:TAG_BYTES] for node in cluster.raft(node_id).image.brokers.values() if not node.fenced]
        for node_id in cluster.hosts
    ]


@pytest.mark.parametrize("seed", range(1, 11))
def test_ready_brokers_know_all_others_of_their_group(start: Callable[[int], WholeCluster], seed: int) -> None:
    assert listed(start(seed)) == [[FIRST.tag] * 3] * 3


@pytest.mark.parametrize("seed", range(1, 11))
def test_registrations_of_killed_cluster_do_not_count(start: Callable[[int], WholeCluster], seed: int) -> None:
    cluster = start(seed)
    for node_id in cluster.hosts:
        cluster.kill(node_id)
    together(cluster, SECOND)
    assert listed(cluster) == [[SECOND.tag] * 3] * 3


def test_brokers_serve_without_missing_group_member_after_timeout(caplog: pytest.LogCaptureFixture) -> None:
    cluster = WholeCluster()
    for host in cluster.hosts.values():
        host.start_group = FIRST
    began_s = cluster.schedule.now
    cluster.start(1, 2)
    assert WAIT_S <= cluster.schedule.now - began_s < WAIT_S + 10
    assert [cluster.node(node_id).shared.phase for node_id in (1, 2)] == ["serving", "serving"]
    shown = [text for text in caplog.messages if "started together" in text]
    assert (
        shown
        == ["Serving without 1 of the 3 brokers that were started together, after 30 s; active: 1, 2; inactive: none"]
        * 2
    )
    cluster.start(3)
    cluster.close()
