"""What all commands have in common: exit statuses, and what they say when no broker answers or nobody listens."""

import socket
import subprocess
import sys

import pytest

import barnabas.commands.group
import barnabas.commands.topic


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens, for as long as the test runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_without_a_broker_a_command_says_how_to_start_one(call, nobody, monkeypatch):
    monkeypatch.setattr("barnabas.commands._client.CONNECT_TIMEOUT_MS", 200)
    status, out, err = call("topic", "list", "--bootstrap", nobody)
    assert (status, out) == (1, "")
    assert err.startswith(f"barnabas topic: no answer from a broker (Unable to bootstrap from ['{nobody}'])")
    assert len(err.splitlines()) == 1


def test_an_interrupt_ends_a_command_as_the_shell_expects(call, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(barnabas.commands.topic, "run", interrupted)
    assert call("topic", "list") == (130, "", "")


def test_a_bug_is_not_hidden(call, monkeypatch):
    def broken(_):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(barnabas.commands.group, "run", broken)
    with pytest.raises(ZeroDivisionError):
        call("group", "list")


def test_a_reader_that_has_seen_enough_is_no_error(barnabas, topic, shared_broker):
    barnabas("produce", topic, stdin=b"x" * 900 + b"\n" + (b"y" * 900 + b"\n") * 2_000)
    command = [sys.executable, "-m", "barnabas", "consume", topic, "--exit", "--bootstrap", shared_broker.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stdout.readline() == b"x" * 900 + b"\n"
        consumer.stdout.close()
        assert consumer.stderr.read() == b""
    assert consumer.returncode == 0
