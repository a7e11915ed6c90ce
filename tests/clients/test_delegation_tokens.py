"""Delegation tokens with Apache Kafka's tools and clients, and across controllers."""

from __future__ import annotations

import json
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.certificates import Certificates
from tests.chaos.cluster import CLIENTS, CONTROLLER, INTERNAL, Cluster, NoGates, wait_until
from tests.clients.clients import CLIENTS as CLIENTS_OF_TESTS
from tests.clients.clients import Record
from tests.clients.secure_clients import check_console_tools
from tests.oracles.apache_kafka import kafka_tool
from tests.raw_client import RawClient
from tests.token_client import TokenConnection, UserConnection, new_token
from tests.typed import present

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOGIN = f'{PLAIN} username="node" password="own" user_node="own" user_alice="alice" user_bob="bob";'
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SETTINGS = {
    "sasl.enabled.mechanisms": f"PLAIN,{','.join(MECHANISMS)}",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:alice;User:node",
    "delegation.token.secret.key": "not to be known",
}


@pytest.fixture(scope="module")
def broker(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with SASL_SSL, whose only super user among clients is alice; tokens are swept every second."""
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": LOGIN,
        "delegation.token.expiry.check.interval.ms": 1000,
    }
    with BrokerProcess(
        tmp_path_factory.mktemp("broker"), {**QUICK_GROUPS, **SETTINGS, **settings, **certificates.broker_settings()}
    ) as running:
        yield running
    running.check_log()
    assert "not to be known" not in running.log.read_text()


def properties(folder: Path, certificates: Certificates, mechanism: str, login: str) -> Path:
    """Write settings of Java clients."""
    path = folder / "client.properties"
    path.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.jaas.config={login}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates.trusted}\n"
    )
    return path


def tool(broker: BrokerProcess, config: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run kafka-delegation-tokens.sh."""
    command = kafka_tool(
        *("org.apache.kafka.tools.DelegationTokenCommand", "--bootstrap-server", broker.bootstrap),
        *("--command-config", str(config), *options),
    )
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def rows(output: str) -> list[list[str]]:
    """Return the rows of the tool's table: id, HMAC, owner, requester and others."""
    lines = [line.split() for line in output.splitlines()]
    at = lines.index(next(line for line in lines if line[:1] == ["TOKENID"]))
    return [line for line in lines[at + 1 :] if line]


def test_apache_kafkas_tool_and_clients_use_a_token_until_it_is_expired(
    broker: BrokerProcess, certificates: Certificates, tmp_path: Path
) -> None:
    alice = properties(tmp_path, certificates, "PLAIN", f'{PLAIN} username="alice" password="alice";')
    created = tool(broker, alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    ((token_id, hmac, owner, requester, *_),) = rows(created.stdout)
    assert (owner, requester) == ("User:alice", "User:alice")
    described = tool(broker, alice, "--describe", "--owner-principal", "User:alice")
    assert [row[:2] for row in rows(described.stdout)] == [[token_id, hmac]]
    renewed = tool(broker, alice, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "Completed renew operation. New expiry date" in renewed.stdout

    login = f'{SCRAM} username="{token_id}" password="{hmac}" tokenauth="true";'
    bearer = properties(tmp_path, certificates, "SCRAM-SHA-512", login)
    check_console_tools(broker.bootstrap, "by-token", bearer)
    refused = tool(broker, bearer, "--create", "--max-life-time-period", "-1")
    assert refused.returncode == 1
    assert "DelegationToken" in refused.stderr

    alice = properties(tmp_path, certificates, "PLAIN", f'{PLAIN} username="alice" password="alice";')
    expired = tool(broker, alice, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation." in expired.stdout
    bearer = properties(tmp_path, certificates, "SCRAM-SHA-512", login)
    gone = tool(broker, bearer, "--describe")
    assert gone.returncode == 1
    assert "SaslAuthenticationException" in gone.stderr


def test_librdkafka_which_sends_no_extension_is_refused_with_a_token(
    broker: BrokerProcess, certificates: Certificates, tmp_path: Path
) -> None:
    alice = properties(tmp_path, certificates, "PLAIN", f'{PLAIN} username="alice" password="alice";')
    ((token_id, hmac, *_),) = rows(tool(broker, alice, "--create", "--max-life-time-period", "60000").stdout)
    errors: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(certificates.trusted),
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": token_id,
            "sasl.password": hmac,
            "log_level": 0,
            "error_cb": errors.append,
        }
    )
    deadline = time.monotonic() + 30
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert "Authentication failed" in str(errors[0])


@pytest.fixture
def plain_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker without TLS."""
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN,
        "delegation.token.expiry.check.interval.ms": 500,
    }
    with BrokerProcess(tmp_path / "broker", {**QUICK_GROUPS, **SETTINGS, **settings}) as running:
        yield running
    running.check_log()


def test_franz_go_writes_and_reads_with_a_token(plain_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    with UserConnection(plain_broker.bootstrap, "alice", "alice") as alice:
        token = new_token(alice)
    monkeypatch.setenv("TOKEN_ID", token.token_id)
    monkeypatch.setenv("TOKEN_HMAC", b64encode(token.hmac).decode())
    (franz,) = (client for client in CLIENTS_OF_TESTS if client.name == "franz-go")
    command, lines = franz.produce(plain_broker.bootstrap, "franz", "none", [Record("k", "v", [], 1_700_000_000_000)])
    subprocess.run(command, input=lines.encode(), check=True, timeout=60)
    reading = franz.consume(plain_broker.bootstrap, "franz", 1)
    found = subprocess.run(reading, check=True, capture_output=True, timeout=60).stdout
    assert json.loads(found)["value"] == "v"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_session_ends_with_its_token_unless_that_is_renewed(plain_broker: BrokerProcess, mechanism: str) -> None:
    address = plain_broker.bootstrap
    with ExitStack() as stack:
        bob = stack.enter_context(UserConnection(address, "bob", "bob"))
        token = new_token(bob, max_lifetime_ms=60_000)

        def expire(period_ms: int) -> None:
            period = {"expiry_time_period_ms": period_ms}
            assert bob.call(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=token.hmac, **period).error_code == 0

        expire(3000)
        ends = stack.enter_context(TokenConnection(address, token.token_id, token.hmac, mechanism))
        renews = stack.enter_context(TokenConnection(address, token.token_id, token.hmac, mechanism))
        assert 0 < ends.session_ms <= 3000
        refused = ends.call(ApiKey.CREATE_DELEGATION_TOKEN, 3, renewers=[], max_lifetime_ms=-1)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert refused.principal_name == "bob"
        bob.call(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=token.hmac, renew_period_ms=30_000)
        renews.authenticate()
        assert 3000 < renews.session_ms <= 30_000
        # A session ends at the expiry that the token had when it began.
        wait_until(lambda: is_closed(ends), "the end of the session")
        renews.call(ApiKey.METADATA, 12, topics=[])
        expire(1)
        wait_until(lambda: not ids(bob), "the token removed")
        assert logs_in(address, token, mechanism) is False


def is_closed(connection: RawClient) -> bool:
    """Return whether the broker closes a connection instead of answering."""
    try:
        connection.call(ApiKey.METADATA, 12, topics=[])
    except ConnectionError:
        return True
    return False


def ids(connection: RawClient) -> dict[str, int]:
    """Return the expiry of each token that a client sees, by id."""
    described = connection.call(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=None).tokens
    return {token.token_id: token.expiry_timestamp for token in described}


def logs_in(address: str, token: Any, mechanism: str = MECHANISMS[0]) -> bool:
    """Return whether a broker serves the bearer of a token."""
    try:
        with TokenConnection(address, token.token_id, token.hmac, mechanism) as connection:
            connection.call(ApiKey.METADATA, 12, topics=[])
    except KafkaError as error:
        if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise
        return False
    return True


def test_tokens_outlive_the_controller_and_are_those_of_all_brokers(tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{INTERNAL}:SASL_PLAINTEXT,{CONTROLLER}:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.internal.plain.sasl.jaas.config": LOGIN,
        "listener.name.controller.plain.sasl.jaas.config": LOGIN,
        "allow.everyone.if.no.acl.found": "true",
    }
    with Cluster(tmp_path, NoGates(), settings) as cluster:
        cluster.wait_until_whole()
        first = present(cluster.describe()).controller
        addresses = {node.id: node.addresses[INTERNAL] for node in cluster.nodes.values()}

        def all_log_in(address: str) -> bool:
            return all(logs_in(address, token) for token in tokens)

        def as_bob(address: str) -> UserConnection:
            return UserConnection(address, "bob", "bob")

        tokens = []
        for address in addresses.values():
            with as_bob(address) as bob:
                tokens.append(new_token(bob))
        for address in addresses.values():
            wait_until(partial(all_log_in, address), "the tokens on every broker")
        cluster.nodes[first].kill()
        last = addresses.pop(first)
        cluster.wait_for(lambda found: found.controller not in (first, -1), "another controller")
        assert all(map(all_log_in, addresses.values()))
        with as_bob(next(iter(addresses.values()))) as bob:
            for token in tokens[:2]:
                renewal = bob.call(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=token.hmac, renew_period_ms=60_000)
                assert renewal.error_code == 0
            ended = bob.call(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=tokens[2].hmac, expiry_time_period_ms=-1)
            assert ended.error_code == 0
        cluster.nodes[first].start()
        cluster.wait_until_whole()
        with as_bob(last) as restarted:
            wait_until(lambda: len(ids(restarted)) == 2, "the changes that the restarted broker missed")
            assert ids(restarted).keys() == {token.token_id for token in tokens[:2]}
            assert all(ids(restarted)[token.token_id] < token.expiry_timestamp_ms for token in tokens[:2])
        assert [line for node in cluster.nodes.values() for line in node.complaints()] == []
