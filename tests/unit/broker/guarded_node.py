"""A broker with an authorizer, whose clients have the principals that a test gives them: fixture `guarded`."""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import count
from typing import Any

from broker.authorization.request_authorizer import RequestAuthorizer
from broker.network.connection import Connection, Disconnect
from broker.network.connection_protocol import DeferredResponse
from controller.acls.acl import ANONYMOUS
from controller.records import acl_record
from protocol.api import ApiKey, response_class
from protocol.errors import DecodeError
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.primitives import read_parts
from protocol.records.metadata import RemoveAccessControlEntryRecord
from protocol.schema import Message
from tests.authorization.matrix import ADMIN, CLOSED
from tests.authorization.requests import build
from tests.typed import present
from tests.unit.broker.node import LISTENER, Node
from tests.unit.controller.acls.entries import acl, acl_id

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="p";'
SETTINGS = {
    "authorizer_class_name": AUTHORIZER,
    "super_users": ADMIN,
    "auto_create_topics_enable": "false",
    "listeners": f"{LISTENER}://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0,OPEN://127.0.0.1:0",
    "listener_security_protocol_map": (
        "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,OPEN:PLAINTEXT"
    ),
    "controller_listener_names": "CONTROLLER,OPEN",
    "sasl_enabled_mechanisms": "PLAIN",
    "sasl_mechanism_controller_protocol": "PLAIN",
    "listener_name_sasl_plain_sasl_jaas_config": LOGIN,
    "listener_name_controller_plain_sasl_jaas_config": LOGIN,
    "delegation_token_secret_key": "secret",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
}
ALICE = "User:alice"
CORRELATION_ID = 7


class GuardedNode:
    """Sends frames to the dispatchers of a node, as a connection of a principal would."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._numbers = count(1)
        self._dispatchers: dict[str, Any] = {
            "broker": node.broker.dispatcher,
            "controller": present(node.node.controller).dispatcher,
        }

    @property
    def authorizer(self) -> RequestAuthorizer:
        return present(self.node.broker.authorizer)

    def add(self, *lines: str) -> list[bytes]:
        """Add access control entries, written as by `tests.unit.controller.acls.entries`; return their ids."""
        ids = [acl_id(next(self._numbers)) for _ in lines]
        self.node.commit(*(acl_record(each, acl(line)) for each, line in zip(ids, lines, strict=True)))
        return ids

    def remove(self, *ids: bytes) -> None:
        self.node.commit(*(RemoveAccessControlEntryRecord(id=each) for each in ids))

    def send(
        self,
        principal: str,
        listener_type: str,
        key: ApiKey,
        version: int,
        message: Message,
        host: str = "127.0.0.1",
        by_token: bool = False,
    ) -> Any:
        """Return the response, None if there is none, or `CLOSED`; `by_token`: authenticated by a delegation token."""
        is_anonymous = principal == ANONYMOUS
        if listener_type == "broker":
            listener = LISTENER if is_anonymous else "SASL"
        else:
            listener = "OPEN" if is_anonymous else "CONTROLLER"
        connection = Connection(1, listener, host)
        connection.principal, connection.token_authenticated = principal, by_token
        header = encode_request_header(RequestHeader(key, version, CORRELATION_ID, "client"))
        frame = memoryview(bytearray(header + message.encode(version)))
        try:
            outcome = self._dispatchers[listener_type](frame, connection)
            if isinstance(outcome, DeferredResponse):
                outcome = self.node.wait(_awaited(outcome.response))
        except (Disconnect, DecodeError):
            return CLOSED
        if outcome is None:
            return None
        data = read_parts(outcome)
        correlation_id, body_at = decode_response_header(key, version, data[4:])
        assert correlation_id == CORRELATION_ID
        return response_class(key).decode(data, version, 4 + body_at)

    def ask(
        self,
        key: ApiKey,
        version: int,
        /,
        principal: str = ALICE,
        listener_type: str = "broker",
        host: str = "127.0.0.1",
        by_token: bool = False,
        **fields: Any,
    ) -> Any:
        """Send a request of these fields, structs as dictionaries, as `principal`."""
        return self.send(principal, listener_type, key, version, build(key, fields), host, by_token)


async def _awaited(outcome: Awaitable[Any]) -> Any:
    return await outcome
