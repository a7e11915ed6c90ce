"""Groups of two members, with every assignor of every client; one member is killed with kill -9."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from tests.broker_process import BrokerProcess
from tests.clients.clients import CLIENTS, Client
from tests.clients.members import Group
from tests.clients.rounds import PARTITIONS, STEP_TIMEOUT_S, Rounds, produce_until, shared_by


@pytest.fixture
def start_group(
    broker: BrokerProcess, create_topic: Callable[..., str], logs: Path
) -> Iterator[Callable[[str], tuple[Group, Rounds]]]:
    """Create a group with an assignor, without members yet, on its own topic, with rounds for it."""
    groups: list[Group] = []

    def start(assignor: str) -> tuple[Group, Rounds]:
        topic = create_topic(PARTITIONS)
        groups.append(Group(broker.bootstrap, topic, assignor, logs))
        return groups[-1], Rounds(broker.bootstrap, topic)

    yield start
    for group in groups:
        group.close()


@pytest.mark.parametrize(
    ("client", "assignor"), [(client, assignor) for client in CLIENTS for assignor in client.assignors], ids=str
)
def test_group_of_two_rebalances_when_a_member_is_killed(
    client: Client, assignor: str, start_group: Callable[[str], tuple[Group, Rounds]], admin: AdminClient
) -> None:
    group, rounds = start_group(assignor)
    survivor, victim = group.start_member(client), group.start_member(client)
    both = shared_by(survivor, victim)

    def both_and_stable(values: set[str | None]) -> bool:
        if not both(values):
            return False
        (described,) = admin.describe_consumer_groups([group.name]).values()
        return described.result(30).state == ConsumerGroupState.STABLE and len(described.result().members) == 2

    # A member that gets no CPU for a session timeout is expelled, and joins again: a later round shows it.
    produce_until(group, rounds, both_and_stable)

    victim.kill()
    produce_until(group, rounds, shared_by(survivor))
    assert survivor.values() | victim.values() == rounds.produced

    survivor.stop()
    successor = group.start_member(client)
    last = rounds.produce()
    assert group.wait_for(lambda: last <= successor.values(), STEP_TIMEOUT_S)
    assert successor.values() == last, "the committed offsets were not where the group had stopped"


@pytest.mark.parametrize("client", [client for client in CLIENTS if client.has_static_members], ids=str)
def test_killed_static_member_gets_its_partitions_back_without_rebalance(
    client: Client, start_group: Callable[[str], tuple[Group, Rounds]]
) -> None:
    group, rounds = start_group("range")
    survivor, victim = group.start_member(client, "one"), group.start_member(client, "two")
    produce_until(group, rounds, shared_by(survivor, victim))
    owned, seen = victim.records[-1].partition, len(survivor.records)

    victim.kill()
    replacement = group.start_member(client, "two")
    produce_until(group, rounds, shared_by(survivor, replacement))
    assert owned in {record.partition for record in replacement.records}
    assert owned not in {record.partition for record in survivor.records[seen:]}


def test_members_of_different_clients_share_a_group(start_group: Callable[[str], tuple[Group, Rounds]]) -> None:
    group, rounds = start_group("range")
    together = {"java", "confluent-kafka", "kafka-python", "franz-go"}
    members = [group.start_member(client) for client in CLIENTS if client.name in together]
    assert len(members) == PARTITIONS
    produce_until(group, rounds, shared_by(*members))
    members[1].kill()
    produce_until(group, rounds, shared_by(members[0], *members[2:]))
