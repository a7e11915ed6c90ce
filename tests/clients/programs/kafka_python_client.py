"""kafka-python behind the common interface."""

from contextlib import suppress

from exchange import (  # type: ignore[import-not-found]  # it lies beside this program, which runs as a script
    HEARTBEAT_INTERVAL_MS,
    RETENTION_ALTERED_MS,
    RETENTION_CREATED_MS,
    SESSION_TIMEOUT_MS,
    Stop,
    main,
    print_record,
    records_from_stdin,
)
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource
from kafka.consumer.fetcher import ConsumerRecord
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import CommitFailedError, RebalanceInProgressError, TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata, TopicPartition

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def show(record: ConsumerRecord) -> None:
    print_record(record.partition, record.offset, record.timestamp, record.key, record.value, record.headers)


def produce(bootstrap: str, topic: str, codec: str) -> None:
    compression = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=50)
    sent = [
        producer.send(topic, key=key, value=value, headers=headers, timestamp_ms=timestamp)
        for key, value, headers, timestamp in records_from_stdin()
    ]
    for future in sent:
        future.get(timeout=20)
    producer.close()


def consume(bootstrap: str, topic: str, count: int) -> None:
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    for _ in range(count):
        show(next(consumer))
    consumer.close()


def poll(consumer: KafkaConsumer) -> dict[TopicPartition, list[ConsumerRecord]]:
    """Return the next records of a member of a group.

    Version 3.0.12 lacks the fix of KAFKA-9815 in the Java client. A member that rejoins because of new topic metadata
    (for example when it joined before its first metadata response) forgets the reason once its request is sent. If that
    poll ends before the join does, no later one completes it: the member sends no heartbeat, and the broker expels it.
    """
    coordinator = consumer._coordinator
    if coordinator.rebalance_in_progress():
        coordinator.request_rejoin()
    records: dict[TopicPartition, list[ConsumerRecord]] = consumer.poll(timeout_ms=100)
    return records


def member(bootstrap: str, topic: str, group: str, assignor: str) -> None:
    stop = Stop()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[ASSIGNORS[assignor]],
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
    )
    while not stop:
        for records in poll(consumer).values():
            for record in records:
                show(record)
            # During a rebalance, the partition's next owner reads the records again.
            with suppress(CommitFailedError, RebalanceInProgressError):
                consumer.commit()
    consumer.close()


def admin(bootstrap: str, topic: str) -> dict[str, object]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)

    def partitions() -> int:
        return len(client.describe_topics([topic])[0]["partitions"])

    def retention() -> str:
        described = client.describe_configs([ConfigResource("topic", topic, ["retention.ms"])])
        result: str = described["topic"][topic]["retention.ms"]["value"]
        return result

    created = {topic: {"num_partitions": 2, "configs": {"retention.ms": RETENTION_CREATED_MS}}}
    client.create_topics(created)
    answer: dict[str, object] = {"refused": False}
    try:
        client.create_topics(created)
    except TopicAlreadyExistsError:
        answer["refused"] = True
    answer |= {
        "listed": topic in client.list_topics(),
        "partitions": partitions(),
        "retention_created": retention(),
    }
    client.create_partitions({topic: 3})
    answer["partitions_added"] = partitions()
    client.alter_configs([ConfigResource("topic", topic, {"retention.ms": RETENTION_ALTERED_MS})])
    answer["retention_altered"] = retention()
    client.delete_topics([topic])
    answer["listed_deleted"] = topic in client.list_topics()
    client.close()
    return answer


class Transactions:
    """A transactional producer, and a consumer whose offsets it commits."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int, group: str, topic: str) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._consumer: KafkaConsumer | None = None

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        self._producer.send(topic, value.encode(), partition=partition).get(timeout=30)

    def pipe(self, count: int, topic: str) -> list[str]:
        self._consumer = KafkaConsumer(
            self._topic,
            bootstrap_servers=self._bootstrap,
            group_id=self._group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        values: list[str] = []
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        while len(values) < count:
            for partition, records in poll(self._consumer).items():
                values += [record.value.decode() for record in records]
                offsets[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        for value in values:
            self.send(topic, 0, value)
        self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())
        return values

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


main(produce, consume, member, admin, Transactions)
