from __future__ import annotations

import uuid

import pytest
from kafka import KafkaAdminClient, TopicPartition

from barnabas.commands._topics import choose, end_offsets, offsets_at, partitions_of, start_offsets, uuid_text
from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert uuid_text(uuid.UUID(int=0)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text("ffffffff-ffff-ffff-ffff-ffffffffffff") == "_____________________w"


def test_topics_are_chosen_in_the_order_of_their_names_and_then_by_patterns(
    barnabas: Command, topic: str, shared_broker: BrokerProcess
) -> None:
    barnabas("topic", "create", f"{topic}-a", f"{topic}-b:2", f"{topic}-c")
    client = KafkaAdminClient(bootstrap_servers=shared_broker.bootstrap)
    try:
        chosen = choose(client, [f"{topic}-c", "missing", f"^{topic}-"])
        assert [one["name"] for one in chosen] == [f"{topic}-c", "missing", f"{topic}-a", f"{topic}-b"]
        assert [bool(one["error_code"]) for one in chosen] == [False, True, False, False]
        partitions = partitions_of(chosen[3:])
        assert partitions == [TopicPartition(f"{topic}-b", 0), TopicPartition(f"{topic}-b", 1)]
        nothing = dict.fromkeys(partitions, 0)
        assert start_offsets(client, partitions) == end_offsets(client, partitions) == nothing
        assert offsets_at(client, partitions, 1) == nothing
    finally:
        client.close()


@pytest.mark.parametrize(
    "words",
    [
        "topic describe {}",
        "topic list {}",
        "topic delete {}",
        "topic trim {} --to 0",
        "topic add-partitions {} -n 1",
        "topic alter {} -p 2",
        "topic alter {} -c retention.ms=1",
        "config get topic/{} retention.ms",
        "consume {} -e",
        "group seek new --to start --topics {}",
        "txn hanging -t {}",
        "txn abort {} -p 0 -o 0",
    ],
)
def test_mistyped_topic_is_answered_with_the_closest_one(barnabas: Command, words: str) -> None:
    barnabas("topic", "create", "mistyped-topic", "--if-not-exists")
    shown = barnabas(*words.format("mytisped-topic").split())
    assert (shown.status, shown.out) == (1, "")
    assert shown.err.endswith("; did you mean mistyped-topic?\n")
