"""Unmodified clients on SSL, SASL_PLAINTEXT and SASL_SSL, with right, wrong and expired credentials, and under load.

Each client is one process that runs all its jobs at the same time; `programs/secure_client.py` defines a job. The
credentials are certificates of clients on SSL, SCRAM on SASL_PLAINTEXT and PLAIN on SASL_SSL; expired ones of SASL are
OAUTHBEARER tokens. While the jobs named `load` write and read, the sessions of SASL end several times
(`connections.max.reauth.ms`), the broker's certificate is replaced, and then the connections of each client are closed
once, so that it makes new ones with the new certificate. Each client has its own listeners: their metrics show whether
it authenticates again.
"""

from __future__ import annotations

import datetime
import json
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import NamedTuple
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography import x509

from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.chaos.cluster import wait_until
from tests.clients.clients import HERE, go_program, python_program
from tests.clients.control import ControlClient
from tests.oracles.apache_kafka import JVM, kafka_classpath
from tests.tokens import AUDIENCE, ISSUER, IdentityProvider

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = {"SSL": "", "SASL_PLAINTEXT": "SCRAM-SHA-512", "SASL_SSL": "PLAIN"}
CREDENTIALS = ("right", "wrong", "expired")
CONFIDENT = 3
"""How many records a job without load writes."""
SESSION_MS = 1500  # re-authentication is refused within a second of the one before
LONGEST_S = 90
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
METRIC = "kafka_server_socket_server_metrics_"


class SecureClient(NamedTuple):
    """A client, what the application gets of refused credentials, and whether it authenticates again (KIP-368)."""

    program: Callable[[], Sequence[str]]
    refused_certificate: str
    refused_login: str
    authenticates_again: bool = True


def python(name: str) -> Callable[[], Sequence[str]]:
    return lambda: (*python_program("secure_client")(), name)


def go(name: str) -> Callable[[], Sequence[str]]:
    return lambda: (*go_program("secure")(), name)


def java() -> Sequence[str]:
    return (*JVM, "-cp", kafka_classpath(), str(HERE / "java" / "Secure.java"))


CLIENTS = {
    "java": SecureClient(java, "SslAuthenticationException", "SaslAuthenticationException"),
    "confluent-kafka": SecureClient(python("confluent-kafka"), "SSL", "Authentication failed"),
    "kafka-python": SecureClient(python("kafka-python"), "Error", "Error"),
    "aiokafka": SecureClient(python("aiokafka"), "Error", "Error", authenticates_again=False),
    "franz-go": SecureClient(go("franz-go"), "tls: ", "SASL_AUTHENTICATION_FAILED|unexpected data in oauth response"),
    "sarama": SecureClient(go("sarama"), "tls: ", "SASL Authentication failed"),
}


class Result(NamedTuple):
    """What a job printed at its end."""

    values: list[str]
    error: str | None


class Secured:
    """The broker, and the jobs of all clients."""

    def __init__(self, folder: Path) -> None:
        self.certificates = Certificates(folder)
        self.others = Certificates(folder / "others")
        self.provider = IdentityProvider()
        self.token = self.provider.token(now_s=time.time() - 7200)
        self.token_file = folder / "expired.jwt"
        self.token_file.write_text(self.token)
        self.identity = folder / "served.pem"
        self.identity.write_bytes(self.certificates.broker.read_bytes())
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        self.identities = {
            "right": self.certificates.alice,
            "wrong": self.others.alice,
            "expired": self.certificates.issue("expired", "alice@example.com", common_name="alice", expires=past),
        }
        self.stop = folder / "stop"
        password = folder / "password"
        password.write_text("right\n")
        option = f"--add-scram=SCRAM-SHA-512=[name=alice,password-file={password}]"
        self.broker = BrokerProcess(
            folder / "broker", self._settings(folder), options=[option, "--control=127.0.0.1:0"]
        )

    def _settings(self, folder: Path) -> dict[str, object]:
        names = {_listener(client, protocol): protocol for client in CLIENTS for protocol in PROTOCOLS}
        inside = {"INSIDE": "PLAINTEXT"}
        logins = {
            f"listener.name.{name.lower()}.plain.sasl.jaas.config": f'{PLAIN} user_alice="right";'
            for name, protocol in names.items()
            if protocol.startswith("SASL")
        }
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names | inside),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in (names | inside).items()),
            "inter.broker.listener.name": "INSIDE",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": self.provider.write(folder / "keys.json"),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "connections.max.reauth.ms": SESSION_MS,
            "group.initial.rebalance.delay.ms": 0,
            "barnabas.metrics.listener": "127.0.0.1:0",
            **logins,
            **self.certificates.broker_settings(ssl_client_auth="required"),
            "ssl.keystore.location": str(self.identity),
        }

    def start(self) -> None:
        self.broker.start()
        log = self.broker.log.read_text()
        self._ports = dict(re.findall(r"(\w+)://127\.0\.0\.1:(\d+)", log))
        metrics = re.search(r"http://[\d.:]+/metrics", log)
        assert metrics is not None, log
        self._metrics = metrics[0]

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    def jobs(self, client: str) -> list[dict[str, object]]:
        return [self._job(client, protocol, kind) for protocol in PROTOCOLS for kind in (*CREDENTIALS, "load")]

    def _job(self, client: str, protocol: str, kind: str) -> dict[str, object]:
        name = f"{client}-{protocol}-{kind}"
        credentials = "right" if kind == "load" else kind
        with_token = credentials == "expired" and protocol != "SSL"
        return {
            "name": name,
            "topic": name,
            "bootstrap": self.address(_listener(client, protocol)),
            "protocol": protocol,
            "mechanism": "OAUTHBEARER" if with_token else MECHANISMS[protocol],
            "user": "alice",
            "password": credentials,
            "token": self.token if with_token else "",
            "token_url": self.token_file.as_uri(),
            "trusted": str(self.certificates.trusted),
            "identity": str(self.identities[credentials]) if protocol == "SSL" else "",
            "records": None if kind == "load" else CONFIDENT,
            "stop": str(self.stop),
        }

    def metrics(self, name: str) -> dict[str, float]:
        """Return the sums of a metric by listener."""
        found: dict[str, float] = {}
        with urlopen(self._metrics, timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{METRIC}{name}{{"):
                    listener = line.split('listener="')[1].split('"')[0]
                    found[listener] = found.get(listener, 0) + float(line.rsplit(" ", 1)[1])
        return found

    def served(self, listener: str) -> int:
        """Return the serial number of the certificate that a new connection gets."""
        context = ssl.create_default_context(cafile=str(self.certificates.trusted))
        host, port = self.address(listener).split(":")
        with (
            socket.create_connection((host, int(port)), 30) as plain,
            context.wrap_socket(plain, server_hostname=host) as connection,
        ):
            return x509.load_der_x509_certificate(connection.getpeercert(True) or b"").serial_number


def _listener(client: str, protocol: str) -> str:
    return f"{client}_{protocol}".replace("-", "_").upper()


class Run:
    """The processes of the clients, and what they printed."""

    def __init__(self, secured: Secured) -> None:
        self.results: dict[str, Result] = {}
        self.running: dict[str, Event] = {}
        self.absent: dict[str, BaseException] = {}
        self.again: dict[str, float] = {}
        self.expired: dict[str, float] = {}
        self.served: list[int] = []
        self._secured = secured

    def client(self, name: str, command: Sequence[str], stack: ExitStack) -> None:
        """Start a client, and read what it prints in a thread."""
        jobs = self._secured.jobs(name)
        self.running |= {str(job["name"]): Event() for job in jobs if job["records"] is None}
        log = stack.enter_context(self._secured.stop.with_name(f"{name}.log").open("wb"))
        process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        )
        stack.callback(process.kill)
        assert process.stdin is not None
        process.stdin.write(json.dumps(jobs) + "\n")
        process.stdin.close()
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(process.kill)  # before the thread is waited for
        pool.submit(self._read, process)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            name = found["job"]
            if "values" in found:
                self.results[name] = Result(found["values"], found["error"])
            if name in self.running:
                self.running[name].set()  # at its end, too: a load that failed is not waited for


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """All jobs of all clients, run at once."""
    folder = tmp_path_factory.mktemp("secured")
    (folder / "others").mkdir()
    secured = Secured(folder)
    done = Run(secured)
    commands = {}
    for name, client in CLIENTS.items():
        try:
            commands[name] = client.program()
        except pytest.skip.Exception as skipped:
            done.absent[name] = skipped
    if "java" in commands:
        url, path = secured.token_file.as_uri(), secured.token_file
        allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"]
        allowed += [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={path}"]
        commands["java"] = (commands["java"][0], *allowed, *commands["java"][1:])
    with ExitStack() as stack:
        secured.start()
        stack.callback(secured.broker.kill)
        admin = AdminClient({"bootstrap.servers": secured.address("INSIDE"), "log_level": 0})
        topics = [NewTopic(str(job["topic"]), 1, 1) for name in commands for job in secured.jobs(name)]
        for created in admin.create_topics(topics).values():
            created.result(60)
        for name, command in commands.items():
            done.client(name, command, stack)
        rotate_and_cut(secured, done, list(commands))
        done.again = secured.metrics("successful_reauthentication_total")
        done.expired = secured.metrics("expired_connections_killed_count")
        secured.stop.touch()
        expected = len(commands) * len(PROTOCOLS) * (len(CREDENTIALS) + 1)
        wait_until(lambda: len(done.results) == expected, "some jobs have not ended", LONGEST_S)
        secured.broker.check_log()
        yield done


def rotate_and_cut(secured: Secured, done: Run, clients: Sequence[str]) -> None:
    """Replace the certificate and close each connection under load, and wait until every session has ended once."""
    for name, event in done.running.items():
        assert event.wait(LONGEST_S), name
    listener = _listener(clients[0], "SASL_SSL")
    done.served.append(secured.served(listener))
    secured.identity.write_bytes(secured.certificates.issue("renewed", "127.0.0.1", "localhost").read_bytes())
    wait_until(lambda: secured.served(listener) != done.served[0], "the new certificate is not used")
    done.served.append(secured.served(listener))
    control = ControlClient(secured.broker.control)
    rules = [
        control.fault({"disconnect": "before"}, api=api, client_id=name, count=1)
        for name in done.running
        if name not in done.results
        for api in ("Produce", "Fetch")
    ]
    for rule in rules:
        control.await_hits(rule)

    def all_ended() -> bool:
        again = secured.metrics("successful_reauthentication_total")
        expired = secured.metrics("expired_connections_killed_count")
        return all(
            again.get(name, 0) + expired.get(name, 0) > 0
            for client in clients
            for name in (_listener(client, "SASL_SSL"), _listener(client, "SASL_PLAINTEXT"))
        )

    wait_until(all_ended, "some sessions did not end")


@pytest.fixture
def result(run: Run, client: str) -> Callable[[str, str], Result]:
    """Return the result of a job of the client."""
    if client in run.absent:
        raise run.absent[client]
    return lambda protocol, kind: run.results[f"{client}-{protocol}-{kind}"]


def numbered(count: int) -> list[str]:
    return [str(number) for number in range(count)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_with_the_right_credentials_writes_and_reads(
    protocol: str, result: Callable[[str, str], Result]
) -> None:
    assert result(protocol, "right") == Result(numbered(CONFIDENT), None)


@pytest.mark.parametrize("kind", ["wrong", "expired"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_with_other_credentials_is_refused(
    client: str, protocol: str, kind: str, result: Callable[[str, str], Result]
) -> None:
    refused = result(protocol, kind)
    assert refused.values == []
    known = CLIENTS[client]
    pattern = known.refused_certificate if protocol == "SSL" else known.refused_login
    assert re.search(pattern, refused.error or ""), refused


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("client", CLIENTS)
def test_load_loses_nothing_while_sessions_end_and_the_certificate_is_replaced(
    protocol: str, result: Callable[[str, str], Result]
) -> None:
    loaded = result(protocol, "load")
    assert loaded.error is None
    assert len(loaded.values) > CONFIDENT
    assert loaded.values == numbered(len(loaded.values))


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name.startswith("SASL")])
@pytest.mark.parametrize("client", CLIENTS)
def test_client_authenticates_again_or_is_closed_at_its_sessions_end(
    run: Run, client: str, protocol: str, result: Callable[[str, str], Result]
) -> None:
    del result  # skips the test if the client is not installed
    listener = _listener(client, protocol)
    if CLIENTS[client].authenticates_again:
        assert run.again.get(listener, 0) > 0
    else:
        assert run.again.get(listener, 0) == 0
        assert run.expired[listener] > 0


def test_new_connections_get_the_new_certificate(run: Run) -> None:
    first, second = run.served
    assert first != second
