"""`barnabas up --secure`: the clients of each language with the files that it writes for them."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError

from tests.broker_process import COMMAND
from tests.clients.secure_clients import check_console_tools, check_kafka_python, read
from tests.typed import present


class SecureCluster:
    """A running cluster: its addresses, and the paths of the clients' files."""

    def __init__(self, ready: Mapping[str, Any]) -> None:
        self.bootstrap: str = ready["bootstrap"]
        self.data = Path(ready["brokers"][0]["data_dir"]).parent
        self.admin: dict[str, str] = ready["client_files"]["admin"]
        self.client: dict[str, str] = ready["client_files"]["client"]

    def command(self, user: Mapping[str, str], *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, *words, "--command-config", user["java"]]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)


def librdkafka(user: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    """Return the settings in the file for librdkafka."""
    lines = Path(user["librdkafka"]).read_text().splitlines()
    return {**dict(line.split("=", 1) for line in lines), "log_level": 0}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    folder = tmp_path_factory.mktemp("secure")
    command = [*COMMAND, "up", "--brokers", "3", "--secure", "--data-dir", str(folder / "data"), "--json"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--topic", "orders:3"], stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            line = present(process.stdout).readline()
            assert line, (folder / "log").read_text()
            yield SecureCluster(json.loads(line))
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in (folder / "log").read_text()


def test_only_this_user_can_enter_the_directories_of_the_data(cluster: SecureCluster) -> None:
    folders = [cluster.data, *(cluster.data / str(number) for number in (1, 2, 3))]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 4
    assert list(cluster.data.glob("*/orders-*"))


def test_command_config_and_files_for_librdkafka_and_kafka_python_work(cluster: SecureCluster) -> None:
    created = cluster.command(cluster.admin, "topic", "create", "small")
    assert (created.returncode, created.stderr) == (0, "")
    check_kafka_python(json.loads(Path(cluster.admin["kafka_python"]).read_text()), "small")
    errors: list[KafkaError | None] = []
    producer = Producer(librdkafka(cluster.admin))
    producer.produce("orders", b"by librdkafka", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]
    assert read(librdkafka(cluster.admin), "orders", 1) == [b"by librdkafka"]


def test_apache_kafkas_console_tools_write_and_read(cluster: SecureCluster) -> None:
    assert cluster.command(cluster.admin, "topic", "create", "java").returncode == 0
    check_console_tools(cluster.bootstrap, "java", Path(cluster.admin["java"]))


def test_user_client_may_do_what_acls_allow(cluster: SecureCluster) -> None:
    assert cluster.command(cluster.admin, "topic", "create", "payments").returncode == 0
    refused = cluster.command(cluster.client, "produce", "payments", stdin="one\n")
    assert refused.returncode == 1
    assert "authoriz" in refused.stderr.lower()
    allowed = cluster.command(
        *(cluster.admin, "acl", "add", "--allow-principal", "User:client"), "--producer", "--topic", "payments"
    )
    assert allowed.returncode == 0
    written = cluster.command(cluster.client, "produce", "payments", stdin="one\n")
    assert (written.returncode, written.stderr) == (0, "")


def test_what_a_user_may_not_access_is_named(cluster: SecureCluster) -> None:
    assert cluster.command(cluster.admin, "topic", "create", "hidden").returncode == 0
    assert cluster.command(cluster.admin, "produce", "hidden", stdin="one\n").returncode == 0

    def refused(*words: str) -> str:
        done = cluster.command(cluster.client, *words)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr.removeprefix("barnabas ").rstrip("\n")

    missing = "or this user may not describe it"
    assert refused("consume", "hidden", "-e") == f"consume: there is no topic hidden, {missing}"
    assert refused("topic", "describe", "hidden") == f"topic describe: hidden: there is no such topic, {missing}"
    describe = ("--allow-principal", "User:client", "--operation", "Describe", "--topic", "hidden")
    assert cluster.command(cluster.admin, "acl", "add", *describe).returncode == 0

    def needs(operation: str, kind: str, name: str) -> str:
        add = f"barnabas acl add --allow-principal User:NAME --operation {operation} --{kind} {name}"
        return f"this user is not authorized: it needs {operation} on {kind} {name} (`{add}`)"

    assert refused("consume", "hidden", "-e") == f"consume: {needs('READ', 'topic', 'hidden')}"
    assert refused("consume", "hidden", "-e", "-g", "readers") == f"consume: {needs('READ', 'group', 'readers')}"
    assert refused("group", "describe", "readers") == f"group describe: {needs('DESCRIBE', 'group', 'readers')}"
    assert refused("group", "delete", "readers") == f"group delete: {needs('DELETE', 'group', 'readers')}"


def test_health_names_the_checks_that_a_user_may_not_make(cluster: SecureCluster) -> None:
    done = cluster.command(cluster.client, "health", "--json")
    assert done.returncode == 1
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert (checks["reachable"]["ok"], checks["reachable"]["facts"]) == (True, {"brokers": 3})
    unknown = {name: check["detail"] for name, check in checks.items() if not check["known"]}
    why = (
        "unknown: this user is not authorized: it needs DESCRIBE on the cluster "
        "(`barnabas acl add --allow-principal User:client --operation DESCRIBE --cluster`)"
    )
    assert unknown == dict.fromkeys(("controller", "log dirs", "served"), why)
    assert [name for name, check in checks.items() if not check["ok"]] == [*unknown]


def test_client_without_password_or_encryption_is_refused(cluster: SecureCluster) -> None:
    settings = json.loads(Path(cluster.client["kafka_python"]).read_text())
    with pytest.raises(KafkaPythonError):
        KafkaAdminClient(**{**settings, "sasl_plain_password": "wrong"}, bootstrap_timeout_ms=2000)
    plain = subprocess.run(
        [*COMMAND, "topic", "list", "-b", cluster.bootstrap], capture_output=True, text=True, timeout=60, check=False
    )
    assert plain.returncode == 1
    assert "does it require TLS?" in plain.stderr
