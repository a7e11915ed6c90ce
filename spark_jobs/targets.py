"""The topics that records are copied to: options, names, and creation with the partitions and settings of a source.

Their cluster is reached by two clients, Kafka's in the driver's JVM, and librdkafka, which sends: the options of the
connection are given once, by the names of Java's client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs import io
from spark_jobs.cluster import Cluster, Topic
from spark_jobs.errors import JobError
from spark_jobs.options import KafkaOptions, addresses, key_value, option, positive
from spark_jobs.source_options import source_option

FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}
# Of the source's cluster, or replaced by what keeps timestamps.
NOT_COPIED = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
)
ANY_TIME = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


# What librdkafka calls otherwise than Java's client.
RENAMED = {"ssl.truststore.location": "ssl.ca.location", "ssl.truststore.certificates": "ssl.ca.pem"}
CONNECTION = re.compile(r"(?:security|ssl|sasl|client\.(?:id|dns\.lookup|rack)|reconnect|socket)\b")
JAAS = re.compile(r'(username|password)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True)
class ProducerOptions(KafkaOptions):
    """How records are sent (`sending`)."""

    producer: tuple[tuple[str, str], ...] = option(
        "an option of the producers, named as librdkafka's, such as compression.type=zstd; may be repeated",
        "-P",
        metavar="KEY=VALUE",
        parse=key_value,
        repeated=True,
    )
    transaction: int = option("commit after so many records, or earlier", default=10_000, metavar="N", parse=positive)


@dataclass(frozen=True, kw_only=True)
class TargetOptions(ProducerOptions):
    """The topics that are written."""

    to: str = option(
        "name of the topic to write; {topic} stands for the name of the one that is read",
        default="{topic}",
        metavar="NAME",
    )
    to_brokers: str | None = option(
        "addresses of brokers of the cluster to write to (default: those of --brokers)",
        default=None,
        metavar="HOST:PORT,...",
        parse=addresses,
    )
    to_kafka: tuple[tuple[str, str], ...] = option(
        "an option of the connection to --to-brokers, named as for -X; may be repeated",
        metavar="KEY=VALUE",
        parse=source_option,
        repeated=True,
    )

    def target(self) -> dict[str, str]:
        """Return the options of the connection to the cluster that is written, as those of Spark's Kafka source."""
        if self.to_brokers is None:
            return io.kafka_options(self) | dict(self.to_kafka)
        return {"kafka.bootstrap.servers": self.to_brokers, **dict(self.to_kafka)}


def connection(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's options for a connection whose options are named as those of Spark's Kafka source.

    Those that do not concern the connection are left out.
    """
    found: dict[str, str] = {}
    for name, value in kafka.items():
        key = name.removeprefix("kafka.")
        if key == "sasl.jaas.config":
            found |= {f"sasl.{field}": re.sub(r"\\(.)", r"\1", text) for field, text in JAAS.findall(value)}
        elif key == "bootstrap.servers" or (CONNECTION.match(key) and not key.endswith("store.type")):
            found[RENAMED.get(key, key)] = value
    return found


def target_of(names: Mapping[str, object], to: str, option_name: str = "--to") -> dict[str, str]:
    """Return the topic to write, by the topic that is read; JobError if two would be written to one."""
    if len(names) > 1 and "{topic}" not in to:
        raise JobError(
            f"{option_name} {to} would mix {len(names)} topics: write {{topic}} in it, such as 'copy-{{topic}}'"
        )
    return {name: to.replace("{topic}", name) for name in sorted(names)}


def copied_config(config: Mapping[str, str], *, keep_timestamps: bool, forever: bool) -> dict[str, str]:
    """Return the configuration of a topic that is created for the records of another."""
    kept = {key: value for key, value in config.items() if key not in NOT_COPIED}
    return kept | (ANY_TIME if keep_timestamps else {}) | (FOREVER if forever and keep_timestamps else {})


def ensure_topics(
    cluster: Cluster,
    sources: Mapping[str, Topic],
    targets: Mapping[str, str],
    *,
    keep_timestamps: bool = True,
    forever: bool = False,
    grow: bool = False,
) -> None:
    """Create the topics that do not exist.

    Args:
        cluster: Where.
        sources: The topics that are read.
        targets: The topic to write for each of them.
        keep_timestamps: Whether the records keep their timestamps.
        forever: Whether created topics keep all records.
        grow: Whether topics that exist get the partitions that they lack.

    Raise JobError if one that exists has too few partitions, or if its broker sets the timestamps.

    """
    found = cluster.topics(targets.values(), config=True)
    for name, target in targets.items():
        source, there = sources[name], found.get(target)
        if there is None:
            config = copied_config(source.config, keep_timestamps=keep_timestamps, forever=forever)
            cluster.create(target, source.partitions, config)
        elif there.partitions < source.partitions and grow:
            cluster.grow(target, source.partitions)
        elif there.partitions < source.partitions:
            raise JobError(
                f"the topic {target} has {there.partitions} partitions, {name} has {source.partitions}: add "
                "partitions, or choose another name by --to"
            )
        elif keep_timestamps and there.config.get("message.timestamp.type") == "LogAppendTime":
            raise JobError(
                f"the topic {target} would lose the timestamps: set its message.timestamp.type to CreateTime, or "
                "choose another name by --to"
            )
