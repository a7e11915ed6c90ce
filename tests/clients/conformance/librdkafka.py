"""librdkafka's own tests, in C and C++: the client, its admin calls, idempotence, transactions and groups.

Its sources come inside an npm package, the one by its makers that carries the tests too. A few tests call Apache
Kafka's scripts, which are given them. It runs in its quick mode and without the tests that need no broker.
"""

import hashlib
import re
import shlex
from pathlib import Path

from tests.clients.conformance.outcomes import Outcome
from tests.clients.conformance.suite import Order, nothing_told, run_logged
from tests.oracles.apache_kafka import kafka_tool
from tests.setups import prepared, require, run

PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
SHA256 = "ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66"

SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
}

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SUMMARY = re.compile(r"^\| (\d{4}_\S+) +\| +(PASSED|FAILED|SKIPPED) \| +([\d.]+)s \|(.*)$", re.MULTILINE)
AT_ONCE = "4"
TIMEOUT_S = 900


def run_tests(order: Order) -> list[Outcome]:
    """Run the tests whose names are given, one after the other, or all of them, some at once."""
    built = set_up()
    (order.folder / "test.conf").write_text(f"metadata.broker.list={order.bootstrap}\n")
    scripts(order.folder / "kafka" / "bin")
    environment = {
        "RDKAFKA_TEST_CONF": str(order.folder / "test.conf"),
        "LD_LIBRARY_PATH": f"{built / 'src'}:{built / 'src-cpp'}",
        "TEST_KAFKA_VERSION": "4.3.1",
        "BROKERS": order.bootstrap,
        "KAFKA_PATH": str(order.folder / "kafka"),
        "TESTS_SKIP": ",".join(order.without),
    }
    program = built / "tests" / "test-runner"
    if not order.only:
        printed = run_logged(order, (program, f"-p{AT_ONCE}", "-Q", "-L"), TIMEOUT_S, **environment)
        return outcomes(printed) or nothing_told(order, printed)
    found = []
    for name in order.only:
        printed = run_logged(order, (program, "-p1", "-Q", "-L"), TIMEOUT_S, **environment, TESTS=name)
        # It looks for tests whose names begin so.
        found += [outcome for outcome in outcomes(printed) if outcome.name == name] or nothing_told(order, printed)
    return found


def outcomes(printed: str) -> list[Outcome]:
    """Read the summary at the end, with what a failed test said before."""
    printed = COLOUR.sub("", printed)
    failures = {found[1]: found[0] for found in re.finditer(r'^### Test "(\w+)[^\n]*\n[^\n]*', printed, re.MULTILINE)}
    return [
        Outcome(name, result.lower(), failures.get(name, said.strip()), float(seconds))
        for name, result, seconds, said in SUMMARY.findall(printed)
    ]


def scripts(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, tool in SCRIPTS.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(kafka_tool(tool))} "$@"\n')
        script.chmod(0o755)


def set_up() -> Path:
    """Fetch and build librdkafka and its tests (minutes, once)."""
    require("npm", "make", "gcc", "g++")
    return prepared("librdkafka", [Path(__file__)], build)


def build(folder: Path) -> None:
    archive = folder / run("npm", "pack", "--silent", PACKAGE, cwd=folder).split()[-1]
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise RuntimeError(f"{PACKAGE} has the SHA-256 {found}, not the pinned one")
    run("tar", "xzf", archive, "--strip-components=3", "package/deps/librdkafka", cwd=folder)
    run("./configure", "--disable-gssapi", cwd=folder)
    for part in (("src",), ("src-cpp",), ("tests", "test-runner")):
        run("make", "-j2", "-C", *part, cwd=folder, timeout_s=1800)
