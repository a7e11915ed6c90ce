"""librdkafka's own tests, in C and C++: the client, its admin calls, idempotence, transactions and groups.

Its sources come from an npm package of its makers, the one that includes the tests. A few tests call Apache Kafka's
scripts, which are provided. It runs in its quick mode, plus the tests that this mode skips, without the tests that need
no broker. Two tests also run Java programs of its own, which are compiled here.
"""

import hashlib
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.clients.conformance.outcomes import Outcome
from tests.clients.conformance.security import KEY_PASSWORD, Security
from tests.clients.conformance.suite import PINS, SUITE_ITSELF, Order, no_outcomes, run_logged
from tests.oracles.apache_kafka import JVM, kafka_classpath, kafka_tool
from tests.setups import prepared, require, require_file, run

PIN = PINS / "librdkafka" / "package.txt"
# Only needed by tests that read statistics; Debian's package rapidjson-dev has it.
RAPIDJSON = Path("/usr/include/rapidjson/document.h")

SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
}

# Tests that cut their connections close sockets by number, which may be those of others in the same process.
CUTTING = ("0049", "0068", "0075", "0076", "0086", "0088", "0094")
# Skipped by the quick mode, some for the most part.
NOT_QUICK = ("0082_fetch_max_bytes", "0098_consumer_txn", "0142_reauthentication")
# A failed part ends its test. These run part by part, so that one failure does not hide others.
PARTS: dict[str, tuple[str, ...]] = {
    "0081_admin": (
        *("CreateTopics", "DeleteTopics", "CreatePartitions", "CreateAcls", "DescribeAcls", "DeleteAcls"),
        *("AlterConfigs", "IncrementalAlterConfigs", "DescribeConfigs", "DeleteRecords", "ListConsumerGroups"),
        *("DescribeConsumerGroups", "DescribeTopics", "DescribeCluster", "DeleteGroups", "ListOffsets"),
        *("DeleteConsumerGroupOffsets", "AlterConsumerGroupOffsets", "ListConsumerGroupOffsets"),
        *("DescribeConfigs_groups", "DescribeConsumerGroups_with_authorized_ops"),
        *("UserScramCredentials", "unclean_destroy"),
    )
}

# Not listed: their parts for consumers of share groups, and for tokens without a signature. A failed 0097 leaves a
# client that calls its freed objects, which ends the whole program.
SECURED_PARTS: dict[str, tuple[str, ...]] = {
    "0097_ssl_verify": (),
    "0135_sasl_credentials": ("client",),
    "0142_reauthentication": ("consumer", "producer", "txn_producer", "reauth_failure"),
}
SUBTESTS = {"0135_sasl_credentials/client": "do_test:"}

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SUMMARY = re.compile(r"^\| (\d{4}_\S+) +\| +(\S+) \| +([\d.]+)s \|(.*)$", re.MULTILINE)
RESULTS = {"PASSED": "passed", "SKIPPED": "skipped"}
AT_ONCE = 4
TIMEOUT_S = 900


class Runner:
    """The test program, with its environment."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._built = set_up()
        self.parts = PARTS | (SECURED_PARTS if order.security else {})
        client = order.security.librdkafka if order.security else {}
        (order.folder / "test.conf").write_text(
            "".join(f"{name}={value}\n" for name, value in {"metadata.broker.list": order.bootstrap, **client}.items())
        )
        scripts(order.folder / "kafka" / "bin", order.security)
        java_programs(order.folder / "java", self._built / "tests" / "java")
        (order.folder / "src").symlink_to(self._built / "src")  # for the schema of the statistics
        self._environment = {
            "RDKAFKA_TEST_CONF": str(order.folder / "test.conf"),
            "LD_LIBRARY_PATH": f"{self._built / 'src'}:{self._built / 'src-cpp'}",
            "TEST_KAFKA_VERSION": "4.3.1",
            "BROKERS": order.bootstrap,
            "KAFKA_PATH": str(order.folder / "kafka"),
        }
        if order.security is not None:
            self._environment |= {name: str(path) for name, path in order.security.key_files.items()}
            self._environment["SSL_password"] = KEY_PASSWORD

    def run(self, name: str, at_once: int, *, quick: bool = True, **chosen: Any) -> list[Outcome]:
        """Run the tests that ``chosen`` selects, as environment variables of the program."""
        folder = self._order.folder / name
        folder.mkdir()
        (folder / "java").symlink_to(self._order.folder / "java")
        (folder / "fixtures").symlink_to(self._built / "tests" / "fixtures")  # certificates of no authority of ours
        # The program aborts at its end if a failed test has left threads; the table before that must not be lost.
        line_by_line = ("stdbuf", "-oL")
        program = self._built / "tests" / "test-runner"
        command = (*line_by_line, program, f"-p{at_once}", *(["-Q"] if quick else []), "-L")
        order = self._order._replace(folder=folder)
        printed = run_logged(order, command, TIMEOUT_S, **self._environment, **chosen)  # type: ignore[arg-type]  # keywords of several types
        return outcomes(printed) or no_outcomes(order, printed)

    def alone(self, name: str) -> Outcome:
        """Run one test, or one part (``test/part``) of it."""
        test, _, part = name.partition("/")
        chosen = {"TESTS": test[:4]} | ({"SUBTESTS": SUBTESTS.get(name, f"do_test_{part}:")} if part else {})
        # It runs all tests of the same number.
        quick = not {name, test} & set(NOT_QUICK)
        reported = self.run(name.replace("/", "-"), 1, quick=quick, **chosen)
        found = [one for one in reported if one.name in (test, SUITE_ITSELF)]
        return found[0]._replace(name=name)

    def cutting(self) -> list[Outcome]:
        return [one for one in self.run("cutting", 1, TESTS=",".join(CUTTING)) if one.name[:4] in CUTTING]

    def others(self) -> list[Outcome]:
        left_out = ",".join((*CUTTING, *(name[:4] for name in (*self.parts, *NOT_QUICK))))
        return [one for one in self.run("others", AT_ONCE, TESTS_SKIP=left_out) if one.name[:4] not in left_out]


def run_tests(order: Order) -> list[Outcome]:
    """Run the named tests one after the other, or all of them, some in parallel."""
    runner = Runner(order)
    if order.only:
        return [runner.alone(name) for name in order.only]
    parts = [
        *(name for name in NOT_QUICK if name not in runner.parts),
        *(f"{test}/{part}" if part else test for test, names in runner.parts.items() for part in names or ("",)),
    ]
    with ThreadPoolExecutor() as pool:
        others, cutting = pool.submit(runner.others), pool.submit(runner.cutting)
        return [*cutting.result(), *(runner.alone(part) for part in parts), *others.result()]


def outcomes(printed: str) -> list[Outcome]:
    """Read the summary at the end and the messages of failed tests before it; a test without a result has failed."""
    printed = COLOUR.sub("", printed)
    failures = {found[1]: found[0] for found in re.finditer(r'^### Test "(\w+)[^\n]*\n[^\n]*', printed, re.MULTILINE)}
    return [
        Outcome(name, RESULTS.get(result, "failed"), failures.get(name, shown.strip()), float(seconds))
        for name, result, seconds, shown in SUMMARY.findall(printed)
    ]


def scripts(folder: Path, security: Security | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    more = f" --command-config {shlex.quote(str(security.java))}" if security else ""
    for name, tool in SCRIPTS.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(kafka_tool(tool))} "$@"{more}\n')
        script.chmod(0o755)


def java_programs(folder: Path, sources: Path) -> None:
    """Write the script that runs the tests' Java programs; `make java`, which they call first, finds this folder."""
    programs = sorted(sources.glob("*.java"))
    built = prepared(
        "librdkafka-java", programs, lambda to: run("javac", "-d", to, "-cp", kafka_classpath(), *programs)
    )
    folder.mkdir()
    script = folder / "run-class.sh"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(JVM)} -cp {shlex.quote(f"{built}:{kafka_classpath()}")} "$@"\n')
    script.chmod(0o755)


def set_up() -> Path:
    """Fetch and build librdkafka and its tests (about four CPU minutes, once)."""
    require("npm", "make", "gcc", "g++", "javac", "stdbuf")
    require_file("rapidjson-dev", RAPIDJSON)
    return prepared("librdkafka-with-rapidjson", [PIN], build)


def build(folder: Path) -> None:
    package, pinned = PIN.read_text(encoding="utf-8").split()
    archive = folder / run("npm", "pack", "--silent", package, cwd=folder).split()[-1]
    found = f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
    if found != pinned:
        raise RuntimeError(f"{package} is {found}, pinned is {pinned}")
    run("tar", "xzf", archive, "--strip-components=3", "package/deps/librdkafka", cwd=folder)
    run("./configure", "--disable-gssapi", cwd=folder)
    for part in (("src",), ("src-cpp",), ("tests", "test-runner")):
        run("make", "-j2", "-C", *part, cwd=folder, timeout_s=1800)
