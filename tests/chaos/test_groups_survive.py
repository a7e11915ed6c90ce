"""Groups after a kill of their broker: the coordinator restores exactly the state that it acknowledged."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.clients.clients import CLIENTS, Client
from tests.clients.members import Group
from tests.clients.rounds import PARTITIONS, STEP_TIMEOUT_S, Rounds, produce_until, shared_by

TOPIC = "watched"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", QUICK_GROUPS) as running:
        yield running
    running.check_log()


@pytest.mark.parametrize("client", [client for client in CLIENTS if client.has_static_members], ids=str)
def test_group_resumes_after_its_broker_is_killed(client: Client, broker: BrokerProcess, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    group, rounds = Group(broker.bootstrap, TOPIC, "range", tmp_path), Rounds(broker.bootstrap, TOPIC)
    members = [group.start_member(client), group.start_member(client)]
    try:
        produce_until(group, rounds, shared_by(*members))
        for end in (broker.kill, broker.stop):
            end()
            broker.start()
            produce_until(group, rounds, shared_by(*members))
        assert members[0].values() | members[1].values() == rounds.produced
        for member in members:
            member.stop()
        broker.kill()
        broker.start()
        successor = group.start_member(client)
        last = rounds.produce()
        assert group.wait_for(lambda: last <= successor.values(), STEP_TIMEOUT_S)
        assert successor.values() == last
    finally:
        group.close()
