from __future__ import annotations

import pytest

from broker.coordinator.runtime.partition_for import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-1", 35782224),
        # Two UTF-16 units.
        ("\U0001f600", 1772899),
        # -862545276 in Java.
        ("Hello World", 862545276),
        # Integer.MIN_VALUE: its absolute value overflows a Java int.
        ("polygenelubricants", 0),
    ],
)
def test_partition_is_the_absolute_value_of_java_string_hash_modulo_partitions(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    ("group", "partition"),
    [("hello", 22), ("console-consumer-1", 24), ("test-group", 12), ("group-42", 20), ("\U0001f600", 49)],
)
def test_group_partition_equals_that_of_apache_kafka(group: str, partition: int) -> None:
    assert partition_for(group, 50) == partition
