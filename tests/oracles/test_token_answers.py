"""Answers to requests for delegation tokens, compared with Apache Kafka's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from controller.acls.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from protocol.api import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from tests.broker_process import BrokerProcess, free_address
from tests.oracles.kafka_directory import FEATURES
from tests.oracles.kafka_server import KafkaServer
from tests.token_client import TokenConnection, UserConnection, new_token

CREATE, RENEW = ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN
EXPIRE, DESCRIBE = ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN
USERS = ("admin", "alice", "bob", "carol")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
APPLIED_S = 60.0
_TOLERANCE_MS = 60_000


class One:
    """The connections of each user to one of the two brokers, and the tokens that it made, by name."""

    def __init__(self, address: str, stack: ExitStack) -> None:
        self._address = address
        self._stack = stack
        self.users = {user: stack.enter_context(UserConnection(address, user, user)) for user in USERS}
        self.tokens: dict[str, Any] = {}

    def log_in(self, token: str) -> None:
        """Add the bearer of a token as a user of its name."""
        made = self.tokens[token]
        self.users[token] = self._stack.enter_context(TokenConnection(self._address, made.token_id, made.hmac))


class Both:
    """Ours and Kafka's broker."""

    def __init__(self, ours: One, kafka: One) -> None:
        self.sides = ours, kafka

    def same(self, ask: Callable[[One], Any]) -> Any:
        """Return what both answer; Kafka's nodes may need some time to apply what its controller has decided."""
        ours = ask(self.sides[0])
        deadline = time.monotonic() + APPLIED_S
        while (kafkas := ask(self.sides[1])) != ours and time.monotonic() < deadline:
            pass
        assert ours == kafkas
        return ours

    def create(self, user: str, version: int, name: str = "", **fields: Any) -> Any:
        """Create a token with a name."""

        def ask(one: One) -> dict[str, Any]:
            created = one.users[user].call(CREATE, version, **{"renewers": [], "max_lifetime_ms": -1} | fields)
            if name:
                one.tokens[name] = created
            return _shown(created)

        return self.same(ask)

    def change(self, user: str, key: ApiKey, version: int, token: str, period_ms: int) -> ErrorCode:
        """Renew or expire a token."""
        field = "renew_period_ms" if key is RENEW else "expiry_time_period_ms"

        def ask(one: One) -> tuple[int, Any]:
            hmac = one.tokens[token].hmac if token in one.tokens else b"unknown"
            response = one.users[user].call(key, version, hmac=hmac, **{field: period_ms})
            return response.error_code, _from_now(response.expiry_timestamp_ms)

        return ErrorCode(self.same(ask)[0])

    def wait_until_expired(self, user: str, token: str) -> None:
        """Wait until both know that a token has expired: one that has not applied that would renew it."""
        for one in self.sides:
            deadline = time.monotonic() + APPLIED_S
            token_id = one.tokens[token].token_id
            while time.monotonic() < deadline:
                found = one.users[user].call(DESCRIBE, 3, owners=None).tokens
                if all(each.expiry_timestamp < time.time() * 1000 for each in found if each.token_id == token_id):
                    break

    def described(self, user: str, version: int, owners: list[str] | None) -> tuple[int, Any]:
        """Return the error code and the tokens with names that a user is shown."""
        owner = DescribeDelegationTokenRequest.Owner
        wanted = None if owners is None else [owner(principal_type="User", principal_name=name) for name in owners]

        def ask(one: One) -> tuple[int, Any]:
            response = one.users[user].call(DESCRIBE, version, owners=wanted)
            names = {token.token_id: name for name, token in one.tokens.items()}
            found = {names[token.token_id]: _shown(token) for token in response.tokens if token.token_id in names}
            return response.error_code, found

        found: tuple[int, Any] = self.same(ask)
        return found


def _from_now(time_ms: int) -> int:
    """Return a time, or the minutes from now if it is one."""
    return time_ms if time_ms <= 0 or time_ms >= 1 << 62 else round((time_ms - time.time() * 1000) / _TOLERANCE_MS)


def _shown(struct: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    issued_ms = next(getattr(struct, name) for name in struct._names if name.startswith("issue_timestamp"))
    for name in struct._names:
        value = getattr(struct, name)
        if name in ("token_id", "hmac"):
            value = len(value)
        elif name.startswith(("expiry_timestamp", "max_timestamp")):
            value -= max(issued_ms, 0)
        elif name.startswith("issue_timestamp"):
            value = min(value, 1)
        elif name == "renewers":
            value = [f"{one.principal_type}:{one.principal_name}" for one in value]
        shown[name] = value
    return shown


def settings_of(key: str) -> dict[str, object]:
    """Return the settings of both brokers; no tokens without a key."""
    users = " ".join(f'user_{user}="{user}"' for user in USERS)
    login = f'{PLAIN} username="admin" password="admin" {users};'
    found: dict[str, object] = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": login,
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{PLAIN.replace('plain.Plain', 'scram.Scram')};",
        "listener.name.controller.plain.sasl.jaas.config": login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    return found | ({"delegation.token.secret.key": key} if key else {})


def start_kafka(folder: Path, sasl: str, key: str, features: Mapping[str, int] | None = None) -> KafkaServer:
    """Start Apache Kafka, with a listener with SASL at an address."""
    listeners = {
        "listeners": f"PLAINTEXT://{{bootstrap}},CONTROLLER://{{controller}},SASL://{sasl}",
        "advertised.listeners": f"PLAINTEXT://{{bootstrap}},SASL://{sasl}",
    }
    return KafkaServer(folder, settings_of(key) | listeners, features)


def new_broker(folder: Path, key: str) -> BrokerProcess:
    """Return a broker of ours, with the same listeners."""
    listeners = {"listeners": "SASL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0", "node.id": 1}
    return BrokerProcess(folder, settings_of(key) | listeners)


@pytest.fixture(scope="module", params=["secret", ""], ids=["with a key", "without a key"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("tokens")
    sasl = free_address()
    kafka = start_kafka(folder / "kafka", sasl, request.param)
    try:
        with new_broker(folder / "ours", request.param) as ours, ExitStack() as stack:
            kafka.wait()
            found = Both(One(ours.bootstrap, stack), One(sasl, stack))
            creation = CreateAclsRequest.Creation(
                resource_type=AclResourceType.USER,
                resource_name="User:bob",
                resource_pattern_type=PatternType.LITERAL,
                principal="User:alice",
                host="*",
                operation=AclOperation.CREATE_TOKENS,
                permission_type=AclPermissionType.ALLOW,
            )
            for one in found.sides:
                one.users["admin"].call(ApiKey.CREATE_ACLS, 3, creations=[creation])
            yield found
    finally:
        kafka.stop()


def renewer(name: str, kind: str = "User") -> CreateDelegationTokenRequest.Renewer:
    return CreateDelegationTokenRequest.Renewer(principal_type=kind, principal_name=name)


def of(owner: str) -> dict[str, Any]:
    return {"owner_principal_type": "User", "owner_principal_name": owner}


@pytest.mark.parametrize("version", APIS[CREATE].versions)
def test_creation(both: Both, version: int) -> None:
    both.create("alice", version, renewers=[renewer("bob"), renewer("carol")])
    for lifetime_ms in (0, 1, 3_600_000, 2**63 - 1, -5):
        both.create("alice", version, max_lifetime_ms=lifetime_ms)
    both.create("alice", version, renewers=[renewer("bob"), renewer("staff", "Group")])
    if version >= 3:
        for owner in ("alice", "bob", "carol"):
            both.create("alice", version, **of(owner))
        both.create("alice", version, **of("carol"), renewers=[renewer("staff", "Group")])
        both.create("admin", version, **of("carol"))
        both.create("alice", version, owner_principal_type="Group", owner_principal_name="staff")
        both.create("alice", version, owner_principal_type="User", owner_principal_name="")


@pytest.mark.parametrize("key", [RENEW, EXPIRE], ids=["renew", "expire"])
@pytest.mark.parametrize("version", APIS[RENEW].versions)
def test_changes(both: Both, version: int, key: ApiKey) -> None:
    token = f"{key.name} {version}"
    both.create("alice", 3, token, renewers=[renewer("bob")])
    both.create("alice", 3, f"{token} of bob", **of("bob"))
    for period_ms in (3_600_000, 2**40, 7_200_000):
        for user in ("alice", "bob", "carol", "admin"):
            both.change(user, key, version, token, period_ms)
    both.change("alice", key, version, f"{token} of bob", 3_600_000)
    both.change("alice", key, version, "none", 3_600_000)
    both.change("alice", RENEW, version, token, -1)
    both.change("alice", RENEW, version, token, 0)
    both.change("alice", EXPIRE, version, token, 1)
    both.wait_until_expired("alice", token)
    for user in ("alice", "carol"):
        both.change(user, RENEW, version, token, 3_600_000)
        both.change(user, EXPIRE, version, token, 3_600_000)
        both.change(user, EXPIRE, version, token, -1)
    both.change("alice", RENEW, version, token, 3_600_000)


@pytest.mark.parametrize("version", APIS[DESCRIBE].versions)
def test_descriptions(both: Both, version: int) -> None:
    both.create("carol", 3, "carol's", renewers=[renewer("bob")])
    both.create("admin", 3, "admin's", **of("carol"))
    for user in USERS:
        for owners in (None, [], ["carol"], ["bob", "carol"], ["nobody"]):
            both.described(user, version, owners)


def test_the_bearer_of_a_token_gets_no_tokens(both: Both) -> None:
    if both.create("alice", 3, "bearer's")["error_code"]:
        return  # without a key
    for one in both.sides:
        deadline = time.monotonic() + APPLIED_S
        while "bearer's" not in one.users and time.monotonic() < deadline:
            try:
                one.log_in("bearer's")
            except Exception as error:
                assert "Authentication failed" in str(error)  # noqa: PT017 - Kafka has not applied the token
    for version in APIS[CREATE].versions:
        both.create("bearer's", version)
        assert both.described("bearer's", version, None)[0] == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    for key in (RENEW, EXPIRE):
        for version in APIS[key].versions:
            found = both.change("bearer's", key, version, "bearer's", 1000)
            assert found is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_tokens_outlive_a_change_between_apache_kafka_and_barnabas(tmp_path: Path) -> None:
    """Each opens the data directory of the other, and has the tokens of both."""
    sasl = free_address()
    kafka = start_kafka(tmp_path / "kafka", sasl, "secret", FEATURES)
    try:
        kafka.wait()
        with UserConnection(sasl, "alice", "alice") as alice:
            tokens = [new_token(alice, renewers=[renewer("bob")])]
        kafka.close()
        ours = new_broker(tmp_path / "ours", "secret")
        ours.data_dir = kafka.data_dir
        with ours:
            with UserConnection(ours.bootstrap, "bob", "bob") as bob:
                (seen,) = bob.call(DESCRIBE, 3, owners=None).tokens
                assert (seen.token_id, seen.hmac) == (tokens[0].token_id, tokens[0].hmac)
                assert seen.max_timestamp == tokens[0].max_timestamp_ms
                renewed = bob.call(RENEW, 2, hmac=seen.hmac, renew_period_ms=3_600_000)
                tokens.append(new_token(bob))
            for token in tokens:
                TokenConnection(ours.bootstrap, token.token_id, token.hmac).close()
            assert ours.stop() == 0
        kafka.start()
        kafka.wait()
        with UserConnection(sasl, "bob", "bob") as bob:
            described = {token.token_id: token for token in bob.call(DESCRIBE, 3, owners=None).tokens}
        assert {token_id: token.hmac for token_id, token in described.items()} == {
            token.token_id: token.hmac for token in tokens
        }
        assert described[tokens[0].token_id].expiry_timestamp == renewed.expiry_timestamp_ms
        for token in tokens:
            TokenConnection(sasl, token.token_id, token.hmac).close()
    finally:
        kafka.stop()
