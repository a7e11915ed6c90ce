"""confluent-kafka, and so librdkafka, behind the common interface."""

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from exchange import (  # type: ignore[import-not-found]  # it lies beside this program, which runs as a script
    HEARTBEAT_INTERVAL_MS,
    RETENTION_ALTERED_MS,
    RETENTION_CREATED_MS,
    SESSION_TIMEOUT_MS,
    STATIC_SESSION_TIMEOUT_MS,
    Stop,
    main,
    print_record,
    records_from_stdin,
)

CALL_S = 30
REBALANCES = (KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.UNKNOWN_MEMBER_ID)


def show(message: Message) -> None:
    if message.error():
        raise KafkaException(message.error())
    print_record(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        message.headers(),
    )


def produce(bootstrap: str, topic: str, codec: str) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 50,
            "enable.idempotence": True,
        }
    )
    for key, value, headers, timestamp in records_from_stdin():
        producer.produce(topic, key=key, value=value, headers=headers, timestamp=timestamp, on_delivery=delivered)
    if producer.flush(20) or failures:
        raise SystemExit(f"not acknowledged: {failures}")


def consumer(bootstrap: str, topic: str, settings: dict[str, Any]) -> Consumer:
    made = Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"} | settings)
    made.subscribe([topic])
    return made


def consume(bootstrap: str, topic: str, count: int) -> None:
    reader = consumer(bootstrap, topic, {"group.id": f"{topic}-reader", "enable.auto.commit": False})
    while count:
        message = reader.poll(1.0)
        if message is not None:
            show(message)
            count -= 1
    reader.close()


def member(bootstrap: str, topic: str, group: str, assignor: str, instance: str = "") -> None:
    stop = Stop()
    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "partition.assignment.strategy": assignor,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
    }
    if instance:
        settings |= {"group.instance.id": instance, "session.timeout.ms": STATIC_SESSION_TIMEOUT_MS}
    reader = consumer(bootstrap, topic, settings)
    while not stop:
        message = reader.poll(0.1)
        if message is not None:
            show(message)
            commit(reader, message)
    reader.close()


def commit(reader: Consumer, message: Message) -> None:
    """Commit, except during a rebalance: then the partition's next owner reads the message again.

    A member whose session expired without its knowledge, for example during a restart of its broker, rejoins as well,
    without a member id until the group has assigned it a new one.
    """
    try:
        reader.commit(message=message, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in REBALANCES:
            raise


def admin(bootstrap: str, topic: str) -> dict[str, object]:
    client = AdminClient({"bootstrap.servers": bootstrap})

    def done(futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        return future.result(30)

    def topics() -> dict[str, Any]:
        return client.list_topics(timeout=30).topics

    def retention() -> str:
        described = done(client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))
        result: str = described["retention.ms"].value
        return result

    created = [NewTopic(topic, 2, 1, config={"retention.ms": RETENTION_CREATED_MS})]
    done(client.create_topics(created))
    answer: dict[str, object] = {"refused": False}
    try:
        done(client.create_topics(created))
    except KafkaException as error:
        answer["refused"] = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    answer |= {
        "listed": topic in topics(),
        "partitions": len(topics()[topic].partitions),
        "retention_created": retention(),
    }
    done(client.create_partitions([NewPartitions(topic, 3)]))
    answer["partitions_added"] = len(topics()[topic].partitions)
    change = ConfigEntry("retention.ms", RETENTION_ALTERED_MS, incremental_operation=AlterConfigOpType.SET)
    done(
        client.incremental_alter_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])]
        )
    )
    answer["retention_altered"] = retention()
    done(client.delete_topics([topic]))
    answer["listed_deleted"] = topic in topics()
    return answer


class Transactions:
    """A transactional producer, and a consumer whose offsets it commits."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int, group: str, topic: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "socket.timeout.ms": min(timeout_ms, 30_000),
        }
        self._producer = Producer(settings)
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._consumer: Consumer | None = None

    def init(self) -> None:
        self._producer.init_transactions(CALL_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        self._producer.produce(topic, value, partition=partition)
        if self._producer.flush(CALL_S):
            raise TimeoutError(f"{value} was not sent")

    def pipe(self, count: int, topic: str) -> list[str]:
        settings = {"group.id": self._group, "enable.auto.commit": False}
        self._consumer = consumer(self._bootstrap, self._topic, settings)
        values: list[str] = []
        while len(values) < count:
            for message in self._consumer.consume(count - len(values), 1.0):
                if message.error():
                    raise KafkaException(message.error())
                values.append((message.value() or b"").decode())
        for value in values:
            self.send(topic, 0, value)
        offsets = self._consumer.position(self._consumer.assignment())
        members = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, members, CALL_S)
        return values

    def commit(self) -> None:
        self._producer.commit_transaction(CALL_S)

    def abort(self) -> None:
        self._producer.abort_transaction(CALL_S)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


main(produce, consume, member, admin, Transactions)
