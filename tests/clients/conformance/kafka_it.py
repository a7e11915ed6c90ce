"""Apache Kafka's own integration tests of its Java clients, each on fresh brokers that ``ext-cluster`` starts.

Normally their clusters run in the same JVM; ``pins/kafka-it/java`` replaces that. Each test runs under the classic and,
if it supports it, under the new group protocol.
"""

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.clients.conformance.outcomes import Outcome, from_junit
from tests.clients.conformance.suite import EXT_CLUSTER, PINS, Order, no_outcomes, run_logged
from tests.oracles.apache_kafka import JVM
from tests.setups import prepared, require, run

CLIENTS = "org.apache.kafka.clients"
CLASSES = (
    "consumer.PlaintextConsumerAssignTest",
    "consumer.PlaintextConsumerCommitTest",
    "consumer.PlaintextConsumerFetchTest",
    "consumer.PlaintextConsumerPollTest",
    "producer.ProducerCompressionTest",
    "admin.AdminFenceProducersTest",
    "admin.DeleteTopicTest",
    "admin.DynamicGroupConfigIntegrationTest",
    "admin.ListOffsetsIntegrationTest",
    "producer.ProducerIdExpirationTest",
    "producer.ProducerIntegrationTest",
    "TransactionsExpirationTest",
    "TransactionsWithMaxInFlightOneTest",
)
# These need several brokers. Those of Apache Kafka's core are in Scala, and have the whole name.
CLUSTER_CLASSES = (
    "admin.ConcurrentListOffsetsRequestTest",
    "admin.DescribeProducersWithBrokerIdTest",
    "admin.RackAwareAutoTopicCreationTest",
    "producer.ProducerFailureHandlingTest",
    "kafka.api.TransactionsBounceTest",
    "kafka.api.TransactionsTest",
)
JAVA = PINS / "kafka-it" / "java"
POM = PINS / "kafka-it" / "pom.xml"
TIMEOUT_S = 1800
RUNS_ALREADY = "runs already"


def run_tests(order: Order) -> list[Outcome]:
    """Run the named tests (``Class.method``, or a whole class), or those of every class."""
    built = set_up()
    reports = order.folder / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    classes = CLASSES if order.brokers == 1 else CLASSES + CLUSTER_CLASSES
    command = (
        *(part if part != "-Xmx256m" else "-Xmx1g" for part in JVM),
        *("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", f"-Djava.io.tmpdir={order.folder}"),
        *("-cp", f"{built / 'classes'}:{built / 'lib'}/*", "org.junit.platform.console.ConsoleLauncher", "execute"),
        *("--disable-banner", "--disable-ansi-colors", "--details=tree", f"--reports-dir={reports}"),
        *(option for name in order.only or map(simple_name, classes) for option in selectors(name)),
        *(f"--exclude-methodname=.*{name.replace('.', '#')}" for name in order.without),
    )
    # If several brokers are allowed, each test gets the number that it requires.
    most = "1" if order.brokers == 1 else "9"
    printed = run_logged(order, command, TIMEOUT_S, EXT_CMD=str(EXT_CLUSTER), EXT_MAX_BROKERS=most)
    found = from_junit(reports.glob("TEST-junit-jupiter.xml"), name_of)
    return [outcome for outcome in found if RUNS_ALREADY not in outcome.detail] or no_outcomes(order, printed)


def selectors(name: str) -> tuple[str, ...]:
    """Return the launcher's options for a test or a class of tests."""
    wanted, _, method = name.partition(".")
    (class_name,) = (one for one in CLASSES + CLUSTER_CLASSES if simple_name(one) == wanted)
    package = "" if class_name.startswith("kafka.") else f"{CLIENTS}."
    tests = method.partition("[")[0] or ".*"
    return f"--select-class={package}{class_name}", f"--include-methodname=.*[.]{wanted}#{tests}"


def simple_name(class_name: str) -> str:
    return class_name.rpartition(".")[2]


def name_of(case: ElementTree.Element) -> str:
    class_name = case.attrib["classname"].rpartition(".")[2]
    method, _, run_number = case.attrib["name"].partition("(")
    number = run_number.rpartition("[")[2].rstrip("]")
    return f"{class_name}.{method}" + (f"[{number}]" if number not in ("", "1", ")") else "")


def set_up() -> Path:
    """Fetch the tests with their dependencies, and compile the replacement of their clusters."""
    require("java", "javac", "mvn")

    def build(folder: Path) -> None:
        target = f"-DoutputDirectory={folder / 'lib'}"
        run("mvn", "-q", "-B", "-f", POM, "dependency:copy-dependencies", target, "-DincludeScope=runtime")
        run("javac", "-nowarn", "-d", folder / "classes", "-cp", f"{folder / 'lib'}/*", *JAVA.glob("*.java"))

    return prepared("kafka-it", [POM, *JAVA.glob("*.java")], build, cache_of="maven")
