"""A broker with a listener of every security protocol, and connections of the clients of the matrix.

A client of the matrix is a principal; here it authenticates as that principal by one of the transports. Each broker has
those transports for both types of listener.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from broker.security.scram import ScramClient
from controller.scram import SCRAM_BY_NAME
from protocol.api import ApiKey
from protocol.schema import Message
from tests.authorization.matrix import ADMIN, ANONYMOUS, CLOSED, apis, clients, prepare
from tests.authorization.requests import build
from tests.broker_process import BrokerProcess, free_address
from tests.certificates import Certificates
from tests.raw_client import RawClient
from tests.tokens import AUDIENCE, ISSUER, IdentityProvider
from tests.unit.broker.guarded_node import AUTHORIZER

PASSWORD = "secret"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SALT = b"0123456789abcdef"
ITERATIONS = 4096
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Transport(NamedTuple):
    """How a client connects."""

    protocol: str
    mechanism: str = ""
    has_certificate: bool = False


PLAIN = Transport("SASL_PLAINTEXT", "PLAIN")
OPEN = (Transport("PLAINTEXT"), Transport("SSL"))
"""The transports of clients that are not authenticated."""
AUTHENTICATED = (
    PLAIN,
    Transport("SSL", has_certificate=True),
    Transport("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    Transport("SASL_SSL", "SCRAM-SHA-512"),
    Transport("SASL_PLAINTEXT", "OAUTHBEARER"),
    Transport("SASL_SSL", "PLAIN"),
    Transport("SASL_SSL", "OAUTHBEARER"),
)

Cell = tuple[str, ApiKey, str]
"""Principal, API and type of listener."""


def transports(shift: int = 0) -> dict[Cell, Transport]:
    """Return a transport for each client of the matrix, by turns; another one for each shift."""
    found = {}
    of_open, of_authenticated = (islice(cycle(kinds), shift, None) for kinds in (OPEN, AUTHENTICATED))
    for key, listener_type in apis():
        for client in clients(key, listener_type):
            kinds = of_open if client.name == ANONYMOUS else of_authenticated
            found[client.principal, key, listener_type] = next(kinds)
    return found


class SecureConnection(RawClient):
    """A connection that can be encrypted and authenticated."""

    def encrypt(self, context: ssl.SSLContext) -> None:
        """Make the TLS handshake."""
        self._stream.close()
        self._socket = context.wrap_socket(self._socket, server_hostname="127.0.0.1")
        self._stream = self._socket.makefile("rb")

    def authenticate(self, mechanism: str, user: str, token: Callable[[], str]) -> None:
        """Authenticate as a user with `PASSWORD`, or with a token."""
        assert not self.call(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism).error_code
        if mechanism in SCRAM_BY_NAME:
            scram = ScramClient(SCRAM_BY_NAME[mechanism], user, PASSWORD, "nonce")
            final = scram.respond(self._authenticate(scram.first()))
            assert final is not None
            scram.respond(self._authenticate(final))
        elif mechanism == "PLAIN":
            self._authenticate(f"\0{user}\0{PASSWORD}".encode())
        else:
            self._authenticate(f"n,,\x01auth=Bearer {token()}\x01\x01".encode())

    def answers(self, key: ApiKey, version: int) -> bool:
        """Return whether a request of the default fields is answered; otherwise the connection was closed."""
        try:
            self.call(key, version, **_fields(build(key, {})))
        except ConnectionError:
            return False
        return True

    def _authenticate(self, token: bytes) -> bytes:
        answer = self.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
        assert not answer.error_code, answer.error_message
        found: bytes = answer.auth_bytes
        return found


class GuardedBroker:
    """A broker process with an authorizer and every transport; its clients are those of `of`."""

    def __init__(self, folder: Path, of: Mapping[Cell, Transport]) -> None:
        self._of = of
        folder.mkdir()
        self._certificates = Certificates(folder)
        self._provider = IdentityProvider()
        self._addresses = {
            (kind, protocol): free_address() for kind in ("broker", "controller") for protocol in PROTOCOLS
        }
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._connection: tuple[tuple[str, str, Transport], SecureConnection] | None = None
        jaas = (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="{PASSWORD}"'
        )
        users = {"admin", *self._users("PLAIN")}
        self._broker = BrokerProcess(
            folder / "broker",
            {
                "listeners": ",".join(f"{_name(*which)}://{address}" for which, address in self._addresses.items()),
                "controller.listener.names": ",".join(_name("controller", protocol) for protocol in PROTOCOLS),
                "listener.security.protocol.map": ",".join(f"{_name(*which)}:{which[1]}" for which in self._addresses),
                "inter.broker.listener.name": _name("broker", "SASL_PLAINTEXT"),
                "sasl.enabled.mechanisms": ",".join(sorted({one.mechanism for one in AUTHENTICATED if one.mechanism})),
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                **{
                    f"listener.name.{_name(kind, protocol).lower()}.plain.sasl.jaas.config": " ".join(
                        (jaas, *(f'user_{user}="{PASSWORD}"' for user in sorted(users)))
                    )
                    + ";"
                    for kind, protocol in self._addresses
                    if protocol.startswith("SASL")
                },
                "sasl.oauthbearer.jwks.endpoint.url": self._provider.write(folder / "keys.json"),
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "ssl.client.auth": "requested",
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/",
                **self._certificates.broker_settings(),
                "authorizer.class.name": AUTHORIZER,
                "super.users": ADMIN,
                "delegation.token.secret.key": PASSWORD,
                "auto.create.topics.enable": "false",
                "offsets.topic.num.partitions": 1,
                "transaction.state.log.num.partitions": 1,
            },
        )

    def __enter__(self) -> GuardedBroker:
        self._broker.start()
        return self

    def prepare(self) -> dict[str, bytes]:
        """Create the users of SCRAM, topics and entries; return the ids of the topics."""
        for mechanism in SCRAM_BY_NAME.values():  # a user can be altered once in a request
            salted = hashlib.pbkdf2_hmac(mechanism.hash_name, PASSWORD.encode(), SALT, ITERATIONS)
            credential = {
                "mechanism": mechanism.number,
                "iterations": ITERATIONS,
                "salt": SALT,
                "salted_password": salted,
            }
            users = [{"name": user, **credential} for user in sorted(self._users(mechanism.name))]
            request = build(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, {"deletions": [], "upsertions": users})
            altered = self._send_plain(ADMIN, "broker", ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
            assert not any(result.error_code for result in altered.results)
        return prepare(
            self._send_plain, [acl for key, kind in apis() for client in clients(key, kind) for acl in client.acls]
        )

    def __exit__(self, *_: object) -> None:
        self._forget()
        self._broker.stop()
        self._broker.check_log()

    def send(self, principal: str, listener_type: str, key: ApiKey, version: int, message: Message) -> Any:
        """Send a request of a principal by its transport for the API, and return the response, or `CLOSED`."""
        return self._send(self._of[principal, key, listener_type], principal, listener_type, key, version, message)

    def _send_plain(self, principal: str, listener_type: str, key: ApiKey, version: int, message: Message) -> Any:
        return self._send(PLAIN, principal, listener_type, key, version, message)

    def _send(
        self, transport: Transport, principal: str, listener_type: str, key: ApiKey, version: int, message: Message
    ) -> Any:
        which = (principal, listener_type, transport)
        if self._connection is None or self._connection[0] != which:
            self._forget()
            self._connection = which, self._connect(principal.removeprefix("User:"), listener_type, transport)
        try:
            return self._connection[1].call(key, version, **_fields(message))
        except ConnectionError:
            self._forget()
            return CLOSED

    def stranger(self, listener_type: str, protocol: str) -> SecureConnection:
        """Return a connection that is not authenticated."""
        connection = SecureConnection(self._addresses[listener_type, protocol])
        if protocol.endswith("SSL"):
            connection.encrypt(self._context(""))
        return connection

    def _connect(self, user: str, listener_type: str, transport: Transport) -> SecureConnection:
        with ExitStack() as until_ready:
            connection = SecureConnection(self._addresses[listener_type, transport.protocol])
            until_ready.callback(connection.close)
            if transport.protocol.endswith("SSL"):
                connection.encrypt(self._context(user if transport.has_certificate else ""))
            if transport.mechanism:
                connection.authenticate(transport.mechanism, user, lambda: self._provider.token(sub=user))
            until_ready.pop_all()
        return connection

    def _context(self, user: str) -> ssl.SSLContext:
        """Return the context of a user with a certificate; of any client without one if `user` is empty."""
        if user not in self._contexts:
            context = self._contexts[user] = ssl.create_default_context(cafile=self._certificates.trusted)
            if user:
                context.load_cert_chain(self._certificates.issue(user, "client.example.com", common_name=user))
        return self._contexts[user]

    def _users(self, mechanism: str) -> set[str]:
        return {
            principal.removeprefix("User:")
            for (principal, _, _), transport in self._of.items()
            if transport.mechanism == mechanism
        }

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None


def _fields(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message._names}


def _name(listener_type: str, protocol: str) -> str:
    return f"{listener_type.upper()}_{protocol}"
