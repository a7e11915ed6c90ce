"""What `beside_kafka` lets each broker do, by clients that neither of them made for it.

A load takes a running broker and returns its figures by name. CPU seconds are the broker's, over the time that the
client ran, per 10^9 bytes of record values.
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks._loopback import Server, create_topic
from benchmarks.produce_cpu import produce_frames
from tests.clients.clients import go_program
from tests.oracles.apache_kafka import kafka_classpath

RECORDS = 1_000_000
RECORD_BYTES = 1000
PRODUCER_SETTINGS = ("batch.size=131072", "linger.ms=5")
TIMEOUT_S = 600

Figures = Mapping[str, float]


def tool(name: str, *arguments: str) -> str:
    """Run one of Apache Kafka's own tools with the heap that its start script gives it; return what it printed."""
    command = ("java", "-Xmx512m", "-cp", kafka_classpath(), f"org.apache.kafka.tools.{name}", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def produce_rate(bootstrap: str, topic: str, acks: str, records: int = RECORDS) -> float:
    """Let ProducerPerformance send records; return the megabytes (2^20 bytes) a second that it printed."""
    printed = tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", "-1"),
        *("--bootstrap-server", bootstrap, "--command-property", *PRODUCER_SETTINGS, f"acks={acks}"),
    )
    return float(re.findall(r"\(([\d.]+) MB/sec\)", printed)[-1])


def produce(server: Server, topic: str, acks: str, records: int = RECORDS) -> Figures:
    """ProducerPerformance."""
    user_s, system_s = server.cpu()
    rate = produce_rate(server.bootstrap, topic, acks, records)
    user_end_s, system_end_s = server.cpu()
    gigabytes = records * RECORD_BYTES / 1e9
    return {
        f"produce acks={acks}, MB/s": rate,
        f"produce acks={acks}, user s/GB": (user_end_s - user_s) / gigabytes,
        f"produce acks={acks}, CPU s/GB": (user_end_s - user_s + system_end_s - system_s) / gigabytes,
    }


def consume(server: Server, topic: str, records: int = RECORDS) -> Figures:
    """ConsumerPerformance, from the page cache."""
    before_s = sum(server.cpu())
    printed = tool(
        "ConsumerPerformance",
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--num-records", str(records)),
        *("--command-property", "group.protocol=classic", "--timeout", "60000", "--hide-header"),
    )
    columns = printed.strip().splitlines()[-1].split(", ")
    return {
        "consume, MB/s": float(columns[8]),
        "consume, CPU s/GB": (sum(server.cpu()) - before_s) / (records * RECORD_BYTES / 1e9),
    }


def one_at_a_time(server: Server, topic: str, requests: int = 10_000) -> Figures:
    """Send one record of 100 bytes a request, one request in flight, acks=1, by a socket and nothing else."""
    frames = produce_frames(create_topic(server.port, topic, 1), 1, 100)
    cost = server.measure(frames, requests, in_flight=1)
    return {"one record a request, requests/s": cost.requests / cost.seconds}


def end_to_end(server: Server, topic: str, records: int = 10_000) -> Figures:
    """EndToEndLatency, 100 bytes, acks=all."""
    printed = tool(
        "EndToEndLatency",
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--num-records", str(records)),
        *("--producer-acks", "all", "--record-size", "100"),
    )
    mean, p99 = re.search(r"Avg latency: ([\d.]+)", printed), re.search(r"99th = ([\d.]+)", printed)
    if mean is None or p99 is None:
        raise RuntimeError(f"EndToEndLatency printed {printed!r}")
    return {"end to end, mean ms": float(mean[1]), "end to end, p99 ms": float(p99[1])}


def crowd(server: Server, topic: str, partitions: int = 50, seconds: int = 15) -> Figures:
    """50 producers and 50 consumers (franz-go) at once, records of 200 bytes."""
    create_topic(server.port, topic, partitions)
    command: Sequence[str] = (
        *go_program("crowd")(),
        *(server.bootstrap, topic, str(partitions), "200", "5", str(seconds)),
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    found = json.loads(done.stdout)
    return {"crowd, records/s": found["records_per_s"], "crowd, p99 ms": found["p99_ms"]}


def everything(server: Server) -> Figures:
    """Run all loads on a broker that has just started: first one that does not count, then the largest."""
    for topic in ("warm", "acks-1", "acks-all"):
        create_topic(server.port, topic, 6)
    produce(server, "warm", "1", RECORDS // 5)
    consume(server, "warm", RECORDS // 5)
    return {
        **produce(server, "acks-1", "1"),
        **consume(server, "acks-1"),
        **produce(server, "acks-all", "all"),
        **one_at_a_time(server, "small"),
        **end_to_end(server, "latency"),
        **crowd(server, "crowd"),
    }


def versions() -> Mapping[str, str]:
    """Return the versions of what takes part, by name."""
    java = subprocess.run(("java", "-version"), capture_output=True, text=True, check=True).stderr.splitlines()[0]
    jar = next(Path(kafka_classpath().removesuffix("/*")).glob("kafka-clients-*.jar"))
    go = subprocess.run(("go", "version"), capture_output=True, text=True, check=True).stdout.strip()
    return {"Apache Kafka": jar.stem.removeprefix("kafka-clients-"), "Java": java, "Go": go}
