from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from barnabas.testing import Cluster, ClusterError, Topic


def opened(cluster: Cluster, topic: Topic, transactional_id: str) -> Producer:
    """Return a producer whose transaction has one record."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic.name, b"open")
    assert producer.flush(30) == 0
    return producer


def commit_error(producer: Producer) -> KafkaError:
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(30)
    error: KafkaError = refused.value.args[0]
    return error


def test_a_fenced_producer_cannot_commit(three: Cluster) -> None:
    topic = three.topic()
    producer = opened(three, topic, "fenced")
    three.fence_producer("fenced")
    assert commit_error(producer).code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert topic.expect(0) == []


def test_a_transaction_is_aborted_before_its_commit(one: Cluster) -> None:
    topic = one.topic()
    producer = opened(one, topic, "aborted")
    asyncio.run(one.aio.abort_transaction("aborted"))
    assert len(topic.records("read_uncommitted")) == 1
    assert topic.expect(0) == []
    assert commit_error(producer).code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    with pytest.raises(ClusterError, match="aborted has no open transaction"):
        one.abort_transaction("aborted")


def test_an_unknown_transactional_id_is_named(one: Cluster) -> None:
    with pytest.raises(ClusterError, match="there is no transactional id nobodys"):
        one.fence_producer("nobodys")
