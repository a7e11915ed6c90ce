from __future__ import annotations

import json
import re

from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command, Halved


def test_bytes_are_counted_by_directory_topic_and_partition(
    barnabas: Command, topic: str, shared_broker: BrokerProcess
) -> None:
    barnabas("topic", "create", f"{topic}:2")
    barnabas("produce", topic, "-p", "1", stdin=b"x" * 1000 + b"\n")
    (whole,) = json.loads(barnabas("cluster", "log-dirs", "--json").out)
    assert whole["dir"] == str(shared_broker.data_dir)
    assert whole["usable_bytes"] < whole["disk_bytes"]
    rows = json.loads(barnabas("cluster", "log-dirs", "--by", "topic", "--json").out)
    (mine,) = [row for row in rows if row["topic"] == topic]
    assert (mine["partitions"], mine["bytes"] > 1000) == (2, True)
    assert sum(row["bytes"] for row in rows) == whole["bytes"]
    rows = json.loads(barnabas("cluster", "log-dirs", "--by", "partition", "--json").out)
    assert {row["partition"]: row["bytes"] for row in rows if row["topic"] == topic} == {0: 0, 1: mine["bytes"]}


def test_unreachable_broker_is_reported_below_the_others(call: Command, halved: Halved) -> None:
    status, out, err = call("cluster", "log-dirs", "--json", "-b", halved.alive)
    assert [row["broker"] for row in json.loads(out)] == [2]
    assert (status, err) == (
        1,
        f"barnabas cluster log-dirs: broker 1 cannot be reached at {halved.dead} (connection refused)\n",
    )


def test_sizes_have_units_in_the_table(barnabas: Command, topic: str) -> None:
    barnabas("produce", topic, stdin=b"x" * 3000 + b"\n")
    assert re.search(rf" {topic} +[\d.]+ KiB ", barnabas("cluster", "log-dirs", "--by", "topic").out)
