"""TLS, handshakes and authorization: their rates, with `--beside-kafka` those of Apache Kafka on the same machine.

- `produce`, `consume`: ProducerPerformance (acks=1) and ConsumerPerformance over TLS, records of 1,000 bytes, six
  partitions. MB/s are those that the tools print; CPU seconds are the broker's, for 10^9 bytes of record values.
- `handshakes`: new connections, each with a full TLS 1.3 handshake and SCRAM-SHA-512, by four processes in Python that
  hash the password once. Connections a second, and CPU milliseconds of the broker for each.
- `authorization`: the guard of a Produce to ten topics, and the check of the fast path of one to ten partitions of one
  topic, among 10,000 access control entries; without the rest of the request.

Both brokers have the same certificate, the same settings and the same clients.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import functools
import hashlib
import hmac
import multiprocessing
import os
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._loads import PARTITIONS, RECORD_BYTES, RECORDS, consume, produce_rate
from benchmarks._loopback import BROKER, Server, Written, create_topic, request_frame
from benchmarks._rows import HEADINGS, KAFKA, Row, Runs, Target, at_least, at_most, in_turn, no_more_than, row, runs
from benchmarks._warmth import Figures, Warmed, warm_up
from benchmarks.start import KAFKA_JAVA, TIMEOUT_S, free_port, started, wait_for_answer
from broker.authorization.produce import FastPathCheck, guard
from broker.network.connection import Connection, context_of
from controller.acls.acl import Acl, AclOperation, AclPermissionType, AclResourceType, PatternType
from controller.records import acl_record
from protocol.api import ApiKey
from protocol.headers import RequestHeader
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.certificates import Certificates
from tests.unit.broker.guarded_node import SETTINGS
from tests.unit.broker.node import LISTENER, Node

PARTS = ("produce", "consume", "handshakes", "authorization")
USER, PASSWORD, MECHANISM = "admin", "admin-secret", "SCRAM-SHA-512"
CLIENTS = 4
CONNECTIONS = 1000
ACLS = 10_000

PRODUCE, PRODUCE_CPU = "produce over TLS, acks=1, MB/s", "produce over TLS, acks=1, CPU s/GB"
CONSUME, CONSUME_CPU = "consume over TLS without the rebalance, MB/s", "consume over TLS, CPU s/GB"
HANDSHAKES, HANDSHAKES_CPU = "1,000 connections with TLS and SCRAM, connections/s", "the same: CPU ms each"
TARGET: Mapping[str, Target] = {
    PRODUCE: at_least(1),
    PRODUCE_CPU: at_most(1),
    CONSUME: at_least(1),
    CONSUME_CPU: at_most(1),
    HANDSHAKES: at_least(1),
    HANDSHAKES_CPU: at_most(1),
}


class SecureServer(NamedTuple):
    """A broker with three listeners; `plain` is the one without security, for the set-up of topics."""

    plain: Server
    tls: Server
    sasl: Server
    trusted: Path


def _properties(directory: Path, certificates: Certificates, ports: Sequence[int]) -> Path:
    plain, tls, sasl, controller = ports
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{tls},SASL_SSL://127.0.0.1:{sasl},"
        f"CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "sasl.enabled.mechanisms": MECHANISM,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        **certificates.broker_settings(),
    }
    path = directory / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def barnabas(properties: Path) -> Sequence[str]:
    """Return the command of Barnabas with a user of SCRAM."""
    return (
        *(sys.executable, "-m", "barnabas", "serve", "--config", str(properties)),
        *("--add-scram", f"{MECHANISM}=[name={USER},password={PASSWORD}]"),
    )


def apache_kafka(properties: Path) -> Sequence[str]:
    """Format a data directory with a user of SCRAM for Apache Kafka, and return the command that serves."""
    from tests.oracles.apache_kafka import kafka_classpath

    java = (*KAFKA_JAVA, "-cp", kafka_classpath())
    formatting = (*java, "kafka.tools.StorageTool", "format", "-t", "WV5yoIVIQ7q2wIB0pOwZQg", "-c", str(properties))
    user = ("--add-scram", f"{MECHANISM}=[name={USER},password={PASSWORD}]")
    subprocess.run((*formatting, *user), check=True, capture_output=True)
    return (*java, "kafka.Kafka", str(properties))


BROKERS: Mapping[str, Callable[[Path], Sequence[str]]] = {BROKER: barnabas, KAFKA: apache_kafka}


@contextlib.contextmanager
def running(command: Callable[[Path], Sequence[str]]) -> Iterator[SecureServer]:
    """Run a broker on an empty directory."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        certificates = Certificates(directory)
        ports = [free_port() for _ in range(4)]
        with started(command(_properties(directory, certificates, ports))) as process:
            wait_for_answer(process, ports[0])
            plain, tls, sasl = (Server(process, port) for port in ports[:3])
            yield SecureServer(plain, tls, sasl, certificates.trusted)


def _produce(server: SecureServer) -> Callable[[], Figures]:
    create_topic(server.plain.port, "produced", PARTITIONS)
    written = Written(server.plain.port, "produced", PARTITIONS)

    def run() -> Figures:
        before_s = sum(server.plain.cpu())
        rate = produce_rate(server.tls.bootstrap, "produced", "acks=1", *_tls_settings(server))
        cpu_s = sum(server.plain.cpu()) - before_s
        written.check(RECORDS)
        return {PRODUCE: rate, PRODUCE_CPU: cpu_s / (RECORDS * RECORD_BYTES / 1e9)}

    return run


def _consume(server: SecureServer) -> Callable[[], Figures]:
    create_topic(server.plain.port, "consumed", PARTITIONS)
    produce_rate(server.plain.bootstrap, "consumed", "acks=1")

    def run() -> Figures:
        consumed = consume(server.tls, "consumed", RECORDS, *_tls_settings(server))
        return {CONSUME: consumed.mb_per_s, CONSUME_CPU: consumed.cpu_s / (RECORDS * RECORD_BYTES / 1e9)}

    return run


def _tls_settings(server: SecureServer) -> Sequence[str]:
    return ("security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={server.trusted}")


def _handshakes(pool: ProcessPoolExecutor, server: SecureServer) -> Callable[[], Figures]:
    each = CONNECTIONS // CLIENTS

    def run() -> Figures:
        before_s, begun = sum(server.plain.cpu()), time.perf_counter()
        for done in [pool.submit(connect, server.sasl.port, str(server.trusted), each) for _ in range(CLIENTS)]:
            done.result()
        seconds, cpu_s = time.perf_counter() - begun, sum(server.plain.cpu()) - before_s
        return {HANDSHAKES: CONNECTIONS / seconds, HANDSHAKES_CPU: cpu_s * 1e3 / CONNECTIONS}

    return run


def connect(port: int, trusted: str, count: int) -> None:
    """Open `count` connections, one after another, and authenticate on each."""
    context = ssl.create_default_context(cafile=trusted)
    for _ in range(count):
        plain = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:
            authenticate(client)


def authenticate(client: ssl.SSLSocket) -> None:
    """Authenticate by SCRAM; RuntimeError if it fails."""
    _call(client, request_frame(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=MECHANISM)))
    nonce = base64.b64encode(os.urandom(18)).decode()
    bare = f"n={USER},r={nonce}"
    challenge = _token(client, f"n,,{bare}")
    parts = dict(part.split("=", 1) for part in challenge.split(","))
    salted = _salted(parts["s"], int(parts["i"]))
    key = hmac.digest(salted, b"Client Key", "sha512")
    final = f"c=biws,r={parts['r']}"
    signed = hmac.digest(hashlib.sha512(key).digest(), f"{bare},{challenge},{final}".encode(), "sha512")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signed, strict=True))).decode()
    if not _token(client, f"{final},p={proof}").startswith("v="):
        raise RuntimeError("the broker did not prove that it knows the password")


@functools.lru_cache
def _salted(salt: str, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), base64.b64decode(salt), iterations)


def _token(client: ssl.SSLSocket, token: str) -> str:
    """Send a token, and return that of the response (version 1 of SaslAuthenticate)."""
    request = SaslAuthenticateRequest(auth_bytes=token.encode())
    answer = _call(client, request_frame(ApiKey.SASL_AUTHENTICATE, 1, request))
    error, message_size = struct.unpack_from(">hh", answer, 4)
    if error:
        raise RuntimeError(f"authentication failed: {answer!r}")
    (size,) = struct.unpack_from(">i", answer, 8 + max(message_size, 0))
    at = 12 + max(message_size, 0)
    return answer[at : at + size].decode()


def _call(client: ssl.SSLSocket, frame: bytes) -> bytes:
    client.sendall(frame)
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        received = client.recv(65536)
        if not received:
            raise RuntimeError("the broker closed the connection")
        data += received
    return data[4:]


def beside_kafka(pairs: int, sides: Sequence[str], parts: Sequence[str] = PARTS) -> list[Row]:
    """Run the loads on each side in turn, `pairs` times."""
    found: dict[str, dict[str, list[Warmed]]] = {side: {} for side in sides}
    # Forked processes would have the sockets of the parent.
    with ProcessPoolExecutor(CLIENTS, multiprocessing.get_context("spawn")) as pool:
        loads: Mapping[str, Sequence[tuple[Callable[[SecureServer], Callable[[], Figures]], str]]] = {
            "produce": ((_produce, PRODUCE_CPU),),
            "consume": ((_consume, CONSUME_CPU),),
            "handshakes": ((partial(_handshakes, pool), HANDSHAKES),),
        }
        chosen = [load for part in parts for load in loads.get(part, ())]
        for pair in range(pairs):
            for prepare, settles_on in chosen:
                for side in in_turn(sides, pair):
                    print(f"pair {pair + 1}, {settles_on}: {side}", file=sys.stderr, flush=True)
                    with running(BROKERS[side]) as server:
                        warmed = warm_up(prepare(server), settles_on)
                    for name in warmed.cold:
                        found[side].setdefault(name, []).append(warmed)
    return [
        Row(name, TARGET[name], runs(ours, name), runs(found[KAFKA][name], name) if KAFKA in sides else Runs(()))
        for name, ours in found[BROKER].items()
    ]


def authorizing(rounds: int, count: int = 20_000) -> list[Row]:
    """Measure the authorization of Produce requests, without the rest of their handling."""
    with tempfile.TemporaryDirectory() as directory:
        node = Node(directory, None, **SETTINGS)
        node.start()
        try:
            costs = [_authorization_us(node, number, count) for number in range(rounds)]
        finally:
            node.stop()
    names = (
        "authorization of a Produce to 10 topics among 10,000 ACLs, us",
        "the same, to 10 partitions of a topic on the fast path, us",
    )
    return [row(name, no_more_than(20), [cost[at] for cost in costs]) for at, name in enumerate(names)]


def _acls(number: int) -> Sequence[Acl]:
    """Return entries of alice, of literal and prefixed patterns, and as many of others."""

    def entry(at: int) -> Acl:
        pattern = PatternType.PREFIXED if at % 4 < 2 else PatternType.LITERAL
        user = "User:alice" if at % 2 else f"User:other-{at % 100}"
        return Acl(
            AclResourceType.TOPIC, f"topic-{at}", pattern, user, "*", AclOperation.WRITE, AclPermissionType.ALLOW
        )

    return [entry(at) for at in range(number)]


def _authorization_us(node: Node, number: int, count: int) -> Sequence[float]:
    """Return CPU microseconds of the guard, and of the check of the fast path."""
    if number == 0:
        node.commit(*(acl_record(at.to_bytes(16, "big"), acl) for at, acl in enumerate(_acls(ACLS), 1)))
    authorizer = node.broker.authorizer
    if authorizer is None:
        raise RuntimeError("the broker has no authorizer")
    topic = ProduceRequest.Topic
    names = [f"topic-{10 * at + 1}" for at in range(10)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[topic(name=name, partition_data=[topic.Partition(index=0, records=None)]) for name in names],
    )
    connection = Connection(1, LISTENER, "127.0.0.1")
    connection.principal = "User:alice"
    context = context_of(RequestHeader(ApiKey.PRODUCE, 12, 1, "benchmark"), connection)
    response = ProduceResponse(responses=[])

    def handle(*_: Any) -> ProduceResponse:
        return response

    def guarded() -> None:
        if guard(authorizer, handle, node.broker, context, request) is not response:
            raise RuntimeError("a topic was refused")

    guarded()
    kept_us = _each_us(guarded, count)
    fast = FastPathCheck(authorizer)
    fast_us = _each_us(lambda: fast(connection, names[0], b"", None), count)
    return kept_us, fast_us


def _each_us(run: Callable[[], object], count: int) -> float:
    before = time.process_time_ns()
    for _ in range(count):
        run()
    return (time.process_time_ns() - before) / count / 1e3


def main(arguments: Sequence[str]) -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(prog="security", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--pairs", type=int, default=1, metavar="N", help="brokers of each, in turn")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    parts = options.only or PARTS
    print(HEADINGS, flush=True)
    if set(parts) - {"authorization"}:
        sides = (BROKER, KAFKA) if options.beside_kafka else (BROKER,)
        print(*beside_kafka(options.pairs, sides, parts), sep="\n", flush=True)
    if "authorization" in parts:
        print(*authorizing(max(3, options.pairs)), sep="\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
