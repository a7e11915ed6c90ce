"""Apache Kafka's command-line tools in a first session with a new broker: 29 steps, one after the other.

A step passes if its tool exits with status 0. Later steps need the results of earlier ones.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.clients.conformance.outcomes import Outcome
from tests.clients.conformance.suite import Order
from tests.oracles.apache_kafka import kafka_tool

STEP_TIMEOUT_S = 90
TYPED = "a\nb\n"

# Classes without a package are of org.apache.kafka.tools. AT stands for the bootstrap-server option, and with security
# for the option that names the file of settings too.
STEPS = {
    "topics-create": "TopicCommand AT --create --topic tools-1 --partitions 3",
    "topics-describe": "TopicCommand AT --describe --topic tools-1",
    "topics-alter": "TopicCommand AT --alter --topic tools-1 --partitions 4",
    "configs-describe": "kafka.admin.ConfigCommand AT --describe --topic tools-1 --all",
    "configs-alter": "kafka.admin.ConfigCommand AT --alter --topic tools-1 --add-config retention.ms=100000",
    "producer-performance": (
        "ProducerPerformance AT --topic tools-1 --num-records 100000 --record-size 200 --throughput -1"
    ),
    "producer-performance-transactional": (
        "ProducerPerformance AT --topic tools-1 --num-records 20000 --record-size 200 --throughput -1"
        " --transaction-duration-ms 500"
    ),
    "consumer-performance-classic": (
        "ConsumerPerformance AT --topic tools-1 --num-records 50000 --timeout 20000"
        " --command-property group.protocol=classic"
    ),
    "consumer-performance-consumer": (
        "ConsumerPerformance AT --topic tools-1 --num-records 50000 --timeout 20000"
        " --command-property group.protocol=consumer"
    ),
    "end-to-end-latency": "EndToEndLatency AT --topic tools-1 --num-records 300 --producer-acks all --record-size 100",
    "verifiable-producer": "VerifiableProducer AT --topic tools-2 --max-messages 1000",
    "verifiable-consumer": "VerifiableConsumer AT --topic tools-2 --group-id tools --max-messages 1000",
    "groups-list": "GroupsCommand AT --list",
    "groups-describe": "consumer.group.ConsumerGroupCommand AT --describe --all-groups",
    "groups-reset-offsets": (
        "consumer.group.ConsumerGroupCommand AT --group tools --reset-offsets --to-earliest --topic tools-2 --execute"
    ),
    "groups-delete": "consumer.group.ConsumerGroupCommand AT --group tools --delete",
    "get-offsets": "GetOffsetShell AT --topic tools-1 --time max-timestamp",
    "delete-records": "DeleteRecordsCommand AT --offset-json-file FOLDER/delete.json",
    "log-dirs": "LogDirsCommand AT --describe",
    "transactions-list": "TransactionsCommand AT list",
    "transactions-find-hanging": "TransactionsCommand AT find-hanging --broker-id 1",
    "transactions-describe-producers": "TransactionsCommand AT describe-producers --topic tools-1 --partition 0",
    "cluster-id": "ClusterTool cluster-id AT",
    "quorum-status": "MetadataQuorumCommand AT describe --status",
    "features-describe": "FeatureCommand AT describe",
    "leader-election": "LeaderElectionCommand AT --election-type preferred --all-topic-partitions",
    "reassignments-list": "reassign.ReassignPartitionsCommand AT --list",
    "console-producer": "ConsoleProducer AT --topic tools-2",
    "console-consumer": (
        "consumer.ConsoleConsumer AT --topic tools-2 --from-beginning --max-messages 5 --timeout-ms 10000"
    ),
}


def run_tests(order: Order) -> list[Outcome]:
    """Run the named steps, or all of them."""
    deletion = {"partitions": [{"topic": "tools-2", "partition": 0, "offset": 2}], "version": 1}
    (order.folder / "delete.json").write_text(json.dumps(deletion))
    return list(outcomes(order))


def outcomes(order: Order) -> Iterator[Outcome]:
    for name, step in STEPS.items():
        if name in order.without or (order.only and name not in order.only):
            continue
        connection = f"--bootstrap-server {order.bootstrap}"
        if order.security is not None:
            connection += f" --command-config {order.security.java}"
        line = step.replace("AT", connection, 1).replace("FOLDER", str(order.folder))
        class_name, *arguments = line.split()
        started = time.monotonic()
        status, shown = run_tool(class_name, *arguments)
        (order.folder / f"{name}.log").write_text(shown)
        result = "passed" if status == 0 else "failed"
        yield Outcome(name, result, f"status {status}\n{shown[-1000:]}", time.monotonic() - started)


def run_tool(class_name: str, *arguments: str) -> tuple[int | None, str]:
    """Run a tool; return its exit status (None after a timeout) and its output."""
    full_name = class_name if class_name.startswith("kafka.") else f"org.apache.kafka.tools.{class_name}"
    with subprocess.Popen(
        kafka_tool(full_name, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as tool:
        try:
            shown, _ = tool.communicate(TYPED, STEP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            tool.kill()
            return None, tool.communicate()[0]
        return tool.returncode, shown


def set_up() -> Path:
    """Fetch Apache Kafka's jars."""
    return Path(kafka_tool("")[-2]).parent
