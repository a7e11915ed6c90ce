"""A consumer whose group rebalances until the session of a killed member expires."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.commands import consume
from barnabas.commands._client import consumer
from barnabas.commands._membership import leave
from barnabas.commands._reading import GroupReading
from barnabas.testing import Cluster
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


def test_interrupted_member_does_not_join_again_after_it_has_left() -> None:
    with Cluster() as cluster:
        topic = cluster.topic()
        topic.produce(["1"])
        line = [*COMMAND, "consume", str(topic), "-g", "g", "-b", cluster.bootstrap]
        with subprocess.Popen(line, stdout=subprocess.PIPE) as first:
            assert present(first.stdout).readline() == b"1\n"
            first.kill()
        parser = argparse.ArgumentParser()
        consume.add_arguments(parser)
        options = parser.parse_args([str(topic), "-g", "g", "-b", cluster.bootstrap])
        options.command = "consume"
        with consumer(options, group_id="g") as client:
            reading = GroupReading(client, [str(topic)], until_end=False)
            while not reading.joining_s:
                with reading.batch(None):
                    pass
            coordinator = client._coordinator
            # what an interrupted poll leaves behind on kafka-python's thread, for longer than it does
            coordinator._manager.call_soon(coordinator.join_group_async, 60_000)
            leave(client, options)
        sent = [exchange["api"] for exchange in cluster.requests()]
    assert [api for api in sent if api in ("JoinGroup", "LeaveGroup")][-1] == "LeaveGroup"


def test_member_of_a_new_group_waits_silently_for_its_first_generation(
    call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokerProcess(tmp_path, {"group.initial.rebalance.delay.ms": 1500}) as broker:
        call("produce", "t", "-b", broker.bootstrap, stdin=b"1\n")
        call("consume", "t", "-g", "first", "-e", "-b", broker.bootstrap)  # creates __consumer_offsets
        monkeypatch.setattr(consume, "STALLED_S", 0.7)
        assert call("consume", "t", "-g", "g", "-e", "-b", broker.bootstrap) == (0, "1\n", "")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_a_member_whose_coordinator_does_not_answer(
    call: Command, tmp_path: Path, ending: signal.Signals
) -> None:
    with BrokerProcess(tmp_path, {"group.initial.rebalance.delay.ms": 0}) as broker:
        call("produce", "t", "-b", broker.bootstrap, stdin=b"1\n")
        line = [*COMMAND, "consume", "t", "-g", "g", "-b", broker.bootstrap]
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as member:
            assert present(member.stdout).readline() == b"1\n"
            os.kill(broker.pid, signal.SIGSTOP)
            member.send_signal(ending)
            deadline = time.monotonic() + 5  # to leave the group takes longer
            while catches(member.pid, ending):
                assert time.monotonic() < deadline
            member.send_signal(ending)
            member.wait()
            os.kill(broker.pid, signal.SIGCONT)
            assert b"Traceback" not in present(member.stderr).read()
    assert member.returncode == -ending


def catches(process: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal."""
    status = Path(f"/proc/{process}/status").read_text()
    return bool(int(present(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE))[1], 16) >> (number - 1) & 1)
