"""The options of Spark's Kafka source and sink, and of Kafka's client behind them, as -X and --to-kafka name them.

Spark ignores an option that it does not know, and Kafka's client one that it does not know, as a plug-in may use it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from difflib import get_close_matches

PREFIX = "kafka."
# Of Spark 4.0, which compares them without regard to case.
SOURCE_OPTIONS = (
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
)
# What jobs choose by options of their own.
OF_JOBS = {
    "assign": "--topic",
    "subscribe": "--topic",
    "subscribepattern": "--topic-pattern",
    "topic": "--topic or --to",
}
# Those that begin a job elsewhere than --start.
STARTS = ("startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp")
# Values that only the executors would refuse, or only once the connection is made.
VALUES = {
    "kafka.isolation.level": ("read_committed", "read_uncommitted"),
    "kafka.security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "failondataloss": ("true", "false"),
    "includeheaders": ("true", "false"),
}
ANY_CASE = VALUES.keys() - {"kafka.isolation.level"}
# A name as similar as that is a slip; others may be those of plug-ins or newer versions.
SLIP = 0.8
# Of Kafka's consumer, producer and admin client.
_NAMES = """
acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size
bootstrap.controllers bootstrap.servers buffer.memory check.crcs client.dns.lookup client.id client.rack
compression.gzip.level compression.lz4.level compression.type compression.zstd.level connections.max.idle.ms
default.api.timeout.ms delivery.timeout.ms enable.auto.commit enable.idempotence enable.metrics.push
exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level key.deserializer key.serializer
linger.ms max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
max.poll.records max.request.size metadata.max.age.ms metadata.max.idle.ms metadata.recovery.strategy metric.reporters
metrics.num.samples metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms
retry.backoff.ms sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope.claim.name
sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url security.protocol security.providers
send.buffer.bytes session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
ssl.truststore.type transaction.timeout.ms transactional.id value.deserializer value.serializer
"""
CLIENT_OPTIONS = frozenset(_NAMES.split())


def source_option(text: str) -> tuple[str, str]:
    """Return the key and value of KEY=VALUE; warn if the key is similar to an option of Kafka's client.

    Raise ArgumentTypeError if the key is a misspelt one of Spark's source, if a job has an option for it, or if it
    cannot have the value. A key like no other may be that of a newer Spark: a warning says that Spark 4.0 ignores it.
    """
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r}: write KEY=VALUE")
    name = key.lower()
    if name.startswith(PREFIX):
        _warn_of_slip(key)
    elif name in OF_JOBS:
        raise argparse.ArgumentTypeError(f"{key!r} is set by {OF_JOBS[name]} of the job")
    elif name in STARTS and not value.lstrip().startswith("{"):
        raise argparse.ArgumentTypeError(f"{key!r} is set by --start of the job")
    elif name not in (one.lower() for one in SOURCE_OPTIONS):
        if meant := _similar(name):
            raise argparse.ArgumentTypeError(f"Spark's Kafka source has no option {key!r}; did you mean {meant}?")
        sys.stderr.write(f"Spark 4.0's Kafka source has no option {key}, and ignores it\n")
    values = VALUES.get(name)
    if values and value not in values and not (name in ANY_CASE and value.upper() in map(str.upper, values)):
        raise argparse.ArgumentTypeError(f"{key} is {' or '.join(values)}, not {value!r}{_closest(value, values)}")
    return key, value


def begins_elsewhere(key: str) -> bool:
    """Return whether an option says where a job begins."""
    return key.lower() in STARTS


def _similar(name: str) -> str | None:
    if name in CLIENT_OPTIONS:
        return PREFIX + name
    known = {one.lower(): one for one in SOURCE_OPTIONS} | {PREFIX + one: PREFIX + one for one in CLIENT_OPTIONS}
    close = get_close_matches(name, known, n=1, cutoff=SLIP)
    return known[close[0]] if close else None


def _closest(value: str, values: Iterable[str]) -> str:
    close = get_close_matches(value, list(values), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _warn_of_slip(key: str) -> None:
    name = key[len(PREFIX) :]
    if name in CLIENT_OPTIONS:
        return
    if close := get_close_matches(name.lower(), CLIENT_OPTIONS, n=1, cutoff=SLIP):
        sys.stderr.write(f"Kafka's client has no option {key} of its own; did you mean {PREFIX}{close[0]}?\n")
