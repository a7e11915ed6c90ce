"""The clients of the tests, each behind the same four commands.

Most are small programs around a library that implement the interface of ``programs/exchange.py``; kcat and Apache
Kafka's console tools are complete programs, and get their own arguments and input lines here.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

from tests.oracles.apache_kafka import JVM, kafka_classpath, kafka_tool
from tests.setups import prepared, require, run

HERE = Path(__file__).parent
SESSION_TIMEOUT_MS = 1500
STATIC_SESSION_TIMEOUT_MS = 20_000
HEARTBEAT_INTERVAL_MS = 300

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


class Record(NamedTuple):
    """A record as a client sends or receives it."""

    key: str | None
    value: str | None
    headers: list[list[str]]
    timestamp: int
    partition: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Client:
    """A client behind the common interface.

    ``program`` fetches and builds the client, and returns the start of its command line.
    """

    name: str
    program: Callable[[], Sequence[str]]
    codecs: Sequence[str] = CODECS
    assignors: Sequence[str] = ASSIGNORS
    sends_timestamps: bool = field(default=True, kw_only=True)
    has_admin: bool = field(default=True, kw_only=True)
    has_static_members: bool = field(default=False, kw_only=True)
    has_transactions: bool = field(default=True, kw_only=True)

    def produce(self, bootstrap: str, topic: str, codec: str, records: Sequence[Record]) -> tuple[Sequence[str], str]:
        """Return a command that produces the records, and its standard input."""
        lines = (json.dumps(record._asdict()) for record in records)
        return (*self.program(), "produce", bootstrap, topic, codec), "\n".join(lines) + "\n"

    def consume(self, bootstrap: str, topic: str, count: int) -> Sequence[str]:
        """Return a command that prints the first ``count`` records."""
        return (*self.program(), "consume", bootstrap, topic, str(count))

    def member(self, bootstrap: str, topic: str, group: str, assignor: str, instance: str = "") -> Sequence[str]:
        """Return a command that consumes as a group member until SIGTERM; with ``instance``, as a static member."""
        return (*self.program(), "member", bootstrap, topic, group, assignor, *filter(None, [instance]))

    def admin(self, bootstrap: str, topic: str) -> Sequence[str]:
        """Return a command that runs the client's admin operations and prints their results."""
        return (*self.program(), "admin", bootstrap, topic)

    def transactions(
        self, bootstrap: str, transactional_id: str, timeout_ms: int, group: str, topic: str
    ) -> Sequence[str]:
        """Return a command that runs the steps of its standard input with a transactional producer."""
        return (*self.program(), "transactions", bootstrap, transactional_id, str(timeout_ms), group, topic)

    def parse(self, line: str) -> Record | None:
        """Return the record in a printed line, or None."""
        return Record(**json.loads(line))

    def __str__(self) -> str:
        return self.name


class Kcat(Client):
    """kcat: librdkafka 2.0 on the command line. Its headers are the same for all records of a run."""

    def produce(self, bootstrap: str, topic: str, codec: str, records: Sequence[Record]) -> tuple[Sequence[str], str]:
        headers = [part for name, value in records[0].headers for part in ("-H", f"{name}={value}")]
        lines = "".join(f"{record.key or ''}\t{record.value or ''}\n" for record in records)
        what = ("-P", "-b", bootstrap, "-t", topic, "-z", codec, "-X", "linger.ms=50")
        return (*self.program(), *what, "-K", "\t", "-Z", *headers), lines

    def consume(self, bootstrap: str, topic: str, count: int) -> Sequence[str]:
        return (
            *self.program(),
            "-C",
            "-b",
            bootstrap,
            "-t",
            topic,
            "-o",
            "beginning",
            "-c",
            str(count),
            "-J",
            "-q",
        )

    def member(self, bootstrap: str, topic: str, group: str, assignor: str, instance: str = "") -> Sequence[str]:
        settings = {
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            "auto.offset.reset": "earliest",
        }
        options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
        return (*self.program(), "-b", bootstrap, *options, "-J", "-u", "-q", "-G", group, topic)

    def parse(self, line: str) -> Record | None:
        seen = json.loads(line)
        names_and_values = iter(seen.get("headers", ()))
        headers = [[name, next(names_and_values)] for name in names_and_values]
        return Record(seen["key"], seen["payload"], headers, seen["ts"], seen["partition"], seen["offset"])


class JavaConsole(Client):
    """Apache Kafka's console producer and consumer; a program around its clients for transactions."""

    NULL = "\N{EMPTY SET}"
    STRATEGIES: ClassVar = {
        "range": "RangeAssignor",
        "roundrobin": "RoundRobinAssignor",
        "sticky": "StickyAssignor",
        "cooperative-sticky": "CooperativeStickyAssignor",
    }

    def produce(self, bootstrap: str, topic: str, codec: str, records: Sequence[Record]) -> tuple[Sequence[str], str]:
        settings = ("linger.ms=50", "acks=all")
        reader = ("parse.key=true", "parse.headers=true", f"null.marker={self.NULL}")
        command = (
            *kafka_tool("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", topic),
            *("--compression-codec", codec),
            *(part for setting in settings for part in ("--command-property", setting)),
            *(part for setting in reader for part in ("--reader-property", setting)),
        )
        return command, "".join(self._line(record) for record in records)

    def consume(self, bootstrap: str, topic: str, count: int) -> Sequence[str]:
        return (*self._consumer(bootstrap, topic), "--max-messages", str(count))

    def member(self, bootstrap: str, topic: str, group: str, assignor: str, instance: str = "") -> Sequence[str]:
        settings = (
            f"partition.assignment.strategy=org.apache.kafka.clients.consumer.{self.STRATEGIES[assignor]}",
            f"session.timeout.ms={STATIC_SESSION_TIMEOUT_MS if instance else SESSION_TIMEOUT_MS}",
            f"heartbeat.interval.ms={HEARTBEAT_INTERVAL_MS}",
            *([f"group.instance.id={instance}"] if instance else ()),
        )
        options = (part for setting in settings for part in ("--command-property", setting))
        return (*self._consumer(bootstrap, topic), "--group", group, *options)

    def parse(self, line: str) -> Record | None:
        if not line.startswith("CreateTime:"):
            return None
        timestamp, partition, offset, headers, key, value = line.rstrip("\n").split("\t")
        return Record(
            None if key == self.NULL else key,
            None if value == self.NULL else value,
            [] if headers == "NO_HEADERS" else [header.split(":") for header in headers.split(",")],
            int(timestamp.removeprefix("CreateTime:")),
            int(partition.removeprefix("Partition:")),
            int(offset.removeprefix("Offset:")),
        )

    def _line(self, record: Record) -> str:
        headers = ",".join(f"{name}:{value}" for name, value in record.headers)
        return f"{headers}\t{record.key or self.NULL}\t{record.value or self.NULL}\n"

    def _consumer(self, bootstrap: str, topic: str) -> Sequence[str]:
        shown = ("timestamp", "partition", "offset", "headers", "key", "value")
        formatter = (*(f"print.{what}=true" for what in shown), f"null.literal={self.NULL}")
        return (
            *kafka_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap),
            *("--topic", topic, "--from-beginning"),
            *(part for setting in formatter for part in ("--formatter-property", setting)),
        )


def python_program(name: str) -> Callable[[], Sequence[str]]:
    """Return a program around a library that is installed beside pytest."""
    return lambda: (sys.executable, str(HERE / "programs" / f"{name}.py"))


def go_program(name: str) -> Callable[[], Sequence[str]]:
    """Return a program of the Go module; the first call builds all of them."""

    def program() -> Sequence[str]:
        require("go")
        module = HERE / "go"
        sources = [*module.glob("go.*"), *module.rglob("*.go")]
        built = prepared("go", sources, lambda folder: run("go", "build", "-o", f"{folder}/", "./...", cwd=module))
        return (str(built / name),)

    return program


def node_program(name: str) -> Callable[[], Sequence[str]]:
    """Return a program around kafkajs; the first call installs it."""

    def program() -> Sequence[str]:
        require("node", "npm")
        sources = [HERE / "node" / "package.json", *(HERE / "node").glob("*.js")]

        def install(folder: Path) -> None:
            for source in sources:
                (folder / source.name).write_bytes(source.read_bytes())
            run("npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)

        return ("node", str(prepared("node", sources, install) / f"{name}.js"))

    return program


def java_program() -> Sequence[str]:
    """Return the program around the Java clients, which Java compiles at each start."""
    return (*JVM, "-cp", kafka_classpath(), str(HERE / "java" / "Transactions.java"))


def kcat_program() -> Sequence[str]:
    """Return kcat, a package of Linux distributions."""
    require("kcat")
    return ("kcat",)


CLIENTS = (
    JavaConsole("java", java_program, sends_timestamps=False, has_admin=False, has_static_members=True),
    Kcat(
        "kcat",
        kcat_program,
        assignors=("range", "roundrobin"),
        sends_timestamps=False,
        has_admin=False,
        has_transactions=False,
    ),
    Client(
        "confluent-kafka",
        python_program("confluent_client"),
        assignors=("range", "roundrobin", "cooperative-sticky"),
        has_static_members=True,
    ),
    Client("kafka-python", python_program("kafka_python_client")),
    Client("aiokafka", python_program("aiokafka_client"), assignors=("range", "roundrobin", "sticky")),
    Client("franz-go", go_program("franz"), has_static_members=True),
    Client("sarama", go_program("sarama"), assignors=("range", "roundrobin", "sticky")),
    Client(
        "kafka-go", go_program("segmentio"), assignors=("range", "roundrobin"), has_admin=False, has_transactions=False
    ),
    Client("kafkajs", node_program("kafkajs_client"), codecs=("none", "gzip", "snappy"), assignors=("roundrobin",)),
)
