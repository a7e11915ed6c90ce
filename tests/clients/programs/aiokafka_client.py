"""aiokafka behind the common interface."""

import asyncio
import signal
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
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


main(
    lambda *arguments: asyncio.run(produce(*arguments)),
    lambda *arguments: asyncio.run(consume(*arguments)),
    lambda *arguments: asyncio.run(member(*arguments)),
    lambda *arguments: asyncio.run(admin(*arguments)),
)
