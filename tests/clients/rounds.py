"""Rounds of records for a group: the member that prints a record owns its partition."""

import itertools
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.clients.members import Group, Member

PARTITIONS = 4
# Each step of a group takes a session timeout and a rebalance; a JVM starts slowly on a busy machine.
STEP_TIMEOUT_S = 90


class Rounds:
    """Produces rounds of one record per partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        self._topic = topic
        self._numbers = itertools.count()
        self.produced: set[str | None] = set()

    def produce(self) -> set[str | None]:
        """Produce one round and return its values."""
        number = next(self._numbers)
        values: set[str | None] = set()
        for partition in range(PARTITIONS):
            value = f"round {number} partition {partition}"
            self._producer.produce(self._topic, value, partition=partition)
            values.add(value)
        assert self._producer.flush(30) == 0
        self.produced |= values
        return values


def produce_until(group: Group, rounds: Rounds, shown: Callable[[set[str | None]], bool]) -> None:
    """Produce rounds, each after the last was seen or timed out, until ``shown`` holds for one."""
    for _ in range(int(STEP_TIMEOUT_S / 0.5)):
        values = rounds.produce()
        if group.wait_for(lambda values=values: shown(values), 0.5):  # type: ignore[misc]  # a lambda with a default has no inferred type
            return
        if all(member.ended is not None for member in group.members):
            break
    logs = "".join(path.read_text()[-2000:] for path in sorted(group.logs.glob("*.log")))
    counts = [(member.ended, len(member.records)) for member in group.members]
    pytest.fail(f"no round was shared out as expected; exit status and records of each member: {counts}\n{logs}")


def shared_by(*members: Member) -> Callable[[set[str | None]], bool]:
    """Return a condition: the members have received a round together, each a part of it."""

    def shown(values: set[str | None]) -> bool:
        parts = [member.values() & values for member in members]
        return all(parts) and set().union(*parts) == values and sum(map(len, parts)) == len(values)

    return shown
