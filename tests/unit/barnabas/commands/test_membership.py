"""A consumer whose group rebalances until the session of a killed member expires."""

from __future__ import annotations

import signal
import subprocess

import pytest
from confluent_kafka.admin import AdminClient

from tests.broker_process import COMMAND, BrokerProcess
from tests.typed import present
from tests.unit.barnabas.conftest import Command


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_consumer_reports_a_rebalance_and_one_signal_ends_it_at_once(
    barnabas: Command, topic: str, shared_broker: BrokerProcess, ending: signal.Signals
) -> None:
    barnabas("produce", topic, stdin=b"1\n")
    line = [*COMMAND, "consume", topic, "-g", topic, "-b", shared_broker.bootstrap]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as first:
        assert present(first.stdout).readline() == b"1\n"
        first.kill()
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as second:
        shown = present(second.stderr).readline()
        assert shown.startswith(f"barnabas consume: waiting for group {topic}: it rebalances".encode())
        second.send_signal(ending)
        assert second.wait(15) == 0  # JoinGroup and kafka-python's LeaveGroup would wait for 30 s and more
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap, "log_level": 0})
    described = admin.describe_consumer_groups([topic])[topic].result(30)
    assert len(described.members) == 1  # the killed member
