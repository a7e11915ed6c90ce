from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.testing import Cluster, ClusterError, ControlRefusal, Topic, WaitTimeout


class UndeliveredError(Exception):
    """The producer has given a record up."""


def produce(cluster: Cluster, topic: Topic, value: str, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **settings})
    errors: list[Any] = []
    producer.produce(topic.name, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush()
    if errors[0] is not None:  # comparing an error with None would raise
        raise UndeliveredError(errors[0].code())


def test_requests_get_the_error_so_many_times_and_the_kits_own_never(one: Cluster) -> None:
    topic = one.topic()
    with one.fault("Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", count=2) as fault:
        topic.produce(["by the kit"])
        assert fault.matches == 0
        produce(one, topic, "a")
        fault.wait(hits=2)
        assert fault.hits == 2
    assert [record.value for record in topic.expect(2)] == [b"by the kit", b"a"]


def test_a_lost_acknowledgement_is_a_record_that_the_producer_sends_again(one: Cluster) -> None:
    topic = one.topic()
    with one.fault("Produce", topic=topic, disconnect="after", count=1):
        produce(one, topic, "twice")
    assert len(topic.expect(2)) == 2
    with one.fault("Produce", topic=topic, disconnect="after", count=1):
        produce(one, topic, "once", **{"enable.idempotence": True})
    assert len(topic.expect(3)) == 3


def test_held_requests_go_on_when_they_are_released_or_the_rule_is_removed(one: Cluster) -> None:
    topic = one.topic()
    for release in (True, False):
        fault = one.fault("Produce", topic=topic, hold="before", count=1)
        thread = threading.Thread(target=produce, args=(one, topic, "held"))
        thread.start()
        fault.wait(hits=1, timeout=60)
        before = len(topic.records())
        if release:
            fault.release()
        fault.remove()
        thread.join()
        assert len(topic.expect(before + 1)) == before + 1


def test_a_rule_applies_to_the_named_client_partition_and_broker_only(three: Cluster) -> None:
    topic = three.topic(partitions=3)
    leader = three.brokers[topic.leaders[0] - 1]
    with (
        three.fault("Produce", topic=topic, partition=[1, 2], error="INVALID_RECORD") as other_partitions,
        three.fault("Produce", topic=topic, client_id="me", broker=leader, error="INVALID_RECORD") as mine,
    ):
        produce(three, topic, "a")
        with pytest.raises(UndeliveredError):
            produce(three, topic, "b", **{"client.id": "me"})
        assert (other_partitions.hits, mine.hits) == (0, 1)


def test_a_rule_is_in_force_again_when_a_broker_was_restarted(three: Cluster) -> None:
    topic = three.topic()
    with three.fault("Produce", topic=topic, error="INVALID_RECORD") as fault:
        three.brokers[topic.leaders[0] - 1].kill()
        for broker in three.brokers:
            if not broker.is_running:
                broker.start()
        with pytest.raises(UndeliveredError):
            produce(three, topic, "a")
        fault.wait(hits=1)


def test_a_wait_for_hits_of_a_removed_fault_says_so_at_once(one: Cluster) -> None:
    with one.fault("Produce", topic="nothing", hold="before") as fault:
        pass
    with pytest.raises(ClusterError, match="the fault has been removed"):
        fault.wait(hits=1, timeout=0.2)


def test_a_wait_in_vain_says_what_was_seen(one: Cluster) -> None:
    late = pytest.raises(WaitTimeout, match=r"2 hits of the fault expected within 0\.01 s, 0 seen; ")
    with one.fault("Produce", topic="nothing", delay=1.5, when="after") as fault, late:
        fault.wait(hits=2, timeout=0.01)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({}, ValueError, "a fault has one action of error, delay, disconnect, throttle, corrupt, hold"),
        ({"error": "X", "hold": "before"}, ValueError, "not error and hold"),
        ({"topc": "t", "error": "X"}, ValueError, r"a fault has no topc; did you mean topic\?"),
        ({"delay": "1 s"}, TypeError, "delay='1 s': it has to be a number, not str"),
        (
            {"group": "g", "delay": 1},
            ControlRefusal,
            "group: a rule for Produce cannot have one; it can have",
        ),
        ({"error": "NOT_LEADER"}, ClusterError, "NOT_LEADER"),
        ({"error": "UNKNOWN_SERVER_ERROR", "broker": [1, 9]}, ClusterError, "there is no broker 9; there are: 1"),
    ],
)
def test_a_wrong_rule_is_refused(one: Cluster, fields: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        one.fault("Produce", **fields)


def rules(cluster: Cluster) -> list[int]:
    """The number of rules of each broker."""
    return [len(broker.control.call("GET", "/v1/faults")["faults"]) for broker in cluster.brokers]


def test_a_broker_that_is_paused_gets_and_loses_rules_when_it_is_resumed(three: Cluster) -> None:
    paused = three.brokers[2]
    paused.pause()
    with three.fault("Produce", error="INVALID_RECORD"):
        paused.resume()
        assert rules(three) == [1, 1, 1]
        paused.pause()
    paused.resume()
    assert rules(three) == [0, 0, 0]


def test_a_rule_of_a_paused_broker_that_is_started_again_takes_no_other_with_it(three: Cluster) -> None:
    paused = three.brokers[2]
    with three.fault("Produce", error="INVALID_RECORD"):
        paused.pause()
    paused.kill()
    paused.start()
    with three.fault("Fetch", error="INVALID_RECORD"):  # it has the id that the other one had
        paused.pause()
        paused.resume()
        assert rules(three) == [1, 1, 1]


def test_a_reset_removes_rules_for_good() -> None:
    with Cluster() as cluster:
        fault = cluster.fault("Produce", error="INVALID_RECORD")
        cluster.reset()
        cluster.brokers[0].restart()
        assert rules(cluster) == [0]
        fault.remove()


def test_a_block_ends_without_an_error_when_its_rule_is_gone_already() -> None:
    with Cluster() as cluster:
        with cluster.fault("Produce", error="INVALID_RECORD"):
            cluster.sweep()
        with cluster.fault("Produce", error="INVALID_RECORD") as fault:
            os.kill(cluster.brokers[0].pid, signal.SIGKILL)
        assert fault.hits == 0
