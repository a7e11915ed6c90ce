"""Unmodified clients on SSL, SASL_PLAINTEXT and SASL_SSL, with right, wrong and expired credentials, and under load.

Each client is one process that runs all its jobs at the same time; `programs/secure_client.py` defines a job. The
credentials are certificates of clients on SSL, SCRAM on SASL_PLAINTEXT and PLAIN on SASL_SSL; expired ones of SASL are
OAUTHBEARER tokens. While the jobs named `load` write and read, the sessions of SASL end several times
(`connections.max.reauth.ms`), the broker's certificate is replaced, and then the connections of each job are closed
once, so that it makes new ones with the new certificate. The metrics of the broker show whether the client
authenticates again.
"""

from __future__ import annotations

import datetime
import json
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from tests.clients.clients import HERE, go_program, node_program, python_program
from tests.clients.control import ControlClient
from tests.oracles.apache_kafka import JVM, kafka_classpath
from tests.tokens import AUDIENCE, ISSUER, IdentityProvider
from tests.typed import present

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL = PROTOCOLS[1:]
MECHANISMS = {"SSL": "", "SASL_PLAINTEXT": "SCRAM-SHA-512", "SASL_SSL": "PLAIN"}
CREDENTIALS = ("right", "wrong", "expired")
RECORDS = 3
"""How many records a job without load writes."""
SESSION_MS = 1500  # re-authentication is refused within a second of the one before
LONGEST_S = 90
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
METRIC = "kafka_server_socket_server_metrics_"


LOGIN_REFUSED = (
    "Authentication failed: Invalid username or password"
    "|Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
)
TOKEN_REFUSED = (
    r"Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
)


class Refusals(NamedTuple):
    """Patterns of what the application gets of refused credentials."""

    unknown_authority: str
    expired_certificate: str
    login: str = LOGIN_REFUSED
    expired_token: str = TOKEN_REFUSED

    def of(self, protocol: str, kind: str) -> str:
        """Return the pattern of a job."""
        if protocol == "SSL":
            return self.unknown_authority if kind == "wrong" else self.expired_certificate
        return self.login if kind == "wrong" else self.expired_token


class SecureClient(NamedTuple):
    """A client, what it makes of refused credentials, and whether it authenticates again (KIP-368)."""

    program: Callable[[], Sequence[str]]
    refusals: Refusals
    authenticates_again: bool = True


def python(name: str) -> Callable[[], Sequence[str]]:
    return lambda: (*python_program("secure_client")(), name)


def go(name: str) -> Callable[[], Sequence[str]]:
    return lambda: (*go_program("secure")(), name)


def java() -> Sequence[str]:
    return (*JVM, "-cp", kafka_classpath(), str(HERE / "java" / "Secure.java"))


# kafka-python and aiokafka raise an error without its cause: the patterns are those of their log lines. kafka-python
# often notices only that the broker has closed the connection, with Apache Kafka too.
CLOSED = r"Unable to bootstrap .*KafkaConnectionError: socket disconnected"
CLIENTS = {
    "java": SecureClient(
        java,
        Refusals(
            "SslAuthenticationException: .* fatal alert: unknown_ca",
            "SslAuthenticationException: .* fatal alert: certificate_expired",
            f"SaslAuthenticationException: ({LOGIN_REFUSED})",
            f"SaslAuthenticationException: {TOKEN_REFUSED}",
        ),
    ),
    "confluent-kafka": SecureClient(
        python("confluent-kafka"), Refusals("alert unknown ca: SSL alert", "alert certificate expired: SSL alert")
    ),
    "kafka-python": SecureClient(
        python("kafka-python"),
        Refusals(
            f"ALERT_UNKNOWN_CA|{CLOSED}",
            f"ALERT_CERTIFICATE_EXPIRED|{CLOSED}",
            f"{LOGIN_REFUSED}|{CLOSED}",
            f"{TOKEN_REFUSED}|{CLOSED}",
        ),
    ),
    "aiokafka": SecureClient(
        python("aiokafka"),
        Refusals(
            "Unable connect to .*KafkaConnectionError: Connection at .* closed",
            "Unable connect to .*KafkaConnectionError: Connection at .* closed",
            f"SaslAuthenticationFailed: ({LOGIN_REFUSED})",
            "Unable to request metadata from .*KafkaConnectionError: Connection at .* closed",
        ),
        authenticates_again=False,
    ),
    "franz-go": SecureClient(
        go("franz-go"),
        Refusals(
            "tls: unknown certificate authority",
            "tls: expired certificate",
            f"SASL_AUTHENTICATION_FAILED: .*({LOGIN_REFUSED})",
            "unexpected data in oauth response",
        ),
    ),
    "sarama": SecureClient(go("sarama"), Refusals("tls: unknown certificate authority", "tls: expired certificate")),
    "kafkajs": SecureClient(
        node_program("secure_client"),
        Refusals(
            "alert unknown ca:",
            "alert certificate expired:",
            f"KafkaJSSASLAuthenticationError: .*({LOGIN_REFUSED})",
            "KafkaJSConnectionClosedError: Closed connection",
        ),
    ),
}


class Result(NamedTuple):
    """What a job printed at its end."""

    values: list[str]
    error: str | None


class Secured:
    """The broker, and the jobs of a client."""

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
        listeners = {name: name for name in PROTOCOLS} | {"INSIDE": "PLAINTEXT"}
        logins = {
            f"listener.name.{name.lower()}.plain.sasl.jaas.config": f'{PLAIN} user_alice="right";'
            for name in PROTOCOLS
            if name.startswith("SASL")
        }
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in listeners),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in listeners.items()),
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
            "bootstrap": self.address(protocol),
            "protocol": protocol,
            "mechanism": "OAUTHBEARER" if with_token else MECHANISMS[protocol],
            "user": "alice",
            "password": credentials,
            "token": self.token if with_token else "",
            "token_url": self.token_file.as_uri(),
            "trusted": str(self.certificates.trusted),
            "identity": str(self.identities[credentials]) if protocol == "SSL" else "",
            "records": None if kind == "load" else RECORDS,
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


class Run:
    """The process of a client, and what it printed."""

    def __init__(self, secured: Secured, jobs: Sequence[Mapping[str, object]]) -> None:
        self.results: dict[str, Result] = {}
        self.running = {str(job["name"]): Event() for job in jobs if job["records"] is None}
        self.again: dict[str, float] = {}
        """How often sessions were renewed, by listener."""
        self.expired: dict[str, float] = {}
        """How often connections were closed because their session had ended, by listener."""
        self.refused: dict[str, float] = {}
        """How often authentications were refused, by listener."""
        self.served: list[int] = []
        """The serial numbers of the certificates before and after the replacement."""
        self._jobs = jobs
        self._log = secured.stop.with_name("client.log")

    def start(self, command: Sequence[str], stack: ExitStack) -> None:
        """Start the client, and read what it prints in a thread."""
        log = stack.enter_context(self._log.open("wb"))
        process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        )
        stdin, stdout = present(process.stdin), present(process.stdout)
        stdin.write(json.dumps(self._jobs) + "\n")
        stdin.close()
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(process.kill)  # before the thread is waited for
        pool.submit(self._read, stdout)

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            found = json.loads(line)
            name = found["job"]
            if "values" in found:
                self.results[name] = Result(found["values"], found["error"])
            if name in self.running:
                self.running[name].set()  # at its end, too: a load that failed is not waited for

    def await_load(self) -> None:
        """Wait until each load has read a record, or has failed."""
        for name, event in self.running.items():
            assert event.wait(LONGEST_S), f"{name} has not begun: {self._log.read_text()}"

    def await_end(self) -> None:
        """Wait until all jobs have ended."""
        wait_until(lambda: len(self.results) == len(self._jobs), "some jobs have not ended", LONGEST_S)


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    """Return the name of a client."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def run(client: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """All jobs of the client, run at once."""
    folder = tmp_path_factory.mktemp("secured")
    (folder / "others").mkdir()
    secured = Secured(folder)
    command = CLIENTS[client].program()
    if client == "java":
        url, path = secured.token_file.as_uri(), secured.token_file
        allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"]
        allowed += [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={path}"]
        command = (command[0], *allowed, *command[1:])
    with ExitStack() as stack:
        secured.start()
        stack.callback(secured.broker.kill)
        jobs = secured.jobs(client)
        admin = AdminClient({"bootstrap.servers": secured.address("INSIDE"), "log_level": 0})
        for created in admin.create_topics([NewTopic(str(job["topic"]), 1, 1) for job in jobs]).values():
            created.result(60)
        done = Run(secured, jobs)
        done.start(command, stack)
        done.await_load()
        rotate_and_cut(secured, done)
        done.again = secured.metrics("successful_reauthentication_total")
        done.expired = secured.metrics("expired_connections_killed_count")
        secured.stop.touch()
        done.await_end()
        done.refused = secured.metrics("failed_authentication_total")
        secured.broker.check_log()
        yield done


def rotate_and_cut(secured: Secured, done: Run) -> None:
    """Replace the certificate and close each connection under load, and wait until sessions have ended after that."""
    done.served.append(secured.served("SASL_SSL"))
    secured.identity.write_bytes(secured.certificates.issue("renewed", "127.0.0.1", "localhost", "::1").read_bytes())
    wait_until(lambda: secured.served("SASL_SSL") != done.served[0], "the new certificate is not used")
    done.served.append(secured.served("SASL_SSL"))
    control = ControlClient(secured.broker.control)
    rules = [
        control.fault({"disconnect": "before"}, api=api, client_id=name, count=1)
        for name in done.running
        if name not in done.results
        for api in ("Produce", "Fetch")
    ]
    for rule in rules:
        control.await_hits(rule)

    def ended() -> dict[str, float]:
        again = secured.metrics("successful_reauthentication_total")
        expired = secured.metrics("expired_connections_killed_count")
        return {name: again.get(name, 0) + expired.get(name, 0) for name in SASL}

    before = ended()
    wait_until(lambda: all(ended()[name] > before[name] for name in SASL), "some sessions did not end")


@pytest.fixture
def result(run: Run, client: str) -> Callable[[str, str], Result]:
    """Return the result of a job of the client."""
    return lambda protocol, kind: run.results[f"{client}-{protocol}-{kind}"]


def numbered(count: int) -> list[str]:
    return [str(number) for number in range(count)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_client_with_the_right_credentials_writes_and_reads(
    protocol: str, result: Callable[[str, str], Result]
) -> None:
    assert result(protocol, "right") == Result(numbered(RECORDS), None)


@pytest.mark.parametrize("kind", ["wrong", "expired"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_client_with_other_credentials_is_refused(
    client: str, protocol: str, kind: str, result: Callable[[str, str], Result]
) -> None:
    refused = result(protocol, kind)
    assert refused.values == []
    assert re.search(CLIENTS[client].refusals.of(protocol, kind), refused.error or ""), refused


@pytest.mark.parametrize("protocol", SASL)
def test_broker_counts_the_refused_logins(protocol: str, run: Run) -> None:
    # aiokafka and kafkajs do not acknowledge the error of a refused token: only their wrong login is counted.
    assert run.refused[protocol] > 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_load_loses_nothing_while_sessions_end_and_the_certificate_is_replaced(
    protocol: str, result: Callable[[str, str], Result]
) -> None:
    loaded = result(protocol, "load")
    assert loaded.error is None
    assert len(loaded.values) > RECORDS
    assert loaded.values == numbered(len(loaded.values))


@pytest.mark.parametrize("protocol", SASL)
def test_client_authenticates_again_or_is_closed_at_its_sessions_end(run: Run, client: str, protocol: str) -> None:
    if CLIENTS[client].authenticates_again:
        assert run.again.get(protocol, 0) > 0
    else:
        assert run.again.get(protocol, 0) == 0
        assert run.expired[protocol] > 0


def test_new_connections_get_the_new_certificate(run: Run) -> None:
    first, second = run.served
    assert first != second
