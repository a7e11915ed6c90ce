"""Transactions open, prepared and complete in a data directory of Apache Kafka go on under Barnabas, and the reverse.

Either broker writes a directory and is stopped. Each of both opens a copy, continues, and shuts down; then Apache Kafka
and Barnabas open what the other one left. Whichever wrote it and opened it: the states, offsets, last stable offsets
and records are the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from protocol.errors import ErrorCode
from tests.broker_process import BrokerProcess
from tests.oracles import kafka_directory, transaction_directory
from tests.oracles.kafka_server import KafkaServer
from tests.oracles.telling import query, wait_for_leaders
from tests.oracles.transaction_directory import (
    COMPLETE,
    COMPLETE_COMMIT,
    LATER_OFFSET,
    OFFSET,
    ONGOING,
    OPEN,
    PREPARE_COMMIT,
    PREPARED,
    TOPICS,
    Seen,
    State,
    states,
)

BROKERS = ("kafka", "ours")
NO_OFFSET = -1


class Opened(NamedTuple):
    """What a broker made of a copy of a directory: at once, after it went on, and the other broker at last."""

    at_once: Seen
    states_at_once: dict[str, State]
    later: Seen
    states_later: dict[str, State]
    other: Seen
    states_other: dict[str, State]


class Written(NamedTuple):
    """The states in a directory when its broker was stopped, and what either broker made of it."""

    states: dict[str, State]
    opened: dict[str, Opened]


class Kafka:
    """Apache Kafka, on one directory after the other."""

    def __init__(self, folder: Path) -> None:
        features = kafka_directory.FEATURES | {"transaction.version": 2}
        self._server = KafkaServer(folder, transaction_directory.SETTINGS, features)
        self._server.wait()

    @property
    def bootstrap(self) -> str:
        return self._server.bootstrap

    @property
    def data_dir(self) -> Path:
        return self._server.data_dir

    def open(self, directory: Path) -> None:
        shutil.rmtree(self.data_dir)
        shutil.copytree(directory, self.data_dir)
        self._server.start()
        self._server.wait()

    def kill(self) -> None:
        self._server.stop()

    def close(self) -> None:
        self._server.close()


class Ours:
    """Barnabas, on one directory after the other."""

    def __init__(self, folder: Path) -> None:
        self._broker = BrokerProcess(folder, transaction_directory.SETTINGS | {"node.id": 1})

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    @property
    def data_dir(self) -> Path:
        return self._broker.data_dir

    def open(self, directory: Path) -> None:
        shutil.rmtree(self.data_dir, ignore_errors=True)
        shutil.copytree(directory, self.data_dir)
        self._broker.start()

    def kill(self) -> None:
        self._broker.kill()

    def close(self) -> None:
        assert self._broker.stop() == 0
        self._broker.check_log()


def see(broker: Kafka | Ours) -> Seen:
    reported = {topic: query(broker.bootstrap, topic) for topic in TOPICS}
    return transaction_directory.seen(broker.bootstrap, reported)


def is_complete(broker: Kafka | Ours) -> Callable[[], bool]:
    return lambda: states(broker.data_dir)[PREPARED].status == COMPLETE_COMMIT


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Kafka | Ours]]:
    """Both brokers, closed; Kafka's directory has the topics."""
    folder = tmp_path_factory.mktemp("transactions")
    kafka, ours = Kafka(folder / "kafka"), Ours(folder / "ours")
    try:
        transaction_directory.create_topics(kafka.bootstrap)
        kafka.close()
        yield {"kafka": kafka, "ours": ours}
    finally:
        kafka.kill()


@pytest.fixture(scope="module", params=BROKERS)
def written(
    request: pytest.FixtureRequest, brokers: dict[str, Kafka | Ours], tmp_path_factory: pytest.TempPathFactory
) -> Written:
    """Write a directory with one broker, and open copies of it with both."""
    folder = tmp_path_factory.mktemp("directories")
    if not (empty := folder.parent / "empty").exists():
        shutil.copytree(brokers["kafka"].data_dir, empty)
    writer = brokers[request.param]
    writer.open(empty)
    producers = transaction_directory.write(writer.bootstrap)
    transaction_directory.wait_until(is_complete(writer))
    writer.close()
    del producers
    cut = folder / "cut"
    shutil.copytree(writer.data_dir, cut)
    transaction_directory.cut(cut)
    return Written(states(cut), {name: open_and_go_on(brokers, name, cut) for name in BROKERS})


def open_until_complete(broker: Kafka | Ours, directory: Path) -> tuple[Seen, dict[str, State]]:
    """Open a copy of the directory; return what is in it when the prepared transaction is complete."""
    broker.open(directory)
    wait_for_leaders(broker.bootstrap, TOPICS)
    transaction_directory.wait_until(is_complete(broker))
    return see(broker), states(broker.data_dir)


def open_and_go_on(brokers: dict[str, Kafka | Ours], name: str, directory: Path) -> Opened:
    """Open a copy of the directory with a broker, and afterwards with the other one."""
    broker = brokers[name]
    at_once, states_at_once = open_until_complete(broker, directory)
    # A coordinator of Apache Kafka that loads before it knows the leaders drops their markers, and yet completes.
    while name == "kafka" and any(first != NO_OFFSET for _, _, first in at_once.producers[PREPARED].values()):
        broker.close()
        at_once, states_at_once = open_until_complete(broker, directory)
    transaction_directory.go_on(broker.bootstrap)
    transaction_directory.wait_until(lambda: all(one.status == COMPLETE_COMMIT for one in last(broker)))
    later = see(broker)
    broker.close()
    states_later = states(broker.data_dir)
    [other] = [brokers[other] for other in BROKERS if other != name]
    other.open(broker.data_dir)
    wait_for_leaders(other.bootstrap, TOPICS)
    by_other = see(other)
    other.close()
    return Opened(at_once, states_at_once, later, states_later, by_other, states(other.data_dir))


def last(broker: Kafka | Ours) -> list[State]:
    return [state for name, state in states(broker.data_dir).items() if name in TOPICS]


def test_directory_has_transactions_open_prepared_and_complete(written: Written) -> None:
    found = {name: written.states[name].status for name in TOPICS}
    assert found == {COMPLETE: COMPLETE_COMMIT, OPEN: ONGOING, PREPARED: PREPARE_COMMIT}
    assert written.states[PREPARED].partitions == {PREPARED: [0], transaction_directory.OFFSETS: [0]}


@pytest.mark.parametrize("name", BROKERS)
def test_prepared_transaction_is_completed_and_open_one_stays_open(written: Written, name: str) -> None:
    at_once = written.opened[name].at_once
    none = ErrorCode.NONE
    assert at_once.offsets == {
        COMPLETE: (none, OFFSET),
        PREPARED: (none, OFFSET),
        OPEN: (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1),
    }
    assert at_once.committed[PREPARED] == [b"prepared, 0", b"prepared, 1"]
    assert at_once.committed[OPEN] == []
    assert at_once.stable[OPEN] < 0


def test_both_brokers_make_the_same_of_a_directory(written: Written) -> None:
    kafka, ours = (written.opened[name] for name in BROKERS)
    assert ours.at_once == kafka.at_once
    assert ours.states_at_once == kafka.states_at_once
    assert kafka.at_once.aborted[COMPLETE]


def test_both_brokers_go_on_alike(written: Written) -> None:
    kafka, ours = (written.opened[name] for name in BROKERS)
    assert ours.later == kafka.later
    assert ours.states_later == kafka.states_later
    assert ours.later.offsets == dict.fromkeys(TOPICS, (ErrorCode.NONE, LATER_OFFSET))
    assert [value for value in ours.later.everything[OPEN] if value not in ours.later.committed[OPEN]] == [
        b"open, 0",
        b"open, 1",
    ]


@pytest.mark.parametrize("name", BROKERS)
def test_other_broker_opens_what_one_has_left(written: Written, name: str) -> None:
    opened = written.opened[name]
    assert opened.other == opened.later
    assert opened.states_other == opened.states_later
