"""All clients of a run: their start, the wait for their progress, and their end with the last reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.chaos.cluster import DEADLINE_S, ClusterError, wait_until
from tests.chaos.history.events import Offsets
from tests.chaos.transactional import (
    PIPED,
    PIPED_PARTITIONS,
    PIPES,
    AbandoningProducer,
    Pipeline,
    Transactional,
    TransactionalProducer,
)
from tests.chaos.workloads import (
    PARTITIONS,
    SILENT,
    TOPIC,
    JavaMember,
    JavaProducer,
    LibrdkafkaMember,
    LibrdkafkaProducer,
    Progress,
    name_of,
    read_back,
)

GROUP, JAVA_GROUP = "readers", "java-readers"
TOPICS = {TOPIC: PARTITIONS}


class Clients:
    """Producers without transactions, and groups."""

    topics = TOPICS
    """Partitions by topic."""

    def __init__(self, settings: Mapping[str, str], progress: Progress, java_directory: Path | None) -> None:
        """`settings` are those of librdkafka; Java clients use the addresses in them only."""
        self._settings = settings
        self._bootstrap = bootstrap = settings["bootstrap.servers"]
        self._progress = progress
        self.producers: list[LibrdkafkaProducer | JavaProducer] = [
            LibrdkafkaProducer(settings, name, progress) for name in ("a", "b")
        ]
        self.members: list[LibrdkafkaMember | JavaMember] = [
            LibrdkafkaMember(settings, GROUP, name, progress) for name in ("c", "d")
        ]
        self.groups = [GROUP]
        if java_directory is not None:
            self.producers.append(JavaProducer(bootstrap, "java-producer", progress, java_directory))
            self.members.append(JavaMember(bootstrap, JAVA_GROUP, "java-member", progress))
            self.groups.append(JAVA_GROUP)

    def __enter__(self) -> Clients:
        for client in (*self.producers, *self.members):
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in (*self.producers, *self.members):
            client.close()

    def wait_until_at_work(self) -> None:
        """Return once every producer and partition has an acknowledgement, and every group has received a record."""
        if not self._progress.wait_for(self._are_at_work, DEADLINE_S):
            raise ClusterError("not every client came to work")

    def _are_at_work(self) -> bool:
        acknowledged = {value.partition("-")[0].partition(".")[0] for value in self._progress.acknowledged}
        return (
            acknowledged >= {"a", "b", *([JavaProducer.PREFIX] if JAVA_GROUP in self.groups else [])}
            and len(self._progress.acknowledged_of) == PARTITIONS
            and all(self._progress.seen[group] for group in self.groups)
        )

    def finish(self) -> Iterator[str]:
        """Finish all clients, read everything back, and yield the problems of clients that do not finish."""
        for producer in self.producers:
            if not producer.finish(DEADLINE_S):
                yield f"not every outcome was known {DEADLINE_S:g} s after the last fault"
        for group in self.groups:
            if not self._progress.wait_for(lambda group=group: not self._progress.unseen(group), DEADLINE_S):  # type: ignore[misc]  # a lambda with a default has no inferred type
                missing = sorted(self._progress.unseen(group))
                yield f"{group} was not given {len(missing)} records within {DEADLINE_S:g} s, such as {missing[:3]}"
        read_back(self._settings, self._progress, DEADLINE_S)


class TransactionalClients(Clients):
    """The same with transactional producers, and pipelines from `TOPIC` to `PIPED`."""

    topics = TOPICS | {PIPED: PIPED_PARTITIONS}

    def __init__(self, settings: Mapping[str, str], progress: Progress, seed: int) -> None:
        super().__init__(settings, progress, None)
        bootstrap = self._bootstrap
        self.groups.append(PIPES)
        self.transactional: list[Transactional] = [
            TransactionalProducer(bootstrap, "t", progress, seed),
            TransactionalProducer(bootstrap, "u", progress, seed),
            AbandoningProducer(bootstrap, "abandoning", progress, seed),
        ]
        self.pipelines: list[Transactional] = [Pipeline(bootstrap, name, progress, seed) for name in ("p", "q")]

    def __enter__(self) -> TransactionalClients:
        super().__enter__()
        for client in (*self.transactional, *self.pipelines):
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in (*self.transactional, *self.pipelines):
            client.close()
        super().__exit__()

    def _are_at_work(self) -> bool:
        return (
            super()._are_at_work() and {"t", "u"} <= self._progress.committed.keys() and bool(self._committing_pipes())
        )

    def _committing_pipes(self) -> set[str]:
        return {pipeline.name for pipeline in self.pipelines} & self._progress.committed.keys()

    def finish(self) -> Iterator[str]:
        """Finish all clients, and read both topics and the offsets of the pipelines back."""
        for client in self.transactional:
            if not client.finish(DEADLINE_S):
                yield f"{client.name} does not know the end of its transaction within {DEADLINE_S:g} s"
        yield from super().finish()
        yield from self._hanging(TOPIC)
        if not self._wait(self._are_inputs_passed):
            yield f"{PIPES} has not processed all its input within {DEADLINE_S:g} s: {self._offsets()}"
        for pipeline in self.pipelines:
            if not pipeline.finish(DEADLINE_S):
                yield f"{pipeline.name} does not know the end of its transaction within {DEADLINE_S:g} s"
        yield from self._hanging(PIPED)
        read_back(self._settings, self._progress, DEADLINE_S, PIPED, PIPED_PARTITIONS)
        self._progress(Offsets(PIPES, self._offsets()))

    def _are_inputs_passed(self) -> bool:
        offsets = self._offsets()
        return all(offsets.get(partition, 0) >= end for partition, end in self._progress.ends.items())

    def _hanging(self, topic: str) -> Iterator[str]:
        """Yield the partitions whose last stable offset does not reach the high watermark."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap} | SILENT)  # type: ignore[arg-type]  # a dict's values are invariant

        def open_ones() -> list[str]:
            ends = [self._ends(admin, topic, level) for level in IsolationLevel]
            return [name for name in ends[0] if ends[0][name] != ends[1][name]]

        if not self._wait(lambda: not open_ones()):
            yield f"transactions hang in {open_ones()}, {DEADLINE_S:g} s after their producers ended"

    def _ends(self, admin: AdminClient, topic: str, level: IsolationLevel) -> dict[str, int]:
        asked = {
            TopicPartition(topic, number): OffsetSpec.latest()  # type: ignore[no-untyped-call]  # of confluent-kafka
            for number in range(self.topics[topic])
        }
        futures = admin.list_offsets(asked, isolation_level=level)
        return {name_of(partition.partition, topic): future.result(10).offset for partition, future in futures.items()}

    def _offsets(self) -> dict[str, int]:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": PIPES} | SILENT)
        try:
            found = consumer.committed([TopicPartition(TOPIC, number) for number in range(PARTITIONS)], 10)
        finally:
            consumer.close()
        return {name_of(partition.partition): partition.offset for partition in found if partition.offset >= 0}

    def _wait(self, condition: Callable[[], bool]) -> bool:
        def holds() -> bool:
            try:
                return condition()
            except KafkaException:
                return False  # a request timed out

        try:
            wait_until(holds, "", DEADLINE_S)
        except ClusterError:
            return False
        return True
