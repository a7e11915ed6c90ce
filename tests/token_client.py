"""Clients that authenticate with a user's password (PLAIN) or a delegation token (SCRAM), and send raw requests."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Self

from broker.security.scram import ScramClient
from controller.scram import SCRAM_BY_NAME
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from tests.raw_client import RawClient


class TokenClient(ScramClient):
    """SCRAM with the extension tokenauth=true."""

    def __init__(self, mechanism: str, token_id: str, hmac: bytes) -> None:
        super().__init__(SCRAM_BY_NAME[mechanism], token_id, b64encode(hmac).decode(), "client")
        self._bare += b",tokenauth=true"


class UserConnection(RawClient):
    """A connection of a user, authenticated by PLAIN; `session_ms` is the lifetime of its session."""

    def __init__(self, bootstrap: str, user: str, password: str) -> None:
        super().__init__(bootstrap)
        self.session_ms = 0
        self._handshake("PLAIN")
        self._authenticate(f"\0{user}\0{password}".encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _handshake(self, mechanism: str) -> None:
        assert not self.call(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism).error_code

    def _authenticate(self, token: bytes) -> bytes:
        answer = self.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
        if answer.error_code:
            self.close()
            raise KafkaError(ErrorCode(answer.error_code), answer.error_message)
        self.session_ms = answer.session_lifetime_ms
        return bytes(answer.auth_bytes)


class TokenConnection(UserConnection):
    """A connection of the bearer of a token; KafkaError SASL_AUTHENTICATION_FAILED if it is refused."""

    def __init__(self, bootstrap: str, token_id: str, hmac: bytes, mechanism: str = "SCRAM-SHA-256") -> None:
        RawClient.__init__(self, bootstrap)
        self._token = mechanism, token_id, hmac
        self.authenticate()

    def authenticate(self) -> None:
        """Authenticate, the first time or again."""
        client = TokenClient(*self._token)
        self._handshake(self._token[0])
        token: bytes | None = client.first()
        while token is not None:
            token = client.respond(self._authenticate(token))


def new_token(client: RawClient, **fields: Any) -> Any:
    """Create a token; return the response."""
    created = client.call(ApiKey.CREATE_DELEGATION_TOKEN, 3, **{"renewers": [], "max_lifetime_ms": -1} | fields)
    if created.error_code:
        raise KafkaError(ErrorCode(created.error_code), "no token")
    return created
