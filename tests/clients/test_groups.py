"""Groups of two members, with every assignor of every client, which lose one of them to kill -9."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient

from tests.broker_process import BrokerProcess
from tests.clients.clients import CLIENTS, Client
from tests.clients.members import Group, Member

PARTITIONS = 4
# A step of a group takes a session time-out and a rebalance; a JVM on a busy machine takes its time to start.
STEP_TIMEOUT_S = 40


class Rounds:
    """Produces rounds of one record a partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        self._topic = topic
        self._numbers = itertools.count()
        self.produced: set[str | None] = set()

    def produce(self) -> set[str | None]:
        """Produce one round and return its values."""
        number = next(self._numbers)
        values: set[str | None] = set()
        for partition in range(PARTITIONS):
            value = f"round {number} partition {partition}"
            self._producer.produce(self._topic, value, partition=partition)
            values.add(value)
        assert self._producer.flush(30) == 0
        self.produced |= values
        return values


def produce_until(group: Group, rounds: Rounds, shown: Callable[[set[str | None]], bool]) -> None:
    """Produce rounds, each after the last was seen or given up, until one is seen as ``shown`` says."""
    for _ in range(int(STEP_TIMEOUT_S / 0.5)):
        values = rounds.produce()
        if group.wait_for(lambda values=values: shown(values), 0.5):
            return
        if all(member.ended is not None for member in group.members):
            break
    logs = "".join(path.read_text()[-2000:] for path in sorted(group.logs.glob("*.log")))
    counts = [(member.ended, len(member.records)) for member in group.members]
    pytest.fail(f"no round was shared out as expected; exit status and records of each member: {counts}\n{logs}")


def shared_by(*members: Member) -> Callable[[set[str | None]], bool]:
    """Tell whether a round was seen by the members together, each of them a part of it."""

    def shown(values: set[str | None]) -> bool:
        parts = [member.values() & values for member in members]
        return all(parts) and set().union(*parts) == values and sum(map(len, parts)) == len(values)

    return shown


@pytest.fixture
def start_group(
    broker: BrokerProcess, create_topic: Callable[..., str], logs: Path
) -> Iterator[Callable[[str], tuple[Group, Rounds]]]:
    """Make a group with an assignor, without members yet, on a topic of its own, with rounds for it."""
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
    produce_until(group, rounds, shared_by(survivor, victim))
    (described,) = admin.describe_consumer_groups([group.name]).values()
    assert described.result(30).state == ConsumerGroupState.STABLE
    assert len(described.result().members) == 2

    victim.kill()
    produce_until(group, rounds, shared_by(survivor))
    assert survivor.values() | victim.values() == rounds.produced

    survivor.stop()
    successor = group.start_member(client)
    last = rounds.produce()
    assert group.wait_for(lambda: last <= successor.values(), STEP_TIMEOUT_S)
    assert successor.values() == last, "the committed offsets were not where the group had stopped"


@pytest.mark.parametrize("client", [client for client in CLIENTS if client.has_static_members], ids=str)
def test_static_member_that_is_killed_comes_back_to_its_partitions_without_a_rebalance(
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
