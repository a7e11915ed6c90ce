from __future__ import annotations

from tests.unit.barnabas.conftest import Command


def test_partition_count_is_increased_by_a_number(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", f"{topic}:2")
    assert barnabas("topic", "add-partitions", topic, "-n", "3", "--dry-run").out.startswith(f"would extend {topic}")
    assert barnabas("topic", "add-partitions", topic, "--num", "3") == (0, f"extended {topic}: 5 partitions now\n", "")


def test_a_topic_that_does_not_exist_is_named(barnabas: Command) -> None:
    assert barnabas("topic", "add-partitions", "missing", "-n", "1") == (
        1,
        "",
        "barnabas topic add-partitions: missing: there is no such topic\n",
    )
