from __future__ import annotations

import json
import re

from confluent_kafka import Producer

from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command, Halved


def test_partitions_are_described_with_their_offsets(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", f"{topic}:2", "-c", "retention.ms=-1")
    barnabas("produce", topic, "-p", "1", stdin=b"a\nb\n")
    shown = barnabas("topic", "describe", topic)
    assert shown.status == 0
    assert re.fullmatch(
        rf"TOPIC       {topic}\n"
        r"ID          [\w-]{22}\n"
        r"PARTITIONS  2\n"
        r"  retention\.ms=-1\n"
        r"PARTITION  LEADER  EPOCH  REPLICAS  IN-SYNC  START  END  RECORDS\n"
        r" +0 +1 +0  1 +1 +0 +0 +0\n"
        r" +1 +1 +0  1 +1 +0 +2 +2\n",
        shown.out,
    )


def test_every_setting_is_shown_on_request(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    (own,) = json.loads(barnabas("topic", "describe", topic, "--json").out)
    (everything,) = json.loads(barnabas("topic", "describe", topic, "--json", "--all").out)
    assert own["configs"] == {}
    assert everything["configs"]["cleanup.policy"] == "delete"


def test_a_topic_that_does_not_exist_is_named_and_the_others_are_described(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    status, out, err = barnabas("topic", "describe", "missing", topic)
    assert status == 1
    assert topic in out
    assert err == "barnabas topic describe: missing: there is no such topic\n"


def test_offsets_are_not_known_where_the_leader_does_not_answer(call: Command, halved: Halved) -> None:
    shown = call("topic", "describe", "t", "--json", "-b", halved.alive)
    (described,) = json.loads(shown.out)
    known = [one["partition"] for one in described["partitions"] if one["end"] == 0]
    assert [f"t-{index}" for index in known] == halved.led
    why = "the leader does not answer: offsets and open transactions are unknown"
    assert (shown.status, shown.err) == (1, f"barnabas topic describe: {', '.join(halved.lost)}: {why}\n")


def test_transaction_that_read_committed_consumers_wait_for_is_named(
    barnabas: Command, topic: str, shared_broker: BrokerProcess
) -> None:
    barnabas("produce", topic, "-p", "0", stdin=b"before\n")
    assert "STABLE-END" not in barnabas("topic", "describe", topic).out
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "transactional.id": f"id-{topic}"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush()
    try:
        shown = barnabas("topic", "describe", topic)
        (described,) = json.loads(barnabas("topic", "describe", topic, "--json").out)
    finally:
        producer.abort_transaction()
    *_, title, header, row = shown.lines
    assert title == "read_committed consumers wait at STABLE-END for:"
    assert header.split() == [
        "PARTITION", "STABLE-END", "END", "PRODUCER-ID", "EPOCH", "START", "DURATION", "STATE", "TRANSACTIONAL-ID",
    ]  # fmt: skip
    assert re.fullmatch(rf" +0 +1 +2 +\d+ +\d+ +1  \d+s +Ongoing  id-{topic}", row)
    (partition,) = described["partitions"]
    assert (partition["stable_end"], partition["end"]) == (1, 2)
    (transaction,) = partition["transactions"]
    assert (transaction["transactional_id"], transaction["start"]) == (f"id-{topic}", 1)
    assert transaction["duration_ms"] >= 0
    assert transaction["started_ms"] > 0


def test_a_pattern_that_no_topic_matches_is_an_error(barnabas: Command) -> None:
    shown = barnabas("topic", "describe", "^nosuch")
    assert (shown.status, shown.out) == (1, "")
    assert shown.err == "barnabas topic describe: ^nosuch: no topic matches\n"
