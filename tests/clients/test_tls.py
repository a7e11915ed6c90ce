"""TLS with unmodified clients, and between brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.certificates import Certificates
from tests.chaos.cluster import CLIENTS, CONTROLLER, INTERNAL, Cluster, NoGates, wait_until
from tests.clients.secure_clients import check_console_tools, check_kafka_python, read
from tests.typed import present

LARGE = bytes(range(256)) * 2000


@pytest.fixture(scope="module")
def broker(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose only listener is encrypted, and that only alice may use."""
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/,DEFAULT",
    }
    encrypted = certificates.broker_settings(ssl_client_auth="requested")
    with BrokerProcess(tmp_path_factory.mktemp("broker"), {**QUICK_GROUPS, **settings, **encrypted}) as running:
        yield running
    running.check_log()


def librdkafka(
    broker: BrokerProcess, trusted: Path, identity: Path | None = None
) -> dict[str, str | int | float | bool]:
    own = {} if identity is None else {"ssl.certificate.location": str(identity), "ssl.key.location": str(identity)}
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(trusted),
        "log_level": 0,
        **own,
    }


def test_librdkafka_writes_and_reads_large_records_with_its_certificate(
    broker: BrokerProcess, certificates: Certificates
) -> None:
    settings = librdkafka(broker, certificates.trusted, certificates.alice)
    producer = Producer({**settings, "enable.idempotence": True})
    for _ in range(40):
        producer.produce("large", LARGE)
    assert producer.flush(30) == 0
    assert read(settings, "large", 40) == [LARGE] * 40


def test_kafka_python_writes_and_reads_with_its_certificate(broker: BrokerProcess, certificates: Certificates) -> None:
    settings = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(certificates.trusted),
        "ssl_certfile": str(certificates.alice),
    }
    check_kafka_python(settings, "small")


def test_apache_kafkas_tools_write_and_read_with_their_certificates(
    broker: BrokerProcess, certificates: Certificates, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
        f"ssl.keystore.location={certificates.alice}\nssl.truststore.location={certificates.trusted}\n"
    )
    check_console_tools(broker.bootstrap, "java", config)


def test_client_without_certificate_may_nothing(broker: BrokerProcess, certificates: Certificates) -> None:
    producer = Producer({**librdkafka(broker, certificates.trusted), "message.timeout.ms": 5000})
    errors: list[KafkaError | None] = []
    producer.produce("large", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert [error and error.code() for error in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_changed_key_store_file_is_used_for_new_connections(certificates: Certificates, tmp_path: Path) -> None:
    identity = tmp_path / "broker.pem"
    identity.write_bytes(certificates.broker.read_bytes())
    others = Certificates(tmp_path)
    settings = {"listeners": "SSL://127.0.0.1:0"} | certificates.broker_settings()
    with BrokerProcess(tmp_path / "one", settings | {"ssl.keystore.location": str(identity)}) as broker:

        def trusts(authority: Certificates) -> bool:
            admin = AdminClient(librdkafka(broker, authority.trusted))
            try:
                return bool(admin.list_topics(timeout=2).brokers)
            except Exception:  # librdkafka's, of a time-out
                return False

        assert trusts(certificates)
        identity.write_bytes(others.broker.read_bytes())
        wait_until(lambda: trusts(others), "the new certificate is not used")
        assert not trusts(certificates)


def test_brokers_replicate_and_elect_over_tls_with_certificates_of_their_own(
    certificates: Certificates, tmp_path: Path
) -> None:
    settings = {
        "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{INTERNAL}:SSL,{CONTROLLER}:SSL",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:broker",
        "default.replication.factor": 3,
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/,DEFAULT",
        **certificates.broker_settings(ssl_client_auth="required"),
        "ssl.keystore.location": str(certificates.issue("node", "127.0.0.1", common_name="broker")),
    }
    with Cluster(tmp_path, NoGates(), settings) as cluster:
        cluster.wait_until_whole()
        bootstrap = ",".join(node.addresses[CLIENTS] for node in cluster.nodes.values())
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        for number in range(100):
            producer.produce("replicated", str(number))
        assert producer.flush(30) == 0
        cluster.wait_until_whole()
        first = present(cluster.describe()).controller
        cluster.nodes[first].kill()
        cluster.wait_for(lambda found: found.controller != first, "no other controller")
        producer.produce("replicated", "after")
        assert producer.flush(30) == 0
        assert [line for node in cluster.nodes.values() for line in node.complaints()] == []
