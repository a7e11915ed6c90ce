"""SASL/OAUTHBEARER with real clients, whose tokens are of a provider that the broker has the keys of."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import KafkaError, Producer
from kafka import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.broker_process import COMMAND, QUICK_GROUPS, BrokerProcess
from tests.clients.secure_clients import check_kafka_python, read
from tests.oracles.apache_kafka import JVM, kafka_classpath
from tests.tokens import AUDIENCE, ISSUER, IdentityProvider

PROVIDER = IdentityProvider()
SESSION_S = 8  # librdkafka begins when nine tenths of it have passed
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("provider") / "keys.json"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Iterator[BrokerProcess]:
    url = {"sasl.oauthbearer.jwks.endpoint.url": PROVIDER.write(keys)}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), {**QUICK_GROUPS, **SETTINGS, **url}) as running:
        yield running
    running.check_log()


def librdkafka(
    broker: BrokerProcess, provider: IdentityProvider = PROVIDER, session_s: int = 60, **claims: Any
) -> dict[str, Any]:
    def new_token(_: str) -> tuple[str, float]:
        return provider.token(exp=int(time.time()) + session_s, **claims), time.time() + session_s

    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": new_token,
        "log_level": 0,
    }


def test_librdkafka_authenticates_again_before_its_token_expires(broker: BrokerProcess) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer({**librdkafka(broker, session_s=SESSION_S), "retries": 0})
    count, deadline = 0, time.monotonic() + 2 * SESSION_S
    while time.monotonic() < deadline:
        producer.produce("again", str(count), on_delivery=lambda error, _: errors.append(error))
        producer.poll(0.01)
        count += 1
    assert producer.flush(30) == 0
    assert errors == [None] * count
    assert read(librdkafka(broker), "again", count) == [str(number).encode() for number in range(count)]


@pytest.mark.parametrize(
    "claims", [{"iss": "https://evil.example.com"}, {"aud": "billing"}, {"exp": 1}, {"sub": ""}], ids=str
)
def test_librdkafka_with_an_invalid_token_gets_an_authentication_error(
    broker: BrokerProcess, claims: Mapping[str, Any]
) -> None:
    token = PROVIDER.token(**claims)
    settings = {**librdkafka(broker), "oauth_cb": lambda _: (token, time.time() + 60)}
    errors: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": errors.append})
    deadline = time.monotonic() + 30
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens of a provider, for kafka-python."""

    def __init__(self, provider: IdentityProvider, **settings: Any) -> None:
        super().__init__(**settings)
        self._provider = provider

    def token(self) -> str:
        return self._provider.token()


def kafka_python(broker: BrokerProcess, provider: IdentityProvider) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": TokenProvider(provider),
    }


def test_kafka_python_writes_and_reads(broker: BrokerProcess) -> None:
    check_kafka_python(kafka_python(broker, PROVIDER), "small")


def test_aiokafka_writes(broker: BrokerProcess) -> None:
    class Tokens(AioTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return PROVIDER.token()

    async def write() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        )
        async with producer:
            return int((await producer.send_and_wait("aio", b"value")).offset)

    assert asyncio.run(write()) == 0


def test_apache_kafkas_producer_sends_the_token_of_a_file(broker: BrokerProcess, tmp_path: Path) -> None:
    token, config = tmp_path / "token.jwt", tmp_path / "client.properties"
    token.write_text(PROVIDER.token())
    package = "org.apache.kafka.common.security.oauthbearer"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={package}.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={package}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n"
    )
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()}"
    allowed_files = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={token}"
    command = (*JVM, allowed, allowed_files, "-cp", kafka_classpath(), "org.apache.kafka.tools.ConsoleProducer")
    options = ("--bootstrap-server", broker.bootstrap, "--topic", "java", "--command-config", str(config))
    subprocess.run([*command, *options], input=b"one\ntwo\n", check=True, timeout=120)
    assert read(librdkafka(broker), "java", 2) == [b"one", b"two"]


def test_new_keys_are_used_and_the_old_ones_refused_without_a_restart(broker: BrokerProcess, keys: Path) -> None:
    second = IdentityProvider("second")
    try:
        second.write(keys)
        deadline = time.monotonic() + 30
        while True:  # the file is read every 5 s
            try:
                KafkaAdminClient(**kafka_python(broker, second), bootstrap_timeout_ms=1000).close()
                break
            except KafkaPythonError:
                assert time.monotonic() < deadline
        with pytest.raises(KafkaPythonError):
            KafkaAdminClient(**kafka_python(broker, PROVIDER), bootstrap_timeout_ms=1000)
    finally:
        PROVIDER.write(keys)


def test_start_without_keys_is_refused(tmp_path: Path) -> None:
    missing = (tmp_path / "missing.json").as_uri()
    given = [f"-D{name}={value}" for name, value in SETTINGS.items()]
    for url, why in (("", "is not set"), (missing, "no such file")):
        refused = subprocess.run(
            [*COMMAND, "serve", "--data-dir", tmp_path / "data", *given, f"-Dsasl.oauthbearer.jwks.endpoint.url={url}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert refused.returncode != 0
        assert "sasl.oauthbearer.jwks.endpoint.url" in refused.stderr
        assert why in refused.stderr.lower()
