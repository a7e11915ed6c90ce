"""A topic's records through the control API: append them, read on from offsets, wait for more.

The records go past Kafka's protocol: no rule of a fault applies to them, and no transcript has them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import count

from barnabas.testing._control import first_ready, path_of
from barnabas.testing._leaders import Leaders
from barnabas.testing._nodes import Nodes
from barnabas.testing.broker import Broker
from barnabas.testing.errors import ClusterError
from barnabas.testing.records import Position, RecordFields, TopicRecord, from_json, partition_of, to_json

LEADER_S = 10.0
"""The time that a partition may be without a leader."""
_LIMIT = 10_000
_ANSWER_S = 5.0
"""The time that a broker may take to answer that a wait was in vain."""


class RecordLog:
    """The records of one topic."""

    def __init__(self, nodes: Nodes, topic: str) -> None:
        """Access a topic, which may not exist yet."""
        self.leaders = Leaders(nodes, topic)
        self._topic = topic
        self._path = path_of("topics", topic, "records")
        self._turn = count()

    def append(self, records: Sequence[RecordFields]) -> list[Position]:
        """Append records; return their places in the same order. ClusterError if not all are stored."""
        partitions = self.leaders.partitions()
        placed = [self._partition(record, len(partitions)) for record in records]
        stored: dict[int, Position] = {}

        def append_rest() -> list[Position] | None:
            for broker, led in self.leaders.by_broker(partitions):
                some = [at for at, partition in enumerate(placed) if partition in led and at not in stored]
                rows = [{"partition": placed[at], **to_json(records[at])} for at in some]
                if rows:
                    answer = broker.control.call("POST", self._path, {"records": rows})
                    stored.update(zip(some, (Position(**one) for one in answer["records"]), strict=True))
            return [stored[at] for at in range(len(records))]

        return self.leaders.until_led(append_rest, time.monotonic() + LEADER_S)

    def _partition(self, record: RecordFields, partitions: int) -> int:
        if record.partition is None:
            return next(self._turn) % partitions if record.key is None else partition_of(record.key, partitions)
        if 0 <= record.partition < partitions:
            return record.partition
        raise ClusterError(f"topic {self._topic} has {partitions} partitions, and no partition {record.partition}")

    def read(
        self, after: Mapping[int, int], isolation: str, timeout_s: float = LEADER_S
    ) -> tuple[list[TopicRecord], dict[int, int]]:
        """Return the records from the offsets `after` on, or all, and the offsets that follow them.

        `NoLeader` if a partition is without a leader for longer than `timeout_s`.
        """
        __tracebackhide__ = True
        records: list[TopicRecord] = []
        following: dict[int, int] = {}

        def read_rest() -> bool | None:
            left = self.leaders.partitions() - following.keys()
            for broker, led in self.leaders.by_broker(left):
                found, ends = self._read_at(broker, {one: after[one] for one in led if one in after}, isolation)
                records.extend(record for record in found if record.partition in led)
                following.update((partition, end) for partition, end in ends.items() if partition in led)
            return True if self.leaders.partitions() <= following.keys() else None

        self.leaders.until_led(read_rest, time.monotonic() + timeout_s)
        return sorted(records), following

    def _read_at(
        self, broker: Broker, after: Mapping[int, int], isolation: str
    ) -> tuple[list[TopicRecord], dict[int, int]]:
        """Return the records of partitions that a broker leads: from offsets on, or of all from their start."""
        found: list[TopicRecord] = []
        while True:
            offsets = ",".join(f"{partition}:{offset}" for partition, offset in after.items()) or None
            path = path_of("topics", self._topic, "records", offsets=offsets, limit=_LIMIT, isolation=isolation)
            answer = broker.control.call("GET", path)
            found += map(from_json, answer["records"])
            after = {int(partition): offset for partition, offset in answer["next"].items()}
            if len(answer["records"]) < _LIMIT:
                return found, dict(after)

    def commit(self) -> None:
        """Wait until the records that the leaders have are committed: until the followers have them, after a start."""

        def wait() -> bool:
            for broker, led in self.leaders.by_broker(self.leaders.partitions()):
                described = broker.control.call("GET", path_of("topics", self._topic))["partitions"]
                ends = {one["partition"]: one["offsets"]["log_end"] for one in described if one["partition"] in led}
                for partition, end in ends.items():
                    body = {"topic": self._topic, "partition": partition, "offset": end}
                    broker.control.call("POST", path_of("wait", "log-end"), body)
            return True

        self.leaders.until_led(wait, time.monotonic() + LEADER_S)

    def wait_for_more(self, after: Mapping[int, int], isolation: str, timeout_s: float) -> bool:
        """Wait until a partition has records beyond its offset in `after`; return whether one has in time."""
        deadline = time.monotonic() + timeout_s

        def wait() -> bool | None:
            left_s = max(0.0, deadline - time.monotonic())
            with ExitStack() as calls:
                waiting = []
                for broker, led in self.leaders.by_broker(after):
                    body = {
                        "topic": self._topic,
                        "after": {str(one): after[one] for one in led},
                        "isolation": isolation,
                        "timeout_ms": round(left_s * 1000),
                    }
                    waiting.append(broker.control.begin("POST", path_of("wait", "records"), body))
                    calls.callback(waiting[-1].cancel)
                first = first_ready(waiting, left_s + _ANSWER_S)
                return first is not None and bool(first.result()["met"])

        return timeout_s > 0 and self.leaders.until_led(wait, deadline)
