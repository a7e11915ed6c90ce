"""aiokafka behind the common interface."""

import asyncio
import signal
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, TopicAlreadyExistsError
from exchange import (  # type: ignore[import-not-found]  # it lies beside this program, which runs as a script
    HEARTBEAT_INTERVAL_MS,
    RETENTION_ALTERED_MS,
    RETENTION_CREATED_MS,
    SESSION_TIMEOUT_MS,
    main,
    print_record,
    records_from_stdin,
)

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


def show(record: ConsumerRecord) -> None:
    print_record(record.partition, record.offset, record.timestamp, record.key, record.value, list(record.headers))


async def produce(bootstrap: str, topic: str, codec: str) -> None:
    compression = None if codec == "none" else codec
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=compression, linger_ms=50, enable_idempotence=True
    ) as producer:
        sent = [
            await producer.send(topic, key=key, value=value, headers=headers, timestamp_ms=timestamp)
            for key, value, headers, timestamp in records_from_stdin()
        ]
        await asyncio.gather(*sent)


async def consume(bootstrap: str, topic: str, count: int) -> None:
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        for _ in range(count):
            show(await consumer.getone())


async def member(bootstrap: str, topic: str, group: str, assignor: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[ASSIGNORS[assignor]],
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        max_poll_interval_ms=30_000,
        rebalance_timeout_ms=10_000,
    ) as consumer:
        while not stop.is_set():
            for partition, records in (await consumer.getmany(timeout_ms=100)).items():
                for record in records:
                    show(record)
                # During a rebalance, the partition's next owner reads the records again.
                with suppress(CommitFailedError, IllegalStateError):
                    await consumer.commit({partition: records[-1].offset + 1})


async def admin(bootstrap: str, topic: str) -> dict[str, object]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()

    async def partitions() -> int:
        return len((await client.describe_topics([topic]))[0]["partitions"])

    async def retention() -> str:
        described = await client.describe_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": ""})]
        )
        (_error, _message, _type, _name, ((_key, value, *_),)) = described[0].resources[0]
        result: str = value
        return result

    created = [NewTopic(topic, 2, 1, topic_configs={"retention.ms": RETENTION_CREATED_MS})]
    await client.create_topics(created)
    again = await client.create_topics(created)
    answer: dict[str, object] = {
        "refused": again.topic_errors[0][1] == TopicAlreadyExistsError.errno,
        "listed": topic in await client.list_topics(),
        "partitions": await partitions(),
        "retention_created": await retention(),
    }
    await client.create_partitions({topic: NewPartitions(3)})
    answer["partitions_added"] = await partitions()
    await client.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": RETENTION_ALTERED_MS})]
    )
    answer["retention_altered"] = await retention()
    await client.delete_topics([topic])
    answer["listed_deleted"] = topic in await client.list_topics()
    await client.close()
    return answer


class Transactions:
    """A transactional producer, and a consumer whose offsets it commits; its loop runs during each step."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int, group: str, topic: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._settings = {
            "bootstrap_servers": bootstrap,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": timeout_ms,
        }
        self._group, self._topic = group, topic
        self._producer: AIOKafkaProducer
        self._consumer: AIOKafkaConsumer | None = None

    def init(self) -> None:
        async def start() -> None:
            self._producer = AIOKafkaProducer(**self._settings)
            await self._producer.start()

        self._loop.run_until_complete(start())

    def begin(self) -> None:
        self._loop.run_until_complete(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: str) -> None:
        self._loop.run_until_complete(self._producer.send_and_wait(topic, value.encode(), partition=partition))

    def pipe(self, count: int, topic: str) -> list[str]:
        return self._loop.run_until_complete(self._pipe(count, topic))

    async def _pipe(self, count: int, topic: str) -> list[str]:
        self._consumer = AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=self._settings["bootstrap_servers"],
            group_id=self._group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        await self._consumer.start()
        values: list[str] = []
        offsets: dict[TopicPartition, int] = {}
        while len(values) < count:
            for partition, records in (await self._consumer.getmany(timeout_ms=100)).items():
                values += [record.value.decode() for record in records]
                offsets[partition] = records[-1].offset + 1
        for value in values:
            await self._producer.send_and_wait(topic, value.encode(), partition=0)
        await self._producer.send_offsets_to_transaction(offsets, self._group)
        return values

    def commit(self) -> None:
        self._loop.run_until_complete(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run_until_complete(self._producer.abort_transaction())

    def close(self) -> None:
        if self._consumer is not None:
            self._loop.run_until_complete(self._consumer.stop())


main(
    lambda *arguments: asyncio.run(produce(*arguments)),
    lambda *arguments: asyncio.run(consume(*arguments)),
    lambda *arguments: asyncio.run(member(*arguments)),
    lambda *arguments: asyncio.run(admin(*arguments)),
    Transactions,
)
