"""The topics and groups of a cluster, by the Kafka client of Spark's connector in the driver's JVM.

Its options are those of Spark's Kafka source: of them, the ones named `kafka.*` configure the client. A request that is
not answered within `default.api.timeout.ms`, here 20 seconds unless the options say otherwise, raises Py4JJavaError
with Kafka's TimeoutException.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.errors import JobError, first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "kafka."
TIMEOUTS = {"default.api.timeout.ms": "20000", "request.timeout.ms": "15000"}
ABSENT = "UnknownTopicOrPartitionException"
HAS_MEMBERS = re.compile("UnknownMemberIdException|GroupNotEmptyException|RebalanceInProgressException")
EARLIEST = -2
LATEST = -1

Partition = tuple[str, int]
"""A topic and the number of a partition."""

_open: list[Cluster] = []


class Topic(NamedTuple):
    """A topic: its id, which a topic that is created again does not keep, its partitions, and what is set for it."""

    id: str
    partitions: int
    config: dict[str, str]


class Cluster:
    """A cluster's topics and groups."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        settings = jvm.java.util.Properties()
        given = {key.removeprefix(PREFIX): value for key, value in options.items() if key.startswith(PREFIX)}
        for key, value in {**TIMEOUTS, **given}.items():
            settings.setProperty(key, value)
        self._admin: Any = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
        _open.append(self)

    def close(self) -> None:
        """Close the client's connections."""
        _open.remove(self)
        self._admin.close()

    def id(self) -> str:
        """Return the cluster's id."""
        return str(self._admin.describeCluster().clusterId().get())

    def matching(self, pattern: str) -> list[str]:
        """Return the sorted names of the topics that a Java pattern matches, without Kafka's internal ones."""
        matcher = self._compiled(pattern)
        return sorted(name for name in self._admin.listTopics().names().get() if matcher.matcher(name).matches())

    def _compiled(self, pattern: str) -> Any:
        """Return a Java pattern; JobError if it is none."""
        try:
            return self._jvm.java.util.regex.Pattern.compile(pattern)
        except Exception as error:  # of Java's compiler: nothing else runs
            raise JobError(f"{pattern!r} is not one of Java's regular expressions: {first_line(error)}") from None

    def topics(self, names: Iterable[str], *, config: bool = False) -> dict[str, Topic]:
        """Return the topics that exist, by name; `config`: with the configurations that are set for them."""
        futures = self._admin.describeTopics(self._list(names)).topicNameValues()
        found = {}
        for name in futures:
            description = self._value(futures[name])
            if description is not None:
                found[name] = Topic(description.topicId().toString(), len(description.partitions()), {})
        if config and found:
            set_for = self._configs(found)
            found = {name: topic._replace(config=set_for[name]) for name, topic in found.items()}
        return found

    def create(self, name: str, partitions: int, config: Mapping[str, str], replication: int | None = None) -> None:
        """Create a topic; `replication` is the broker's default unless it is given."""
        optional = self._jvm.java.util.Optional
        factor = optional.empty() if replication is None else optional.of(self._jvm.java.lang.Short(str(replication)))
        new = self._jvm.org.apache.kafka.clients.admin.NewTopic(name, optional.of(partitions), factor)
        self._admin.createTopics(self._list([new.configs(self._map(config))])).all().get()

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions to a topic until it has so many."""
        wanted = self._jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(partitions)
        self._admin.createPartitions(self._map({name: wanted})).all().get()

    def offsets(self, partitions: Iterable[Partition], at: int) -> dict[Partition, int]:
        """Return offsets of partitions: the first if `at` is EARLIEST, the end of what is committed if it is LATEST.

        Another value is a time in ms since 1970: the first offset with this or a later timestamp, the end without one.
        """
        specs = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        spec = {EARLIEST: specs.earliest, LATEST: specs.latest}.get(at, lambda: specs.forTimestamp(at))()
        requested = self._jvm.java.util.HashMap()
        for topic, partition in partitions:
            requested.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, partition), spec)
        committed = self._jvm.org.apache.kafka.common.IsolationLevel.READ_COMMITTED
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(committed)
        answered = self._admin.listOffsets(requested, options).all().get()
        found = {(key.topic(), key.partition()): answered[key].offset() for key in answered}
        without = [partition for partition, offset in found.items() if offset < 0]
        return {**found, **self.offsets(without, LATEST)} if without else found

    def groups(self, pattern: str) -> list[str]:
        """Return the sorted ids of the consumer groups that a Java pattern matches."""
        matcher = self._compiled(pattern)
        found = (one.groupId() for one in _each(self._admin.listConsumerGroups().all().get()))
        return sorted(group for group in found if matcher.matcher(group).matches())

    def committed(self, group: str) -> dict[Partition, int]:
        """Return the committed offsets of a group, empty if there is none."""
        options = self._jvm.org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions().requireStable(True)
        answered = self._admin.listConsumerGroupOffsets(group, options).partitionsToOffsetAndMetadata().get()
        return {(key.topic(), key.partition()): answered[key].offset() for key in answered if answered[key] is not None}

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets for a group, which has no members."""
        requested = self._jvm.java.util.HashMap()
        for (topic, partition), offset in offsets.items():
            position = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(offset)
            requested.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, partition), position)
        self._admin.alterConsumerGroupOffsets(group, requested).all().get()

    def commit_if_empty(self, group: str, offsets: Mapping[Partition, int]) -> bool:
        """Commit offsets for a group; return whether that was done: a group with members refuses."""
        from py4j.protocol import Py4JJavaError

        try:
            self.commit(group, offsets)
        except Py4JJavaError as error:
            if HAS_MEMBERS.search(str(error.java_exception.toString())):
                return False
            raise
        return True

    def _configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        config = self._jvm.org.apache.kafka.common.config
        kind = getattr(config, "ConfigResource$Type").TOPIC
        answered = self._admin.describeConfigs(self._list(config.ConfigResource(kind, name) for name in names))
        found = answered.all().get()
        return {
            resource.name(): {
                entry.name(): entry.value()
                for entry in _each(found[resource].entries())
                if entry.source().toString() == "DYNAMIC_TOPIC_CONFIG"
            }
            for resource in found
        }

    def _value(self, future: Any) -> Any:
        """Return the value of a future, None if the topic does not exist."""
        from py4j.protocol import Py4JJavaError

        try:
            return future.get()
        except Py4JJavaError as error:
            if ABSENT in str(error.java_exception.toString()):
                return None
            raise

    def _list(self, values: Iterable[Any]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made

    def _map(self, values: Mapping[str, Any]) -> Any:
        made = self._jvm.java.util.HashMap()
        for key, value in values.items():
            made.put(key, value)
        return made


def close_all() -> None:
    """Close the clients that are still open; queries and their listener use them until they have ended."""
    while _open:
        _open[-1].close()


def _each(collection: Any) -> Iterator[Any]:
    """Yield the elements of a Java collection that Py4J does not present as a Python one."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()
