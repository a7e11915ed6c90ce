"""SASL with unmodified clients, and between brokers."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from protocol.api import ApiKey
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from tests.broker_process import COMMAND, QUICK_GROUPS, BrokerProcess
from tests.certificates import Certificates
from tests.chaos.cluster import CLIENTS, CONTROLLER, INTERNAL, Cluster, NoGates
from tests.clients.secure_clients import check_console_tools, check_kafka_python, read
from tests.oracles.apache_kafka import kafka_tool
from tests.raw_client import RawClient
from tests.token_client import UserConnection
from tests.typed import present

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SESSION_S = 4.0  # re-authentication is refused within a second of the one before
PASSWORD = 'al"ice,=;'


@pytest.fixture(scope="module")
def broker(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with SASL_SSL, whose sessions are short, that only alice may use."""
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN} username="node" password="own" user_node="own" user_alice="al\\"ice,=;" user_bob="bob";'
        ),
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "connections.max.reauth.ms": int(1000 * SESSION_S),
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:alice;User:node",
    }
    with BrokerProcess(
        tmp_path_factory.mktemp("broker"), {**QUICK_GROUPS, **settings, **certificates.broker_settings()}
    ) as running:
        yield running
    running.check_log()


def librdkafka(
    broker: BrokerProcess, certificates: Certificates, user: str = "alice", password: str = PASSWORD
) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates.trusted),
        "sasl.mechanisms": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


def barnabas(
    broker: BrokerProcess, certificates: Certificates, folder: Path, *words: str, stdin: bytes | None = None
) -> None:
    """Run a command as alice."""
    config = folder / "librdkafka.properties"
    login = librdkafka(broker, certificates)
    names = login.keys() - {"bootstrap.servers", "log_level"}
    config.write_text("".join(f"{name}={login[name]}\n" for name in names))
    command = (*COMMAND, *words, "-F", str(config), "-b", broker.bootstrap)
    subprocess.run(command, input=stdin, check=True, timeout=60)


def test_librdkafka_authenticates_again_while_it_writes_and_reads(
    broker: BrokerProcess, certificates: Certificates
) -> None:
    settings = librdkafka(broker, certificates)
    errors: list[KafkaError | None] = []
    producer = Producer({**settings, "retries": 0})
    count, deadline = 0, time.monotonic() + 3 * SESSION_S
    while time.monotonic() < deadline:
        producer.produce("again", str(count), on_delivery=lambda error, _: errors.append(error))
        producer.poll(0.01)
        count += 1
    assert producer.flush(30) == 0
    assert errors == [None] * count
    assert read(settings, "again", count) == [str(number).encode() for number in range(count)]


def test_client_that_is_throttled_authenticates_again_and_loses_nothing(
    broker: BrokerProcess, certificates: Certificates, tmp_path: Path
) -> None:
    settings = librdkafka(broker, certificates)
    quota = ("quota", "set", "--client-id", "noisy", "producer_byte_rate=50000")
    barnabas(broker, certificates, tmp_path, *quota)
    errors: list[KafkaError | None] = []
    throttled: list[float] = []
    producer = Producer(
        {
            **settings,
            "client.id": "noisy",
            "retries": 0,
            "linger.ms": 0,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    count, deadline = 0, time.monotonic() + 3 * SESSION_S
    while time.monotonic() < deadline:
        producer.produce("throttled", bytes(20_000), on_delivery=lambda error, _: errors.append(error))
        producer.flush(30)
        count += 1
    assert errors == [None] * count
    assert sum(throttled) > SESSION_S
    refused = [line for line in broker.log.read_text().splitlines() if "session has expired" in line]
    assert refused == []


def test_kafka_python_writes_and_reads(broker: BrokerProcess, certificates: Certificates) -> None:
    settings = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(certificates.trusted),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }
    check_kafka_python(settings, "small")


def java(tmp_path: Path, certificates: Certificates, password: str) -> Path:
    config = tmp_path / "client.properties"
    escaped = password.replace('"', '\\\\"')
    config.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} username="alice" password="{escaped}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates.trusted}\n"
    )
    return config


def test_apache_kafkas_tools_write_and_read(broker: BrokerProcess, certificates: Certificates, tmp_path: Path) -> None:
    config = java(tmp_path, certificates, PASSWORD)
    check_console_tools(broker.bootstrap, "java", config)


def failure(settings: Mapping[str, str | int | float | bool]) -> KafkaError:
    """Return the first error of a client that cannot write."""
    errors: list[KafkaError | None] = []
    producer = Producer({**settings, "error_cb": errors.append})
    producer.produce("small", b"x", on_delivery=lambda error, _: errors.append(error))
    deadline = time.monotonic() + 30
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    producer.purge()
    producer.flush(5)
    return present(errors[0])


def test_wrong_password_is_an_authentication_error(broker: BrokerProcess, certificates: Certificates) -> None:
    error = failure(librdkafka(broker, certificates, password="wrong"))
    assert error.code() == KafkaError._AUTHENTICATION
    assert "Authentication failed: Invalid username or password" in error.str()


def test_other_user_is_authenticated_but_not_authorized(broker: BrokerProcess, certificates: Certificates) -> None:
    error = failure(librdkafka(broker, certificates, "bob", "bob"))
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("listener.name.sasl_ssl.ssl.keystore.location", "/missing.pem", "/missing.pem"),
        ("listener.name.sasl_ssl.ssl.truststore.type", "JKS", "set ssl.truststore.type=PEM"),
        ("listener.name.sasl_ssl.plain.sasl.jaas.config", "no module", "with ; at the end"),
        ("listener.name.sasl_ssl.sasl.enabled.mechanisms", "GSSAPI", "GSSAPI, the default, is not supported"),
    ],
)
def test_alteration_that_the_broker_could_not_use_is_refused(
    broker: BrokerProcess, certificates: Certificates, name: str, value: str, message: str
) -> None:
    admin = AdminClient(librdkafka(broker, certificates))
    resource = ConfigResource(
        ConfigResource.Type.BROKER,
        "1",
        incremental_configs=[ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)],
    )
    (altered,) = admin.incremental_alter_configs([resource]).values()
    with pytest.raises(KafkaException) as refused:
        altered.result(30)
    error = refused.value.args[0]
    assert error.code() == KafkaError.INVALID_REQUEST
    assert message in error.str()


def test_brokers_authenticate_to_each_other_by_scram_users_of_the_new_cluster_again_and_again(tmp_path: Path) -> None:
    login = f'{PLAIN} username="node" password="own" user_node="own";'
    settings = {
        "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{INTERNAL}:SASL_PLAINTEXT,{CONTROLLER}:SASL_PLAINTEXT",
        "listener.name.internal.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.internal.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="node" password="scram";',
        "listener.name.controller.plain.sasl.jaas.config": login,
        "connections.max.reauth.ms": int(1000 * SESSION_S),
        "authorizer.class.name": AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:node",
        "min.insync.replicas": 3,
        "default.replication.factor": 3,
    }
    password = tmp_path / "password"
    password.write_text("scram\n")
    brokers = Cluster(tmp_path, NoGates(), settings)
    for node in brokers.nodes.values():
        node.command.append(f"--add-scram=SCRAM-SHA-512=[name=node,password-file={password}]")
        node.command.append("--control=127.0.0.1:0")  # connections to other nodes then pass gates
    with brokers as cluster:
        cluster.wait_until_whole()
        controller = present(cluster.describe()).controller
        bootstrap = ",".join(node.addresses[CLIENTS] for node in cluster.nodes.values())
        errors: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "retries": 0, "log_level": 0})
        deadline = time.monotonic() + 3 * SESSION_S
        while time.monotonic() < deadline:
            producer.produce("replicated", b"x", on_delivery=lambda error, _: errors.append(error))
            producer.poll(0.01)
        assert producer.flush(30) == 0
        assert set(errors) == {None}
        assert present(cluster.describe()).controller == controller
        assert [line for node in cluster.nodes.values() for line in node.complaints()] == []
        logs = "".join(node.log.read_text() for node in cluster.nodes.values())
        assert "lost" not in logs


def test_existing_cluster_starts_without_the_password_files_of_its_first_scram_users(tmp_path: Path) -> None:
    password = tmp_path / "password"
    option = f"--add-scram=SCRAM-SHA-512=[name=carol,password-file={password}]"
    broker = BrokerProcess(tmp_path / "first", options=[option])
    with pytest.raises(RuntimeError, match="password: No such file or directory"):
        broker.start()
    password.write_text("secret\n")
    with broker:
        assert broker.stop() == 0
        password.unlink()
        broker.start()
        described = cast("Any", AdminClient({"bootstrap.servers": broker.bootstrap}))
        users = described.describe_user_scram_credentials(["carol"])["carol"].result(30)
        assert [one.mechanism for one in users.scram_credential_infos] == [ScramMechanism.SCRAM_SHA_512]
        assert "adds nothing to it" in broker.log.read_text()


def test_challenge_of_an_unknown_user_stays_when_the_first_user_is_changed_and_removed(tmp_path: Path) -> None:
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN} user_admin="secret";',
    }
    users = [f"--add-scram=SCRAM-SHA-512=[name={name},password=secret]" for name in ("aaron", "bob")]
    changed = AlterUserScramCredentialsRequest.Upsertion(
        name="aaron", mechanism=2, iterations=4096, salt=bytes(range(24)), salted_password=b"changed"
    )
    removed = AlterUserScramCredentialsRequest.Deletion(name="aaron", mechanism=2)
    with BrokerProcess(tmp_path / "scram", settings, options=users) as broker:
        before = {user: challenge(broker.bootstrap, user) for user in ("bob", "unknown", "aaron")}
        for change in ({"deletions": [], "upsertions": [changed]}, {"deletions": [removed], "upsertions": []}):
            with UserConnection(broker.bootstrap, "admin", "secret") as admin:
                answer = admin.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, **change)
            assert [(one.user, one.error_code) for one in answer.results] == [("aaron", 0)]
            assert [challenge(broker.bootstrap, user) for user in ("bob", "unknown")] == list(before.values())[:2]
            assert challenge(broker.bootstrap, "aaron") != before["aaron"]
        assert broker.stop() == 0
        broker.start()
        assert [challenge(broker.bootstrap, user) for user in ("bob", "unknown")] == list(before.values())[:2]


def challenge(bootstrap: str, user: str) -> bytes:
    """Return the salt and the iterations with which a user is challenged."""
    client = RawClient(bootstrap)
    with closing(client):
        client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-512")
        answer = client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"n,,n={user},r=client".encode())
    return bytes(answer.auth_bytes).partition(b",")[2]


def test_scram_user_made_by_apache_kafkas_tool_writes_until_removed(certificates: Certificates, tmp_path: Path) -> None:
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} user_alice="al\\"ice,=;";',
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (f'{SCRAM} username="node" password="own";'),
    }
    with BrokerProcess(tmp_path / "scram", {**settings, **certificates.broker_settings()}) as broker:
        config = java(tmp_path, certificates, PASSWORD)
        by_tool = ("--entity-type", "users", "--entity-name", "carol", "--add-config")
        change = "SCRAM-SHA-256=[iterations=8192,password=carol-secret]"
        tool = kafka_tool(
            *("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--command-config", str(config)),
            *("--alter", *by_tool, change),
        )
        subprocess.run(tool, check=True, timeout=120)
        admin = AdminClient(librdkafka(broker, certificates))
        by_librdkafka = UserScramCredentialUpsertion(
            "carol", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"carol-secret"
        )
        admin.alter_user_scram_credentials([by_librdkafka])["carol"].result(30)
        described = cast("Any", admin.describe_user_scram_credentials(["carol"]))["carol"].result(30)
        assert [(one.mechanism, one.iterations) for one in described.scram_credential_infos] == [
            (ScramMechanism.SCRAM_SHA_256, 8192),
            (ScramMechanism.SCRAM_SHA_512, 4096),
        ]
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            scram = {**librdkafka(broker, certificates, "carol", "carol-secret"), "sasl.mechanisms": mechanism}
            producer = Producer(scram)
            producer.produce("scram", mechanism)
            assert producer.flush(30) == 0
            wrong = failure({**scram, "sasl.password": "wrong"})
            assert wrong.code() == KafkaError._AUTHENTICATION
        reset = ("user", "add", "carol", "--password-file", "-")
        barnabas(broker, certificates, tmp_path, *reset, stdin=b"carol-changed\n")
        changed = {**librdkafka(broker, certificates, "carol", "carol-changed"), "sasl.mechanisms": "SCRAM-SHA-512"}
        assert read(changed, "scram", 2) == [b"SCRAM-SHA-256", b"SCRAM-SHA-512"]
        removal = UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256)
        admin.alter_user_scram_credentials([removal])["carol"].result(30)
        gone = {**librdkafka(broker, certificates, "carol", "carol-secret"), "sasl.mechanisms": "SCRAM-SHA-256"}
        assert failure(gone).code() == KafkaError._AUTHENTICATION
        broker.check_log()
