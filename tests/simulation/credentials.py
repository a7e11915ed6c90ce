"""SCRAM credentials and delegation tokens: administrators change them, and authenticate by them at every broker.

Each round has a user of its own, since a change without a response may take effect at any time: the round ends with it.
A broker sends a request to the controller again if the connection breaks, so a removal may find that it was made.
A broker that has applied a change decides by it. Tokens expire by the clocks of the brokers: until the latest of all
clocks has passed its expiry a token has to be accepted, and once the broker's own has, it must not be.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from typing import Any, NamedTuple

from broker.security.scram import ScramClient
from controller.scram import MIN_ITERATIONS, SCRAM_MECHANISMS
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from simulation.cluster import SECURED_PORT
from simulation.loop import Loop
from simulation.violation import Invariant
from tests.simulation.client import Address, Client, Link, Lost
from tests.simulation.workload import PATIENCE
from tests.token_client import TokenClient

_SALT = b"0123456789abcdef"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_MOST_TRIES = 20

SETTINGS: dict[str, object] = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(mechanism.name for mechanism in SCRAM_MECHANISMS),
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (f'{_PLAIN} username="node" password="own" user_node="own";'),
    "sasl.mechanism.controller.protocol": "PLAIN",
    "delegation.token.secret.key": "secret",
    "delegation.token.expiry.check.interval.ms": 1_000,
}
"""The brokers' settings. Requests for tokens are not forwarded to controller listeners without SASL or TLS."""


class Token(NamedTuple):
    """A delegation token as its creation returned it."""

    token_id: str
    hmac: bytes
    expiry_ms: int


class CredentialAdministrator:
    """Create users, tokens of them, and remove both; each change has to be effective at every broker that knows it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._mechanism = client.random.choice(SCRAM_MECHANISMS)
        self._rounds = 0

    async def run(self) -> None:
        while not self.client.world.stopping:
            await self.round()
            await self.client.pause(0.1)

    async def succeed(self, loop: Loop) -> None:
        """Complete one more round."""
        self.client.loop = loop
        self.client.drop_links()
        while not await self.round():
            await asyncio.sleep(0.1)

    async def round(self) -> bool:
        """Return whether all changes were acknowledged."""
        self._rounds += 1
        user = f"{self.client.name}-{self._rounds}"
        try:
            await self._round(user)
        except Lost:
            self.client.forget()
            await self.client.pause(0.3)
            return False
        self.client.world.count("users that were created and removed")
        return True

    async def _round(self, user: str) -> None:
        random = self.client.random
        await self._set(user, "first")
        await self._check_user(user, "first", accepted=True)
        token = await self._create_token(user, "first", random.choice((1_500, 3_600_000, -1)))
        password = random.choice(("first", "second"))
        if password == "second":
            await self._set(user, password)
            await self._check_user(user, "first", accepted=False)
            await self._check_user(user, password, accepted=True)
        for _ in range(random.randint(1, 3)):
            await self._check_token(token)
            await self.client.pause(0.3)
        await self._remove_token(user, password, token)
        await self._check_removed(token)
        await self._delete(user)
        await self._check_user(user, password, accepted=False)

    # Changes; `Lost` if one was not acknowledged

    async def _set(self, user: str, password: str) -> None:
        salted = hashlib.pbkdf2_hmac(self._mechanism.hash_name, password.encode(), _SALT, MIN_ITERATIONS)
        upsertion = AlterUserScramCredentialsRequest.Upsertion(
            name=user,
            mechanism=self._mechanism.number,
            iterations=MIN_ITERATIONS,
            salt=_SALT,
            salted_password=salted,
        )
        await self._alter([], [upsertion])

    async def _delete(self, user: str) -> None:
        deletion = AlterUserScramCredentialsRequest.Deletion(name=user, mechanism=self._mechanism.number)
        await self._alter([deletion], [])

    async def _alter(self, deletions: list[Any], upsertions: list[Any]) -> None:
        answer = await self.client.call(
            self.client.any_broker(),
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            deletions=deletions,
            upsertions=upsertions,
        )
        [result] = answer.results
        if not deletions or result.error_code != ErrorCode.RESOURCE_NOT_FOUND:  # a former attempt removed it
            self._require(result.error_code, "AlterUserScramCredentials")

    async def _create_token(self, user: str, password: str, max_lifetime_ms: int) -> Token:
        link = await self._authenticated(user, password)
        answer = await self._send(link, ApiKey.CREATE_DELEGATION_TOKEN, 3, renewers=[], max_lifetime_ms=max_lifetime_ms)
        self._require(answer.error_code, "CreateDelegationToken")
        self.client.world.count("tokens created")
        return Token(answer.token_id, bytes(answer.hmac), answer.expiry_timestamp_ms)

    async def _remove_token(self, user: str, password: str, token: Token) -> None:
        link = await self._authenticated(user, password)
        answer = await self._send(link, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=token.hmac, expiry_time_period_ms=-1)
        # An expired token is removed by the controller, and another by a former attempt.
        if answer.error_code != ErrorCode.DELEGATION_TOKEN_NOT_FOUND:
            self._require(answer.error_code, "ExpireDelegationToken")

    def _require(self, error_code: int, what: str) -> None:
        code = ErrorCode(error_code)
        self.client.world.check(
            Invariant.CREDENTIAL_ANSWERS,
            code is ErrorCode.NONE or code in PATIENCE,
            f"{self.client.name} got {code.name} for {what}",
        )
        if code is not ErrorCode.NONE:
            raise Lost(code.name)

    # Authentications

    async def _check_user(self, user: str, password: str, *, accepted: bool) -> None:
        """Authenticate at a broker that knows of the last change."""
        found = await self._accepts(self._scram(user, password), await self._fresh_broker())
        invariant = Invariant.CREDENTIALS_STAY if accepted else Invariant.REMOVED_CREDENTIALS_ARE_REFUSED
        self.client.world.check(
            invariant, found == accepted, f"the password {password} of {user} is {'accepted' if found else 'refused'}"
        )

    async def _check_token(self, token: Token) -> None:
        world, address = self.client.world, await self._fresh_broker()
        host = world.host_at(address)
        had_expired = host.now_ms() > token.expiry_ms
        found = await self._accepts(self._bearer(token), address)
        if had_expired and host.now_ms() > token.expiry_ms:
            world.check(Invariant.REMOVED_CREDENTIALS_ARE_REFUSED, not found, f"{host.name} accepts an expired token")
        if world.latest_ms <= token.expiry_ms:
            world.check(Invariant.CREDENTIALS_STAY, found, f"{host.name} refuses the token {token.token_id}")

    async def _check_removed(self, token: Token) -> None:
        found = await self._accepts(self._bearer(token), await self._fresh_broker())
        self.client.world.check(
            Invariant.REMOVED_CREDENTIALS_ARE_REFUSED, not found, f"the token {token.token_id}, removed, is accepted"
        )

    async def _accepts(self, scram: ScramClient, address: Address) -> bool:
        """Return whether a broker authenticates a client; `Lost` if the process of the broker ends meanwhile."""
        host = self.client.world.host_at(address)
        starts = host.starts
        link = await self._authenticate(address, scram)
        if host.starts != starts:
            raise Lost("another process has answered")
        return link is not None

    async def _fresh_broker(self) -> Address:
        """Return a broker that has applied all changes; `Lost` if none has after `_MOST_TRIES`."""
        for _ in range(_MOST_TRIES):
            with suppress(Lost):
                return self.client.fresh_broker()
            await self.client.pause(0.02)
        raise Lost("the brokers are behind")

    async def _authenticated(self, user: str, password: str) -> Link:
        """Return a connection of a user; `Lost` if it is refused: the broker may have been restarted meanwhile."""
        link = await self._authenticate(await self._fresh_broker(), self._scram(user, password))
        if link is None:
            raise Lost("not authenticated")
        return link

    async def _authenticate(self, address: Address, scram: ScramClient) -> Link | None:
        """Return a connection of an authenticated client; None if the broker refuses it."""
        link = await self.client.link((address[0], SECURED_PORT), anew=True)
        shaken = await self._send(link, ApiKey.SASL_HANDSHAKE, 1, mechanism=self._mechanism.name)
        self._require(shaken.error_code, "SaslHandshake")
        token: bytes | None = scram.first()
        while token is not None:
            answer = await self._send(link, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
            if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
                return None
            self._require(answer.error_code, "SaslAuthenticate")
            token = scram.respond(bytes(answer.auth_bytes))
        self.client.world.count("authentications")
        return link

    async def _send(self, link: Link, key: ApiKey, version: int, **fields: Any) -> Any:
        answer = await self.client.answer(link, link.send(self.client.loop, key, version, fields))
        self.client.record_newest_metadata()
        return answer

    def _scram(self, user: str, password: str) -> ScramClient:
        return ScramClient(self._mechanism, user, password, "client")

    def _bearer(self, token: Token) -> ScramClient:
        return TokenClient(self._mechanism.name, token.token_id, token.hmac)
