"""Fixtures that run `barnabas` in this process, and a broker that its tests share."""

import contextlib
import gc
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.__main__ import main
from tests.broker_process import COMMAND, BrokerProcess, free_address
from tests.typed import instance, present


class Shown(NamedTuple):
    """The result of a command."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Command = Callable[..., Shown]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # kafka-python leaves some sockets to the garbage collector.
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"group.initial.rebalance.delay.ms": 0, "transaction.two.phase.commit.enable": True}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running
    assert "Traceback" not in running.log.read_text()


@pytest.fixture
def settings_of_brokers(barnabas: Command) -> Iterator[None]:
    """Reset the cluster-wide broker configs after a test, also if it fails: other tests share the broker."""
    yield
    for of in ("broker/1", "brokers"):
        barnabas("config", "reset", of, "--all")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Return a function that runs a command with arguments and standard input."""

    def run(*arguments: str, stdin: bytes = b"") -> Shown:
        monkeypatch.setattr(sys, "argv", ["barnabas", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            status = main()
        except SystemExit as end:  # raised by argparse
            status = instance(int, end.code)
        printed = capsys.readouterr()
        return Shown(status, printed.out, printed.err)

    yield run
    gc.collect()  # while this test catches its warnings


@pytest.fixture
def barnabas(call: Command, shared_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function that runs a command with the shared broker."""
    monkeypatch.setenv("BARNABAS_BROKERS", shared_broker.bootstrap)
    return call


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a topic name that only this test uses."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")


class Half(NamedTuple):
    """A broker with a failed log directory: its address, and the partitions of topic t in that directory."""

    bootstrap: str
    metrics: str
    lost: list[int]


@pytest.fixture(scope="session")
def half(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Half]:
    """A broker that its tests share: they write to partitions that no test compares."""
    folder = tmp_path_factory.mktemp("half")
    directories, metrics = [folder / "first", folder / "second"], free_address()
    settings: dict[str, object] = {"log.dirs": ",".join(map(str, directories)), "barnabas.metrics.listener": metrics}
    with BrokerProcess(folder, settings | {"group.initial.rebalance.delay.ms": 0}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(60)
        del admin
        assert running.stop() == 0
        lost = sorted(int(path.name.removeprefix("t-")) for path in directories[1].glob("t-?"))
        directories[1].rename(folder / "unplugged")
        directories[1].write_text("no directory")
        running.start()
        yield Half(running.bootstrap, metrics, lost)


class Halved(NamedTuple):
    """A cluster of two brokers, one of them killed: their addresses, and the partitions that each leads."""

    alive: str
    dead: str
    led: list[str]
    lost: list[str]


@pytest.fixture
def halved(cluster_without_broker_1: Halved) -> Iterator[Halved]:
    yield cluster_without_broker_1
    gc.collect()  # collect connections to the killed broker while this test catches their warnings


@pytest.fixture(scope="session")
def cluster_without_broker_1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Halved]:
    """A cluster with topic t that has lost its only controller, broker 1: broker 2 keeps both in its metadata."""
    with _two_brokers(tmp_path_factory.mktemp("halved")) as (dead, alive):
        led = _led(f"{alive['host']}:{alive['port']}")
        os.kill(dead["pid"], signal.SIGKILL)
        deadline = time.monotonic() + 60
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < deadline:
                socket.create_connection((dead["host"], dead["port"])).close()
        up, down = (f"{one['host']}:{one['port']}" for one in (alive, dead))
        yield Halved(up, down, led[2], led[1])


class Leaderless(NamedTuple):
    """A cluster that has lost a broker, and the partitions of t that have no leader for that reason."""

    bootstrap: str
    lost: list[str]


@pytest.fixture
def leaderless(tmp_path: Path) -> Iterator[Leaderless]:
    with _two_brokers(tmp_path, "-Ddefault.replication.factor=1") as (alive, dead):
        bootstrap = f"{alive['host']}:{alive['port']}"
        lost = _led(bootstrap)[2]
        os.kill(dead["pid"], signal.SIGKILL)
        deadline = time.monotonic() + 60
        while _led(bootstrap)[-1] != lost:
            assert time.monotonic() < deadline
        yield Leaderless(bootstrap, lost)
    gc.collect()


@contextmanager
def _two_brokers(directory: Path, *options: str) -> Iterator[list[dict[str, Any]]]:
    command = [*COMMAND, "up", "--brokers", "2", "--ephemeral", "--listen", "127.0.0.1:0", "--topic", "t:4", "--json"]
    with (
        open(directory / "log", "wb") as stderr,
        subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        try:
            yield json.loads(present(process.stdout).readline())["brokers"]
        finally:
            process.terminate()


def _led(bootstrap: str) -> dict[int, list[str]]:
    """Return the partitions of t by leader; -1 for no leader."""
    partitions = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics("t").topics["t"].partitions
    return {
        broker: [f"t-{index}" for index in sorted(partitions) if partitions[index].leader == broker]
        for broker in (-1, 1, 2)
    }


@pytest.fixture
def consuming(shared_broker: BrokerProcess) -> Callable[[str], AbstractContextManager[None]]:
    """Return a context with a group member that has all partitions of the topic of the group's name.

    The topic must exist. The client is librdkafka's: kafka-python may lose its join if `poll` returns during it.
    """

    @contextmanager
    def consuming(group: str) -> Iterator[None]:
        settings = {"bootstrap.servers": shared_broker.bootstrap, "group.id": group, "client.id": "me"}
        member = Consumer(settings | {"enable.auto.commit": False})
        try:
            member.subscribe([group])
            deadline = time.monotonic() + 60
            while not member.assignment():
                assert time.monotonic() < deadline
                member.poll(0.1)
            yield
        finally:
            member.close()

    return consuming


@pytest.fixture
def transaction_state(shared_broker: BrokerProcess, topic: str) -> str:
    """Return the internal topic with the state of transactions, which exists once a transactional id does."""
    transactional_producer(shared_broker, topic)
    return "__transaction_state"


def transactional_producer(broker: BrokerProcess, transactional_id: str) -> Producer:
    """Return a producer that has its producer id, which it gets once the id's former transaction is complete."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions()
    return producer
