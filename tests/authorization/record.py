"""Record the answers of Apache Kafka for the matrix: `python -m tests.authorization.record`.

It starts Apache Kafka with an authorizer and SASL on both listeners; each client of the matrix is a user.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from protocol.api import ApiKey
from protocol.schema import Message
from tests.authorization.matrix import ADMIN, CLOSED, GOLDEN, apis, clients, prepare, run
from tests.broker_process import free_address
from tests.oracles.kafka_server import KafkaServer
from tests.raw_client import RawClient

PASSWORD = "secret"
NO_USER = "User:ANONYMOUS"
# SaslHandshake 1 and SaslAuthenticate 0, without a client id.
_HANDSHAKE = b"\0\x11\0\1\0\0\0\1\xff\xff" + b"\0\5PLAIN"
_AUTHENTICATE = b"\0\x24\0\0\0\0\0\1\xff\xff"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Connection(RawClient):
    """A connection, with SASL if it is one of a user."""

    def __init__(self, address: str, user: str = "") -> None:
        super().__init__(address)
        if user:
            self._exchange(_HANDSHAKE)
            token = f"\0{user}\0{PASSWORD}".encode()
            answer = self._exchange(_AUTHENTICATE + len(token).to_bytes(4, "big") + token)
            assert answer[4:6] == b"\0\0", f"{user} cannot log in: {answer!r}"

    def _exchange(self, frame: bytes) -> bytes:
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        return self._read(int.from_bytes(self._read(4), "big"))

    def request(self, key: ApiKey, version: int, message: Message) -> Any:
        """Send a request, and return the response, or `CLOSED`."""
        try:
            return self.call(key, version, **{name: getattr(message, name) for name in message._names})
        except ConnectionError:
            return CLOSED


class Kafka:
    """Apache Kafka with the users, topics and entries of the matrix."""

    def __init__(self, folder: Path) -> None:
        everyone = {client.principal: client for key, kind in apis() for client in clients(key, kind)}
        users = [principal.removeprefix("User:") for principal in everyone if principal != NO_USER]
        known = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
        jaas = f'{LOGIN} username="admin" password="{PASSWORD}" {known};'
        self._sasl, self._controller = free_address(), free_address()
        self.acls = [acl for client in everyone.values() for acl in client.acls]
        self._connections: dict[tuple[str, str], Connection] = {}
        self.server = KafkaServer(
            folder,
            {
                "listeners": f"PLAINTEXT://{{bootstrap}},CONTROLLER://{{controller}},"
                f"SASL://{self._sasl},OPEN://{self._controller}",
                "advertised.listeners": f"PLAINTEXT://{{bootstrap}},SASL://{self._sasl}",
                "controller.listener.names": "CONTROLLER,OPEN",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OPEN:PLAINTEXT,"
                "CONTROLLER:SASL_PLAINTEXT,SASL:SASL_PLAINTEXT",
                "inter.broker.listener.name": "SASL",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.sasl.plain.sasl.jaas.config": jaas,
                "listener.name.controller.plain.sasl.jaas.config": jaas,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": ADMIN,
                "delegation.token.secret.key": "secret",
                "auto.create.topics.enable": "false",
                "transaction.state.log.replication.factor": 1,
                "transaction.state.log.min.isr": 1,
                "transaction.state.log.num.partitions": 1,
            },
        )

    def send(self, principal: str, listener_type: str, key: ApiKey, version: int, message: Message) -> Any:
        """Send a request of a principal, on a connection of its own; a new one after it was closed."""
        connection = self._connections.get((principal, listener_type))
        if connection is None:
            connection = self._connections[principal, listener_type] = self._connect(principal, listener_type)
        answer = connection.request(key, version, message)
        if answer == CLOSED:
            connection.close()
            del self._connections[principal, listener_type]
        return answer

    def _connect(self, principal: str, listener_type: str) -> Connection:
        to_controller = listener_type == "controller"
        if principal == NO_USER:
            return Connection(self._controller if to_controller else self.server.bootstrap)
        return Connection(self.server.controller if to_controller else self._sasl, user=principal.removeprefix("User:"))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kafka = Kafka(Path(folder) / "kafka")
        try:
            kafka.server.wait()
            ids = prepare(kafka.send, kafka.acls)
            outcomes = run(kafka.send, ids)
        finally:
            kafka.server.stop()
    GOLDEN.write_text(json.dumps(outcomes, indent=1) + "\n")
    cells = sum(len(ranges) for by_client in outcomes.values() for ranges in by_client.values())
    print(f"{GOLDEN.name}: {len(outcomes)} APIs and listeners, {cells} different outcomes")


if __name__ == "__main__":
    main()
