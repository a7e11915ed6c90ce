"""Messages about unresponsive brokers while a command waits for records or acknowledgements."""

import os
import signal
import subprocess
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from barnabas.commands import _silence
from barnabas.commands._silence import Silence
from tests.broker_process import COMMAND, BrokerProcess, free_address

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("command", [("consume", "-c", "99"), ("produce", "--tee")], ids=" ".join)
def test_unresponsive_broker_and_its_recovery_are_reported(tmp_path: Path, command: tuple[str, ...]) -> None:
    with BrokerProcess(tmp_path) as broker:
        place = ["t", "-b", broker.bootstrap]
        subprocess.run([*COMMAND, "produce", *place], input=b"one\n", check=True)
        with subprocess.Popen(
            [*COMMAND, *command, *place],
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as running:
            assert running.stdin is not None
            assert running.stdout is not None
            assert running.stderr is not None
            running.stdin.write("one\n")
            assert running.stdout.readline() == "one\n"
            os.kill(broker.pid, signal.SIGSTOP)
            running.stdin.write("two\n")
            why = f"no broker answers: {broker.bootstrap} (timed out); retrying"
            assert running.stderr.readline() == f"barnabas {command[0]}: {why}\n"
            os.kill(broker.pid, signal.SIGCONT)
            assert running.stderr.readline() == f"barnabas {command[0]}: a broker answers again\n"
            running.terminate()


def silence(address: str, known: Sequence[tuple[str, int]] = (), **config: str) -> Silence:
    client = SimpleNamespace(config={"security_protocol": "PLAINTEXT", **config})
    cluster = SimpleNamespace(brokers=lambda: [SimpleNamespace(host=host, port=port) for host, port in known])
    return Silence(Namespace(brokers=[address], command="consume"), client, cluster)


def test_silence_is_reported_once_and_only_while_waiting(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(_silence, "SILENT_S", 0.0)
    address = free_address()
    quiet = silence(address)
    quiet.check(waits=False)
    assert not quiet.silent
    quiet.check(waits=True)
    quiet.check(waits=True)
    why = f"no broker answers: {address} (connection refused); retrying"
    assert (quiet.silent, capsys.readouterr().err) == (True, f"barnabas consume: {why}\n")


def test_silence_is_not_reported_while_a_broker_responds(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, shared_broker: BrokerProcess
) -> None:
    monkeypatch.setattr(_silence, "SILENT_S", 0.0)
    host, _, port = shared_broker.bootstrap.rpartition(":")
    quiet = silence(free_address(), [(host, int(port))])
    quiet.check(waits=True)
    assert (quiet.silent, capsys.readouterr().err) == (False, "")


def test_brokers_behind_a_proxy_are_not_probed(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(_silence, "SILENT_S", 0.0)
    quiet = silence(free_address(), proxy_url="http://127.0.0.1:1")
    quiet.check(waits=True)
    assert (quiet.silent, capsys.readouterr().err) == (False, "")
