"""The loads that `beside_kafka` runs on each broker, with clients made for neither of them.

A load prepares a running broker and runs in rounds, each of which returns its figures by name. CPU seconds are the
broker's while the client runs, per 10^9 bytes of record values. Java clients are new, cold processes in each round,
for both brokers alike. A round that produces is checked by the topic's log end offsets, one that consumes by the
client's record count: a round with a different count fails.
"""

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks._loopback import Server, Written, create_topic, uncounted
from benchmarks._warmth import Figures
from benchmarks.produce_cpu import LARGE_BYTES, produce_frames, records_of
from benchmarks.start import Command, barnabas, barnabas_that_validates
from tests.clients.clients import go_program
from tests.oracles.apache_kafka import kafka_classpath

RECORDS = 500_000
RECORD_BYTES = 1000
PRODUCER_SETTINGS = ("batch.size=131072", "linger.ms=5")
PARTITIONS = 6
TIMEOUT_S = 600

# Columns of ConsumerPerformance: data.consumed.in.nMsg, fetch.time.ms, which excludes the rebalance, and fetch.MB.sec.
_CONSUMED_RECORDS = 4
_FETCH_MS = 7
_FETCH_MB_PER_S = 8


def tool(name: str, *arguments: str) -> str:
    """Run one of Apache Kafka's tools with the heap of its start script; return its output."""
    command = ("java", "-Xmx512m", "-cp", kafka_classpath(), f"org.apache.kafka.tools.{name}", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def produce_rate(
    bootstrap: str, topic: str, *settings: str, records: int = RECORDS, options: Sequence[str] = ()
) -> float:
    """Let ProducerPerformance send records, with more `options`; return its megabytes (2^20 bytes) a second."""
    printed = tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", "-1"),
        *options,
        *("--bootstrap-server", bootstrap, "--command-property", *PRODUCER_SETTINGS, *settings),
    )
    return float(re.findall(r"\(([\d.]+) MB/sec\)", printed)[-1])


class Consumed(NamedTuple):
    """What a consumer took without its rebalance, and the broker's CPU seconds meanwhile."""

    mb_per_s: float
    seconds: float
    cpu_s: float


def consume(server: Server, topic: str, records: int, *settings: str) -> Consumed:
    """Let ConsumerPerformance read a topic; raise RuntimeError unless it receives exactly `records`."""
    before_s = sum(server.cpu())
    printed = tool(
        "ConsumerPerformance",
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--num-records", str(records)),
        # Each property needs an option of its own, unlike ProducerPerformance's.
        *(part for setting in ("group.protocol=classic", *settings) for part in ("--command-property", setting)),
        *("--timeout", "60000", "--hide-header"),
    )
    cpu_s = sum(server.cpu()) - before_s
    columns = printed.strip().splitlines()[-1].split(", ")
    if int(columns[_CONSUMED_RECORDS]) != records:
        raise RuntimeError(f"{columns[_CONSUMED_RECORDS]} of {records} records were consumed:\n{printed}")
    return Consumed(float(columns[_FETCH_MB_PER_S]), int(columns[_FETCH_MS]) / 1e3, cpu_s)


class Load(NamedTuple):
    """One load: `prepare` creates its topics and returns what runs a round; `settles_on` is its warm-up figure.

    `command` starts Barnabas with a setting that is not the default, if the load needs one.
    """

    name: str
    prepare: Callable[[Server], Callable[[], Figures]]
    settles_on: str
    command: Command = barnabas


def _produce(name: str, configs: Mapping[str, str], settings: Sequence[str], server: Server) -> Callable[[], Figures]:
    """ProducerPerformance."""
    create_topic(server.port, "produced", PARTITIONS, configs)
    written = Written(server.port, "produced", PARTITIONS)
    gigabytes = RECORDS * RECORD_BYTES / 1e9

    def run() -> Figures:
        user_s, system_s = server.cpu()
        rate = produce_rate(server.bootstrap, "produced", *settings)
        user_end_s, system_end_s = server.cpu()
        written.check(RECORDS)
        return {
            f"{name}, MB/s": rate,
            f"{name}, user s/GB": (user_end_s - user_s) / gigabytes,
            f"{name}, CPU s/GB": (user_end_s - user_s + system_end_s - system_s) / gigabytes,
        }

    return run


def _consume(server: Server) -> Callable[[], Figures]:
    """ConsumerPerformance, from the page cache."""
    create_topic(server.port, "consumed", PARTITIONS)
    written = Written(server.port, "consumed", PARTITIONS)
    produce_rate(server.bootstrap, "consumed", "acks=1")
    written.check(RECORDS)

    def run() -> Figures:
        consumed = consume(server, "consumed", RECORDS)
        return {
            "consume without the rebalance, MB/s": consumed.mb_per_s,
            "consume, CPU s/GB": consumed.cpu_s / (RECORDS * RECORD_BYTES / 1e9),
        }

    return run


def _one_at_a_time(server: Server, requests: int = 10_000) -> Callable[[], Figures]:
    """Send one record of 100 bytes per request, one request in flight, acks=1, over a plain socket."""
    frames = produce_frames(create_topic(server.port, "small", 1), 1, 100)
    written = Written(server.port, "small", 1)

    def run() -> Figures:
        cost = server.measure(frames, requests, in_flight=1)
        written.check(requests + uncounted(frames, requests))
        return {"one record a request, requests/s": cost.requests / cost.seconds}

    return run


def _keyed(server: Server, requests: int = 3000) -> Callable[[], Figures]:
    """128-KB batches of keyed records to a compacted topic, where the broker checks every record's key."""
    topic_id = create_topic(server.port, "keyed", PARTITIONS, {"cleanup.policy": "compact"})
    frames = produce_frames(topic_id, PARTITIONS, LARGE_BYTES, key=b"key")
    written = Written(server.port, "keyed", PARTITIONS)

    def run() -> Figures:
        cost = server.measure(frames, requests)
        written.check((requests + uncounted(frames, requests)) * records_of(LARGE_BYTES))
        return {
            "produce 128-KB batches to a compacted topic, MB/s": cost.size_bytes / cost.seconds / 2**20,
            "produce 128-KB batches to a compacted topic, user s/GB": cost.user_s_per_gb,
        }

    return run


def _end_to_end(server: Server, records: int = 10_000) -> Callable[[], Figures]:
    """EndToEndLatency, 100 bytes, acks=all."""
    create_topic(server.port, "latency", 1)

    def run() -> Figures:
        printed = tool(
            "EndToEndLatency",
            *("--bootstrap-server", server.bootstrap, "--topic", "latency", "--num-records", str(records)),
            *("--producer-acks", "all", "--record-size", "100"),
        )
        mean, p99 = re.search(r"Avg latency: ([\d.]+)", printed), re.search(r"99th = ([\d.]+)", printed)
        if mean is None or p99 is None:
            raise RuntimeError(f"EndToEndLatency printed {printed!r}")
        return {"end to end, mean ms": float(mean[1]), "end to end, p99 ms": float(p99[1])}

    return run


def _crowd(server: Server, partitions: int = 50, seconds: int = 15) -> Callable[[], Figures]:
    """50 producers and 50 consumers (franz-go) at once, records of 200 bytes."""
    create_topic(server.port, "crowd", partitions)
    command: Sequence[str] = (
        *go_program("crowd")(),
        *(server.bootstrap, "crowd", str(partitions), "200", "5", str(seconds)),
    )

    def run() -> Figures:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        found = json.loads(done.stdout)
        return {"crowd, records/s": found["records_per_s"], "crowd, p99 ms": found["p99_ms"]}

    return run


def _producing(
    name: str, *settings: str, configs: Mapping[str, str] | None = None, command: Command = barnabas
) -> Load:
    return Load(name, partial(_produce, name, configs or {}, settings), f"{name}, CPU s/GB", command)


LOADS = (
    _producing("produce acks=1", "acks=1"),
    _producing("produce acks=all", "acks=all"),
    _producing("produce acks=1 with every record checked", "acks=1", command=barnabas_that_validates),
    _producing("produce acks=1, lz4", "acks=1", "compression.type=lz4"),
    _producing("produce acks=1, zstd", "acks=1", "compression.type=zstd"),
    _producing("produce acks=1, LogAppendTime", "acks=1", configs={"message.timestamp.type": "LogAppendTime"}),
    Load("produce to a compacted topic", _keyed, "produce 128-KB batches to a compacted topic, user s/GB"),
    Load("consume", _consume, "consume, CPU s/GB"),
    Load("one at a time", _one_at_a_time, "one record a request, requests/s"),
    Load("end to end", _end_to_end, "end to end, mean ms"),
    Load("crowd", _crowd, "crowd, records/s"),
)


def versions() -> Mapping[str, str]:
    """Return the versions of all programs in the comparison, by name."""
    java = subprocess.run(("java", "-version"), capture_output=True, text=True, check=True).stderr.splitlines()[0]
    jar = next(Path(kafka_classpath().removesuffix("/*")).glob("kafka-clients-*.jar"))
    go = subprocess.run(("go", "version"), capture_output=True, text=True, check=True).stdout.strip()
    return {"Apache Kafka": jar.stem.removeprefix("kafka-clients-"), "Java": java, "Go": go}
