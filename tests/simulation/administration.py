"""Administrators: create, change and delete topics, set configs, and delete records."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from controller.partition_change import ELR_VERSION
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.record_batch import build_batch, iter_batches, iter_records
from simulation.violation import Invariant
from tests.simulation.client import Address, Client, Lost
from tests.simulation.history import History
from tests.simulation.workload import PATIENCE, Topic
from tests.typed import present

_TOPIC_RESOURCE = 2
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
# Errors of a topic creation on a failing disk.
_HARD = PATIENCE - {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def create_topic(client: Client, name: str, partitions: int, replicas: int, config: dict[str, str]) -> Topic:
    """Create a topic, with retries; return it once Metadata lists it."""
    compacted = "compact" in config.get("cleanup.policy", "")
    configs = [CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in config.items()]
    wanted = CreateTopicsRequest.Topic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=configs
    )
    while True:
        try:
            answer = await client.call(
                client.any_broker(), ApiKey.CREATE_TOPICS, 7, topics=[wanted], timeout_ms=2000, validate_only=False
            )
            [one] = answer.topics
            code = ErrorCode(one.error_code)
            if code is ErrorCode.NONE:
                return Topic(name, one.topic_id, partitions, compacted=compacted)
            if code is ErrorCode.TOPIC_ALREADY_EXISTS:
                found = await describe(client, name)
                if found is not None:
                    return Topic(name, found.topic_id, len(found.partitions), compacted=compacted)
            else:
                few = client.world.clustered and code is ErrorCode.INVALID_REPLICATION_FACTOR
                client.world.check(
                    Invariant.ADMIN_ANSWERS,
                    few or code in PATIENCE,
                    f"{name} is not created: {code.name}: {one.error_message}",
                )
        except Lost:
            pass
        await client.pause(0.3)


async def keep_eligible_replicas(client: Client, keep: bool) -> None:
    """Enable or disable eligible leader replicas (KIP-966)."""
    update = UpdateFeaturesRequest.Update(
        feature=ELR_VERSION, max_version_level=int(keep), upgrade_type=_UPGRADE if keep else _SAFE_DOWNGRADE
    )
    while True:
        try:
            answer = await client.call(
                client.any_broker(), ApiKey.UPDATE_FEATURES, 2, timeout_ms=1000, feature_updates=[update]
            )
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                return
            client.world.check(
                Invariant.ADMIN_ANSWERS,
                code in PATIENCE,
                f"{ELR_VERSION} is refused: {code.name}: {answer.error_message}",
            )
        except Lost:
            pass
        await client.pause(0.3)


async def set_config(client: Client, topic: str, name: str, value: str) -> None:
    """Set a topic config, with retries."""
    config = IncrementalAlterConfigsRequest.Resource.Config(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsRequest.Resource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=[config]
    )
    while True:
        try:
            answer = await client.call(
                client.any_broker(), ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
            )
            code = ErrorCode(answer.responses[0].error_code)
            if code is ErrorCode.NONE:
                return
            client.world.check(Invariant.ADMIN_ANSWERS, code in PATIENCE, f"{name} of {topic}: {code.name}")
        except Lost:
            pass
        await client.pause(0.3)


async def describe(client: Client, name: str) -> Any:
    """Return the topic's Metadata response, or None if the topic does not exist; raise `Lost` without a response."""
    answer = await client.call(
        client.fresh_broker(),
        ApiKey.METADATA,
        12,
        topics=[MetadataRequest.Topic(name=name)],
        allow_auto_topic_creation=False,
    )
    [one] = answer.topics
    code = ErrorCode(one.error_code)
    if code in _GONE:
        return None
    client.world.check(Invariant.ADMIN_ANSWERS, code is ErrorCode.NONE, f"Metadata says {code.name} of {name}")
    return one


class TopicAdministrator:
    """Create a topic, use it, change it, delete it, and create another one of the same name."""

    def __init__(self, client: Client, replicas: int) -> None:
        self.client = client
        self._replicas = replicas
        self._name = f"{client.name}-topic"
        self._former: set[bytes] = set()
        self._starts = 0
        self._perhaps_set: list[str] = []
        """Config values without a response: they may take effect at any time."""

    async def run(self) -> None:
        while not self.client.world.stopping:
            await self.round()

    async def round(self) -> None:
        client, world, random = self.client, self.client.world, self.client.random
        check = world.check
        topic = await create_topic(client, self._name, random.randint(1, 3), self._replicas, {})
        check(
            Invariant.TOPIC_IDS_ARE_UNIQUE,
            topic.topic_id not in self._former,
            f"{self._name} is created anew with the id that it had",
        )
        world.count("topics created")
        if world.clustered and self._former:
            await self._use_former(random.choice(sorted(self._former)))
        self._starts = world.hosts[0].starts
        values = {index: await self._write(topic, index) for index in range(topic.partitions)}
        changes = [self._grow, self._set, self._look]
        for change in random.sample(changes, random.randint(0, len(changes))):
            await self._until_answered(change, topic)
            await client.pause()
        for index, value in values.items():
            if value is not None:
                await self._until_answered(self._read, topic, index, value)
        await self._delete(topic)
        self._former.add(topic.topic_id)
        await client.pause()

    async def serve_at_once(self) -> None:
        """Create a topic while everything works; it must be usable as soon as the response arrives (rule 26)."""
        self.client.loop = asyncio.get_running_loop()  # type: ignore[assignment]  # a simulated one, as all here
        self.client.drop_links()
        topic = await create_topic(self.client, f"{self._name}-at-once", 3, self._replicas, {})
        for index in range(topic.partitions):
            value = await self._write(topic, index)
            self.client.world.check(
                Invariant.NEW_TOPICS_ARE_WRITABLE,
                value is not None,
                f"{topic.name}-{index} was created, and cannot be written to",
            )

    async def _use_former(self, topic_id: bytes) -> None:
        """Produce to and fetch from a deleted topic by its id, which no topic has any more."""
        client, batch = self.client, build_batch([(None, b"former")], timestamp_ms=0)
        written = ProduceRequest.Topic.Partition(index=0, records=memoryview(batch))
        read = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=10_000)
        try:
            address = client.fresh(await self._leader(Topic(self._name, topic_id, 1), 0))
            topics = [ProduceRequest.Topic(topic_id=topic_id, partition_data=[written])]
            answer = await client.call(address, ApiKey.PRODUCE, 13, acks=-1, timeout_ms=1000, topic_data=topics)
            [[one]] = [topic.partition_responses for topic in answer.responses]
            client.world.check(
                Invariant.FORMER_TOPIC_IDS_ARE_REFUSED,
                one.error_code,
                f"{self._name} takes records for the topic that was deleted",
            )
            wanted = [FetchRequest.Topic(topic_id=topic_id, partitions=[read])]
            answer = await client.call(address, ApiKey.FETCH, 13, max_wait_ms=0, min_bytes=0, topics=wanted)
            [[one]] = [topic.partitions for topic in answer.responses]
            client.world.check(
                Invariant.FORMER_TOPIC_IDS_ARE_REFUSED,
                one.error_code,
                f"{self._name} is read for the topic that was deleted",
            )
        except Lost:
            client.forget()

    async def _until_answered(self, work: Any, *args: Any) -> None:
        """Repeat `work` until no response is lost."""
        while True:
            try:
                await work(*args)
            except Lost:
                self.client.forget()
                await self.client.pause(0.3)
            else:
                return

    async def _write(self, topic: Topic, index: int) -> bytes | None:
        """Produce to a topic right after its creation (rule 26); return None if the outcome is unknown."""
        client = self.client
        value = topic.topic_id.hex().encode()
        batch = build_batch([(b"k", value)], timestamp_ms=client.world.hosts[0].now_ms())
        part = ProduceRequest.Topic.Partition(index=index, records=memoryview(batch))
        topics = [ProduceRequest.Topic(topic_id=topic.topic_id, partition_data=[part])]
        try:
            address = await self._leader(topic, index)
            answer = await client.call(address, ApiKey.PRODUCE, 13, acks=-1, timeout_ms=1000, topic_data=topics)
        except Lost:
            client.forget()
            return None
        [[one]] = [topic.partition_responses for topic in answer.responses]
        code = ErrorCode(one.error_code)
        behind = client.world.clustered and code in _GONE
        allowed = code is ErrorCode.NONE or code in _HARD or behind
        client.world.check(
            Invariant.NEW_TOPICS_ARE_WRITABLE, allowed, f"{topic.name}-{index} was created, and says {code.name}"
        )
        if code is ErrorCode.NONE:
            client.world.check(
                Invariant.NEW_TOPICS_ARE_EMPTY,
                one.base_offset == 0,
                f"the first record of {topic.name}-{index} is {one.base_offset}",
            )
        return value if code is ErrorCode.NONE else None

    async def _read(self, topic: Topic, index: int, value: bytes) -> None:
        client, cuts_before = self.client, self.client.world.power_cuts
        wanted = FetchRequest.Topic.Partition(partition=index, fetch_offset=0, partition_max_bytes=10_000)
        topics = [FetchRequest.Topic(topic_id=topic.topic_id, partitions=[wanted])]
        address = await self._leader(topic, index)
        answer = await client.call(address, ApiKey.FETCH, 13, max_wait_ms=0, min_bytes=0, topics=topics)
        [[one]] = [topic.partitions for topic in answer.responses]
        code = ErrorCode(one.error_code)
        replica = present(client.world.host_at(address).broker).replicas.find_named(topic.name, index)
        started = self._starts < client.world.hosts[0].starts
        there = client.world.clustered or (started and replica is not None and replica.log.log_end_offset > 0)
        knows_nothing = code is ErrorCode.NONE and one.high_watermark < 1 and there  # not committed yet, after a start
        if knows_nothing or (client.world.clustered and code in _GONE):
            raise Lost("this leader does not know yet, or another is to lead")
        client.world.check(
            Invariant.ADMIN_ANSWERS, code is ErrorCode.NONE or code in _HARD, f"{topic.name}-{index}: {code.name}"
        )
        data = bytes(one.records or b"")
        found = [
            record.value
            for at, header in iter_batches(data)
            for record in iter_records(memoryview(data)[at : at + header.size_bytes])
        ]
        client.world.check(
            Invariant.NEW_TOPICS_ARE_EMPTY,
            set(found) <= {value},
            f"{topic.name}-{index} has {found}, which is another topic's",
        )
        if code is ErrorCode.NONE and (client.world.always or not cuts_before):
            client.world.check(Invariant.TOPIC_RECORDS_STAY, found, f"{topic.name}-{index} has lost its record")

    async def _leader(self, topic: Topic, index: int) -> Address:
        return await self.client.leader(topic.name, index) if self.client.world.clustered else self.client.any_broker()

    async def _grow(self, topic: Topic) -> None:
        count = topic.partitions + 1
        wanted = CreatePartitionsRequest.Topic(name=topic.name, count=count, assignments=None)
        answer = await self.client.call(
            self.client.any_broker(),
            ApiKey.CREATE_PARTITIONS,
            3,
            topics=[wanted],
            timeout_ms=1000,
            validate_only=False,
        )
        code = ErrorCode(answer.results[0].error_code)
        again = code is ErrorCode.INVALID_PARTITIONS  # the first response was lost
        few = self.client.world.clustered and code is ErrorCode.INVALID_REPLICATION_FACTOR
        self.client.world.check(
            Invariant.ADMIN_ANSWERS,
            code is ErrorCode.NONE or again or few or code in _HARD,
            f"{topic.name}: {code.name}",
        )
        if code is ErrorCode.NONE or again:
            topic.partitions = count
        await self._look(topic)

    async def _set(self, topic: Topic) -> None:
        """Set a topic config and read it back."""
        client, value = self.client, str(self.client.random.randint(10**9, 10**12))
        config = IncrementalAlterConfigsRequest.Resource.Config(name="retention.ms", config_operation=0, value=value)
        resource = IncrementalAlterConfigsRequest.Resource(
            resource_type=_TOPIC_RESOURCE, resource_name=topic.name, configs=[config]
        )
        self._perhaps_set.append(value)
        answer = await client.call(
            client.any_broker(), ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
        )
        code = ErrorCode(answer.responses[0].error_code)
        if code is ErrorCode.NONE:
            self._perhaps_set.remove(value)
        client.world.check(
            Invariant.ADMIN_ANSWERS, code is ErrorCode.NONE or code in _HARD, f"{topic.name}: {code.name}"
        )
        if code is ErrorCode.NONE:
            await self._until_answered(self._get, topic, value)

    async def _get(self, topic: Topic, value: str) -> None:
        requested = DescribeConfigsRequest.Resource(
            resource_type=_TOPIC_RESOURCE, resource_name=topic.name, configuration_keys=["retention.ms"]
        )
        answer = await self.client.call(self.client.fresh_broker(), ApiKey.DESCRIBE_CONFIGS, 4, resources=[requested])
        found = answer.results[0]
        shown = [config.value for config in found.configs]
        known = len(shown) == 1 and shown[0] in (value, *self._perhaps_set)
        self.client.world.check(
            Invariant.SETTINGS_STAY, known, f"retention.ms of {topic.name} is {shown}, and was set to {value}"
        )

    async def _look(self, topic: Topic) -> None:
        found = await describe(self.client, topic.name)
        check = self.client.world.check
        check(Invariant.TOPICS_STAY, found is not None, f"{topic.name} was created, and is gone")
        check(Invariant.TOPICS_STAY, found.topic_id == topic.topic_id, f"{topic.name} has become another")
        check(
            Invariant.TOPICS_STAY,
            len(found.partitions) >= topic.partitions,
            f"{topic.name} has {len(found.partitions)} partitions, of {topic.partitions}",
        )

    async def _delete(self, topic: Topic) -> None:
        client = self.client
        await self._until_answered(self._look, topic)
        while True:
            try:
                wanted = DeleteTopicsRequest.Topic(name=None, topic_id=topic.topic_id)
                answer = await client.call(
                    client.any_broker(), ApiKey.DELETE_TOPICS, 6, topics=[wanted], timeout_ms=1000
                )
            except Lost:
                await client.pause()
                continue
            code = ErrorCode(answer.responses[0].error_code)
            if code is ErrorCode.NONE:
                break
            if code in _GONE:
                # An earlier attempt deleted it, or a new controller has not yet replayed its creation.
                with suppress(Lost):
                    found = await describe(client, topic.name)
                    if found is None or found.topic_id != topic.topic_id:
                        break
                await client.pause()
                continue
            client.world.check(Invariant.ADMIN_ANSWERS, code in PATIENCE, f"{topic.name} is not deleted: {code.name}")
            await client.pause()
        await self._until_answered(self._describe_deleted, topic)

    async def _describe_deleted(self, topic: Topic) -> None:
        found = await describe(self.client, topic.name)
        self.client.world.check(
            Invariant.DELETED_TOPICS_ARE_GONE,
            found is None or found.topic_id != topic.topic_id,
            f"{topic.name} was deleted, and is there",
        )


class RecordsAdministrator:
    """Delete the first records of partitions."""

    def __init__(self, client: Client, history: History, topic: Topic) -> None:
        self.client = client
        self.history = history
        self.topic = topic

    async def run(self) -> None:
        while not self.client.world.stopping:
            await self.client.pause(0.1 if self.client.world.clustered else 0.5)
            await self.delete(self.client.random.randrange(self.topic.partitions))

    async def delete(self, index: int) -> None:
        client, random = self.client, self.client.random
        known = self.history.partition(self.topic.name, index)
        end = max(known.records, default=0) + 1
        # Usually some old records; sometimes nearly all.
        most = end if client.world.clustered else min(end, known.durable_end)
        offset = random.randint(known.start_floor, max(known.start_floor, most))
        if random.random() < 0.8:
            offset = (known.start_floor + offset) // 2
        known.deleting(offset)
        wanted = DeleteRecordsRequest.Topic.Partition(partition_index=index, offset=offset)
        topics = [DeleteRecordsRequest.Topic(name=self.topic.name, partitions=[wanted])]
        try:
            address = await client.leader(self.topic.name, index)
            answer = await client.call(address, ApiKey.DELETE_RECORDS, 2, topics=topics, timeout_ms=1000)
        except Lost:
            client.forget()
            return
        [[one]] = [topic.partitions for topic in answer.topics]
        code = ErrorCode(one.error_code)
        if code is ErrorCode.NONE:
            client.world.count("deletions of records")
            newest = client.world.newest
            state = newest.partition(self.topic.name, index) if newest is not None else None
            if state is None or not state.eligible_leader_replicas:
                # DeleteRecords waits for live replicas only, as in Apache Kafka: a later leader may still have the
                # records.
                known.start_floor = max(known.start_floor, one.low_watermark)
            client.world.check(
                Invariant.DELETED_RECORDS_STAY_DELETED,
                offset <= one.low_watermark <= known.start_ceiling,
                f"{self.topic.name}-{index} begins at {one.low_watermark} after a deletion before {offset}",
            )
            return
        allowed = code in PATIENCE or code is ErrorCode.OFFSET_OUT_OF_RANGE
        client.world.check(Invariant.DELETE_RECORDS_ANSWERS, allowed, f"DeleteRecords says {code.name}")
