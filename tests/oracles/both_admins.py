"""Sends the same admin requests to Barnabas and Apache Kafka, and compares the responses.

Not compared: error messages, whose wording differs; the order of entries; and values that only
one broker has: ids, directories, addresses, metadata log offsets, free space.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from protocol.api import ApiKey
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.produce import ProduceRequest
from protocol.primitives import ZERO_UUID
from protocol.record_batch import build_batch
from tests.raw_client import RawClient

MISSING = "missing"
NOW_MS = 1_700_000_000_000
NOT_COMPARED = {
    "error_message",
    "log_dir",
    "usable_bytes",
    "high_watermark",
    "log_end_offset",
    "leader_epoch",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "replica_directory_id",
    "nodes",
}
NewTopic = CreateTopicsRequest.Topic
NAMES = count()


class Both:
    """Barnabas and Apache Kafka, with the same requests sent to both."""

    def __init__(self, ours: str, kafkas: str) -> None:
        self.clients = (RawClient(ours), RawClient(kafkas))
        self.ids: dict[str, tuple[bytes, bytes]] = {MISSING: (b"?" * 16,) * 2}

    def same(self, key: ApiKey, version: int, **fields: Any) -> Any:
        """Send a request to both; return our response as plain values, which must equal Kafka's."""
        ours, kafkas = (
            self._plain(client.call(key, version, **_for_side(fields, side)))
            for side, client in enumerate(self.clients)
        )
        assert ours == kafkas, f"{ours} is not {kafkas}"
        return ours

    def _plain(self, value: Any) -> Any:
        if isinstance(value, list):
            return sorted((self._plain(item) for item in value if not _is_ours(item)), key=repr)
        if isinstance(value, bytes):
            known = (name for name, ids in self.ids.items() if value in ids)
            return next(known, "an id" if value != ZERO_UUID else "no id")
        if value is None or isinstance(value, int | float | str):
            return value
        names = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
        return {name: self._plain(getattr(value, name)) for name in names if name not in NOT_COMPARED}

    def create(self, partitions: int = 1, **configs: Any) -> str:
        """Create a topic in both, and wait until Kafka serves it."""
        name = f"t{next(NAMES)}"
        topics = [counted(name, partitions, **configs)]
        answers = [
            client.call(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=30_000).topics[0] for client in self.clients
        ]
        assert [answer.error_code for answer in answers] == [0, 0]
        self.ids[name] = answers[0].topic_id, answers[1].topic_id
        requested = [ListOffsetsRequest.Topic.Partition(partition_index=at, timestamp=-1) for at in range(partitions)]
        wanted = [ListOffsetsRequest.Topic(name=name, partitions=requested)]
        while any(
            found.error_code
            for found in self.clients[1].call(ApiKey.LIST_OFFSETS, 8, replica_id=-1, topics=wanted).topics[0].partitions
        ):
            pass
        return name

    def produce(self, topic: str, **batch: Any) -> None:
        records = bytes(build_batch([(None, b"value")], timestamp_ms=NOW_MS, **batch))
        data = [ProduceRequest.Topic.Partition(index=0, records=records)]
        self.same(
            ApiKey.PRODUCE,
            12,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.Topic(name=topic, partition_data=data)],
        )


def _for_side(value: Any, side: int) -> Any:
    """Return `value` with side-dependent fields replaced by those of `side`."""
    return {name: given(side) if callable(given) else given for name, given in value.items()}


def counted(name: str, partitions: int = -1, replicas: int = 1, **configs: str | None) -> NewTopic:
    return NewTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[NewTopic.Config(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def _is_ours(item: Any) -> bool:
    """Return whether it is a configuration that Apache Kafka does not have."""
    return str(getattr(item, "name", "")).startswith("barnabas.")


def assigned(name: str, *pairs: tuple[int, list[int]], partitions: int = -1, replicas: int = -1) -> NewTopic:
    topic = counted(name, partitions, replicas)
    topic.assignments = [NewTopic.Assignment(partition_index=index, broker_ids=brokers) for index, brokers in pairs]
    return topic
