from typing import Any

from barnabas.commands._partitions import led_by, under_min_isr, under_replicated, without_leader, without_log


def partition(index: int, leader: int, in_sync: list[int], error_code: int = 0) -> dict[str, Any]:
    return {
        "partition_index": index,
        "leader_id": leader,
        "replica_nodes": [1, 2],
        "isr_nodes": in_sync,
        "error_code": error_code,
    }


TOPICS = [
    {"name": "a", "partitions": [partition(1, 1, [1]), partition(0, 1, [2, 1])]},
    {"name": "b", "partitions": [partition(0, -1, [1, 2]), partition(1, 1, [1, 2], error_code=5)]},
]


def test_partitions_without_a_leader() -> None:
    assert without_leader(TOPICS) == ["b-0", "b-1"]


def test_partitions_that_a_broker_leads() -> None:
    assert led_by(TOPICS, 1) == ["a-0", "a-1", "b-1"]


def test_partitions_with_replicas_out_of_sync() -> None:
    assert under_replicated(TOPICS) == ["a-1"]


def test_partitions_without_a_log_on_a_reachable_broker() -> None:
    copy = {"partition_index": 0, "is_future_key": True}
    log = {"partition_index": 1, "is_future_key": False}
    one = {"broker": 1, "log_dirs": [{"topics": [{"name": "a", "partitions": [log]}]}, {"topics": []}]}
    other = {"broker": 2, "log_dirs": [{"topics": [{"name": "a", "partitions": [log, copy]}]}]}
    assert without_log(TOPICS[:1], [one]) == ["a-0"]
    assert without_log(TOPICS[:1], [one, other]) == ["a-0"]
    assert without_log(TOPICS[:1], []) == []


def test_fewer_in_sync_replicas_than_the_topic_requires() -> None:
    topic = {"partition_index": 0, "isr_nodes": [1], "replica_nodes": [1, 2], "leader_id": 1, "error_code": 0}
    topics = [{"name": name, "partitions": [topic]} for name in ("a", "b", "c")]
    assert under_min_isr(topics, {"a": 2, "b": 1}) == ["a-0"]
    alone = [{"name": "a", "partitions": [{**topic, "replica_nodes": [1]}]}]
    assert under_min_isr(alone, {"a": 2}) == []
