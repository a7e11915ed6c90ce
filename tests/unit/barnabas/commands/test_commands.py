"""What all commands have in common: exit statuses, and what they say when nobody listens to them."""

import signal
import subprocess
import sys

import pytest

import barnabas.commands.group.list
import barnabas.commands.topic.list


def test_an_interrupt_ends_a_command_as_the_shell_expects(call, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(barnabas.commands.topic.list, "run", interrupted)
    assert call("topic", "list") == (130, "", "")


def test_a_bug_is_not_hidden(call, monkeypatch):
    def broken(_):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(barnabas.commands.group.list, "run", broken)
    with pytest.raises(ZeroDivisionError):
        call("group", "list")


def started(shared_broker, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "barnabas", *arguments, "--brokers", shared_broker.bootstrap]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_reader_that_has_seen_enough_is_no_error(barnabas, topic, shared_broker):
    barnabas("produce", topic, stdin=b"x" * 900 + b"\n" + (b"y" * 900 + b"\n") * 2_000)
    with started(shared_broker, "consume", topic, "--exit") as consumer:
        assert consumer.stdout.readline() == b"x" * 900 + b"\n"
        consumer.stdout.close()
        assert consumer.stderr.read() == b""
    assert consumer.returncode == 0


def test_ctrl_c_ends_a_consumer_quietly_and_what_it_printed_is_committed(barnabas, topic, shared_broker):
    barnabas("produce", topic, stdin=b"1\n2\n")
    with started(shared_broker, "consume", topic, "-g", topic) as consumer:
        assert (consumer.stdout.readline(), consumer.stdout.readline()) == (b"1\n", b"2\n")
        consumer.send_signal(signal.SIGINT)
        assert (consumer.stdout.read(), consumer.stderr.read()) == (b"", b"")
    assert consumer.returncode == 0
    assert barnabas("consume", topic, "-g", topic, "-e") == (0, "", "")
