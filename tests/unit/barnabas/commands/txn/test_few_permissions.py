"""Open transactions of transactional ids that the user of the commands may not describe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaProducer

from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command, transactional_producer

Committed = Callable[[], list[str]]
NO_DESCRIBE = "the coordinators are unknown: the user lacks DESCRIBE on topic __transaction_state"


@contextmanager
def hidden(guarded: Command, *resource: str) -> Iterator[None]:
    """Leave a resource to another user: an entry about it ends what everyone was allowed."""
    entry = ("--allow-principal", "User:other", "--operation", "describe", *resource)
    assert guarded("acl", "add", *entry).status == 0
    yield
    assert guarded("acl", "remove", *entry).status == 0


@pytest.fixture
def producing(guarded_broker: BrokerProcess, guarded: Command, topic: str) -> Iterator[KafkaProducer]:
    """Yield a producer whose transaction, of the test's topic as its id, is open in that topic.

    It looks its coordinator up once; librdkafka does again and again, and fails while the id is hidden.
    """
    assert guarded("topic", "create", topic).status == 0
    producer = KafkaProducer(bootstrap_servers=guarded_broker.bootstrap, transactional_id=topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"paid")
    producer.flush()
    yield producer
    producer.close()


def state(guarded: Command, topic: str) -> str | None:
    """Return the state of the open transaction in the topic's partition, as it is described."""
    (described,) = json.loads(guarded("topic", "describe", topic, "--json").out)
    (transaction,) = described["partitions"][0]["transactions"]
    found: str | None = transaction["state"]
    return found


@pytest.fixture
def committed(guarded_broker: BrokerProcess, guarded: Command, topic: str, producing: KafkaProducer) -> Committed:
    """Return a function that commits the transaction, waits for its markers, and returns the topic's records."""

    def records() -> list[str]:
        producing.commit_transaction()
        transactional_producer(guarded_broker, topic)
        return guarded("consume", topic, "--exit", "-X", "isolation.level=read_committed").lines

    return records


def test_young_transaction_of_a_hidden_id_is_neither_marked_nor_aborted(
    guarded: Command, topic: str, committed: Committed
) -> None:
    assert state(guarded, topic) == "Ongoing"
    with hidden(guarded, "--transactional-id", topic):
        assert json.loads(guarded("txn", "list", "--pattern", topic, "--json").out) == []
        assert state(guarded, topic) is None
        shown = guarded("txn", "abort", topic, "-p", "0", "-o", "0")
    assert (shown.status, shown.out) == (1, "")
    assert "may not hang: its latest record is " in shown.err
    assert "whose transactional id the user may not describe could still commit it" in shown.err
    assert committed() == ["paid"]


def test_without_describe_on_the_topic_of_the_coordinators_nothing_is_called_hanging(
    guarded: Command, topic: str, committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.commands._transactions.may_hang", lambda *_: True)  # as if it were old
    with hidden(guarded, "--transactional-id", topic):
        assert state(guarded, topic) == "hanging"
        with hidden(guarded, "--topic", "__transaction_state"):
            assert state(guarded, topic) is None
            aborted = guarded("txn", "abort", topic, "-p", "0", "-o", "0")
            sought = guarded("txn", "hanging", "--topic", topic, "--max-transaction-timeout", "0s")
    assert (aborted.status, aborted.out, sought.status, sought.out) == (1, "", 1, "")
    assert f"{NO_DESCRIBE}; --force aborts it" in aborted.err
    assert sought.err == f"barnabas txn hanging: cannot look up 1 open transactions: {NO_DESCRIBE}\n"
    assert committed() == ["paid"]
