"""kafka-python's integration tests: admin calls, groups, idempotent and transactional producers.

They are in its source distribution, except one helper, ``pins/kafka-python/service.py``. They run on the kafka-python
that is installed beside pytest, which has the same version.

With security, their fixtures start the brokers, as they would start Apache Kafka, with its scripts: Java's `keytool`
makes the certificates, one module tests SSL, one SASL, and the plugin ``pins/kafka-python/secured.py`` lets all others
run on SASL_SSL.
"""

import re
import shlex
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.clients.conformance.outcomes import Outcome, from_junit
from tests.clients.conformance.suite import PINS, Order, no_outcomes, run_logged
from tests.oracles.apache_kafka import kafka_tool
from tests.setups import prepared, require, run

REQUIREMENTS = Path(__file__).parents[3] / "requirements" / "run.txt"
PINNED = PINS / "kafka-python"
HELPER = PINNED / "service.py"
TIMEOUT_S = 600


def run_tests(order: Order) -> list[Outcome]:
    """Run the named tests (``module::test``), or all of them."""
    sources = set_up()
    report = order.folder / "report.xml"
    environment = {"KAFKA_VERSION": "4.3.1", "PYTHONWARNINGS": "default", "PYTHONPATH": str(sources)}
    plugins: tuple[str, ...] = ()
    if order.security is None:
        environment |= {"KAFKA_ROOT": str(sources), "KAFKA_URI": f"kafka://{order.bootstrap.partition(',')[0]}"}
    else:
        require("java", "keytool", "openssl")
        environment |= {"KAFKA_ROOT": str(order.folder), "PROJECT_ROOT": str(PINNED)}
        environment["PYTHONPATH"] += f":{PINNED}"
        plugins = ("-p", "secured")
        scripts(order.folder / "bin")
    tests = [f"test/integration/{name}" for name in order.only] or ["test/integration"]
    left_out = [f"--deselect=test/integration/{name}" for name in order.without]
    options = ("-q", "-o", "addopts=", "-o", "junit_logging=no", "-p", "no:cacheprovider", "-p", "no:logging")
    command = (sys.executable, "-m", "pytest", *plugins, *tests, *left_out, *options, f"--junitxml={report}")
    printed = run_logged(order, command, TIMEOUT_S, sources, **environment)
    return from_junit([report], name_of) if report.exists() else no_outcomes(order, printed)


def scripts(folder: Path) -> None:
    """Write the scripts of a distribution that the fixtures call."""
    folder.mkdir()
    distribution = (sys.executable, str(PINNED / "distribution.py"))
    commands = {
        "kafka-storage.sh": f'{shlex.join(distribution)} "$@"',
        "kafka-run-class.sh": f'{shlex.join(distribution)} start "$2"',
        "kafka-topics.sh": f'{shlex.join(kafka_tool("org.apache.kafka.tools.TopicCommand"))} "$@"',
    }
    for name, command in commands.items():
        (folder / name).write_text(f"#!/bin/sh\nexec {command}\n")
        (folder / name).chmod(0o755)


def name_of(case: ElementTree.Element) -> str:
    module = case.attrib["classname"].removeprefix("test.integration.")
    return f"{module.replace('.', '.py::', 1) if '.' in module else module + '.py'}::{case.attrib['name']}"


def set_up() -> Path:
    """Fetch kafka-python's source distribution with the version and the hashes of our own requirements."""
    return prepared("kafka-python", [REQUIREMENTS, HELPER], build)


def build(folder: Path) -> None:
    pin = re.search(r"^kafka-python==\S+( \\\n +--hash=\S+)+", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    if pin is None:
        raise RuntimeError(f"{REQUIREMENTS} pins no kafka-python")
    (folder / "pin.txt").write_text(pin[0] + "\n")
    # Our own environment may have been made without pip.
    run(sys.executable, "-m", "venv", folder / "pip")
    python = folder / "pip" / "bin" / "python"
    source_only = ("--no-deps", "--no-binary", ":all:", "--require-hashes", "-r", folder / "pin.txt")
    run(python, "-m", "pip", "download", "-q", "--disable-pip-version-check", *source_only, cwd=folder)
    (archive,) = folder.glob("kafka_python-*.tar.gz")
    run("tar", "xzf", archive, "--strip-components=1", "--wildcards", "*/test/*", cwd=folder)
    shutil.copy(HELPER, folder / "test")
    (folder / "test" / "__init__.py").touch()
