"""Common behaviour of all commands: exit statuses, signals and closed outputs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from argparse import Namespace
from signal import Signals
from typing import Never

import pytest

import barnabas.commands.group.list
import barnabas.commands.topic.list
from tests.broker_process import BrokerProcess
from tests.typed import present
from tests.unit.barnabas.conftest import Command


def test_an_interrupt_ends_a_command_as_the_shell_expects(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Namespace) -> Never:
        raise KeyboardInterrupt

    monkeypatch.setattr(barnabas.commands.topic.list, "run", interrupted)
    assert call("topic", "list") == (130, "", "")


def test_a_bug_is_not_hidden(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Namespace) -> Never:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(barnabas.commands.group.list, "run", broken)
    with pytest.raises(ZeroDivisionError):
        call("group", "list")


def started(shared_broker: BrokerProcess, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "barnabas", *arguments, "--brokers", shared_broker.bootstrap]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_reader_that_closes_the_pipe_is_no_error(barnabas: Command, topic: str, shared_broker: BrokerProcess) -> None:
    barnabas("produce", topic, stdin=b"x" * 900 + b"\n" + (b"y" * 900 + b"\n") * 2_000)
    with started(shared_broker, "consume", topic, "--exit") as consumer:
        assert present(consumer.stdout).readline() == b"x" * 900 + b"\n"
        present(consumer.stdout).close()
        assert present(consumer.stderr).read() == b""
    assert consumer.returncode == 0


@pytest.mark.parametrize(("command", "rest"), [("consume", ["-e"]), ("topic describe", [])])
def test_full_disk_is_reported_in_one_line(
    barnabas: Command, topic: str, shared_broker: BrokerProcess, command: str, rest: list[str]
) -> None:
    barnabas("produce", topic, stdin=b"1\n")
    line = [sys.executable, "-m", "barnabas", *command.split(), topic, *rest]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*line, "-b", shared_broker.bootstrap], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == f"barnabas {command}: cannot write standard output: No space left on device\n"
    assert done.returncode == 1


def test_closed_standard_output_is_no_error(topic: str, shared_broker: BrokerProcess) -> None:
    line = f"echo 1 | {sys.executable} -m barnabas produce {topic} -b {shared_broker.bootstrap} >&-"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("ending", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGHUP, 129)])
def test_signal_ends_a_consumer_silently_after_it_commits_printed_records(
    barnabas: Command, topic: str, shared_broker: BrokerProcess, ending: Signals, status: int
) -> None:
    barnabas("produce", topic, stdin=b"1\n2\n")
    with started(shared_broker, "consume", topic, "-g", topic) as consumer:
        assert (present(consumer.stdout).readline(), present(consumer.stdout).readline()) == (b"1\n", b"2\n")
        barnabas("produce", topic, stdin=b"3\n")
        assert present(consumer.stdout).readline() == b"3\n"  # so the records before it are processed
        consumer.send_signal(ending)
        assert (present(consumer.stdout).read(), present(consumer.stderr).read()) == (b"", b"")
    assert consumer.returncode == status
    assert barnabas("consume", topic, "-g", topic, "-e").out in ("", "3\n")  # 3 may be uncommitted


def test_consumer_commits_when_its_terminal_closes(barnabas: Command, topic: str, shared_broker: BrokerProcess) -> None:
    barnabas("produce", topic, stdin=b"1\n2\n")
    ours, theirs = os.openpty()
    line = [sys.executable, "-m", "barnabas", "consume", topic, "-g", topic, "-b", shared_broker.bootstrap]
    with subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs) as consumer:
        os.close(theirs)
        with open(ours, "rb", buffering=0) as terminal:
            printed = b""
            for last, lines in ((b"", 2), (b"3\n", 3)):  # the third is read once the first two count as read
                if last:
                    barnabas("produce", topic, stdin=last)
                while printed.count(b"\n") < lines:
                    printed += terminal.read(100)
        consumer.send_signal(signal.SIGHUP)
        consumer.send_signal(signal.SIGHUP)  # the kernel and the shell each send one
    assert consumer.returncode == 129
    assert barnabas("consume", topic, "-g", topic, "-e").out in ("", "3\n")  # printed, but perhaps not yet counted


def test_consumer_under_nohup_survives_sighup(topic: str, shared_broker: BrokerProcess, barnabas: Command) -> None:
    line = ["nohup", sys.executable, "-m", "barnabas", "consume", topic, "-b", shared_broker.bootstrap]
    barnabas("produce", topic, stdin=b"1\n")
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert present(consumer.stdout).readline() == b"1\n"
        consumer.send_signal(signal.SIGHUP)
        barnabas("produce", topic, stdin=b"2\n")
        assert present(consumer.stdout).readline() == b"2\n"
        consumer.send_signal(signal.SIGTERM)
    assert consumer.returncode == 0


def test_sigterm_before_the_requested_end_sets_the_exit_status(
    barnabas: Command, topic: str, shared_broker: BrokerProcess
) -> None:
    barnabas("produce", topic, stdin=b"1\n")
    with started(shared_broker, "consume", topic, "-c", "2") as consumer:
        assert present(consumer.stdout).readline() == b"1\n"
        consumer.send_signal(signal.SIGTERM)
        assert present(consumer.stderr).read() == b""
    assert consumer.returncode == 128 + signal.SIGTERM
