"""Requests for delegation tokens; the rules of their lifetimes are the transcripts of `tests/scripts/tokens`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.handlers.delegation_tokens import is_allowed, own_creation, own_expiry, own_renewal
from broker.network.connection import Connection, context_of
from broker.settings import Option, Settings, check_settings
from controller.delegation_tokens import TokenHmacs
from protocol.api import APIS, ApiKey, response_class
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.records.principal import ForwardedPrincipal, encode_principal
from tests.authorization.matrix import ADMIN
from tests.authorization.requests import build
from tests.typed import present
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.guarded_node import ALICE, SETTINGS, GuardedNode

CREATE, RENEW = ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN
EXPIRE, DESCRIBE = ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN
BOB, CAROL, ANONYMOUS = "User:bob", "User:carol", "User:ANONYMOUS"
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
DAY_MS = 24 * 3600 * 1000


def settings_of(settings: dict[str, str]) -> Settings:
    return check_settings({name: Option(text, "test") for name, text in settings.items()})


def create(guarded: GuardedNode, version: int = 3, principal: str = ALICE, owner: str = "", **fields: Any) -> Any:
    of: dict[str, Any] = {"owner_principal_type": "User", "owner_principal_name": owner} if owner else {}
    return guarded.ask(CREATE, version, principal=principal, max_lifetime_ms=-1, **of, **fields)


def shown(guarded: GuardedNode, principal: str, version: int = 3, **fields: Any) -> list[str]:
    """Return the ids of the tokens that a principal is shown."""
    response = guarded.ask(DESCRIBE, version, principal=principal, **({"owners": None} | fields))
    assert response.error_code == 0
    return [token.token_id for token in response.tokens]


def principals(*names: str) -> list[dict[str, str]]:
    return [{"principal_type": "User", "principal_name": name} for name in names]


@pytest.mark.parametrize("version", APIS[CREATE].versions)
def test_a_client_gets_a_token_for_itself(guarded: GuardedNode, version: int) -> None:
    response = create(guarded, version, renewers=principals("bob"))
    assert (response.error_code, response.principal_type, response.principal_name) == (0, "User", "alice")
    assert response.token_requester_principal_name == ("alice" if version >= 3 else "")
    now_ms = response.issue_timestamp_ms
    assert (response.expiry_timestamp_ms, response.max_timestamp_ms) == (now_ms + DAY_MS, now_ms + 7 * DAY_MS)
    assert response.hmac == TokenHmacs("secret").of(response.token_id)
    assert len(response.token_id) == 22
    assert create(guarded, version).token_id != response.token_id


@pytest.mark.parametrize("version", APIS[DESCRIBE].versions)
def test_a_token_is_described_with_its_hmac(guarded: GuardedNode, version: int) -> None:
    created = create(guarded, renewers=principals("bob", "carol"))
    (token,) = guarded.ask(DESCRIBE, version, owners=None).tokens
    assert (token.token_id, token.hmac) == (created.token_id, created.hmac)
    assert (token.principal_name, [one.principal_name for one in token.renewers]) == ("alice", ["bob", "carol"])
    assert token.token_requester_principal_name == ("alice" if version >= 3 else "")
    assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (
        created.issue_timestamp_ms,
        created.expiry_timestamp_ms,
        created.max_timestamp_ms,
    )


@pytest.mark.parametrize("version", APIS[RENEW].versions)
def test_owner_and_renewer_renew_and_expire_a_token(guarded: GuardedNode, version: int) -> None:
    created = create(guarded, renewers=principals("bob"))

    def ask(key: ApiKey, principal: str, period_ms: int, hmac: bytes = created.hmac) -> tuple[int, int]:
        period: dict[str, Any] = {"renew_period_ms" if key is RENEW else "expiry_time_period_ms": period_ms}
        response = guarded.ask(key, version, principal=principal, hmac=hmac, **period)
        return response.error_code, response.expiry_timestamp_ms

    code, expiry_ms = ask(RENEW, BOB, 60_000)
    assert code == 0
    assert created.issue_timestamp_ms <= expiry_ms - 60_000 < created.issue_timestamp_ms + 60_000
    assert ask(EXPIRE, ALICE, 90_000)[0] == 0
    for key in (RENEW, EXPIRE):
        assert ask(key, CAROL, 60_000) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
        assert ask(key, ALICE, 60_000, b"guess") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
    assert ask(EXPIRE, BOB, -1)[0] == 0
    assert shown(guarded, ALICE) == []
    assert ask(RENEW, ALICE, 60_000)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def requests() -> list[tuple[ApiKey, dict[str, Any]]]:
    return [
        (CREATE, {"max_lifetime_ms": -1}),
        (RENEW, {"hmac": b"h", "renew_period_ms": 1}),
        (EXPIRE, {"hmac": b"h", "expiry_time_period_ms": 1}),
        (DESCRIBE, {"owners": None}),
    ]


@pytest.mark.parametrize("listener_type", ["broker", "controller"])
@pytest.mark.parametrize(("key", "fields"), requests(), ids=lambda value: getattr(value, "name", ""))
def test_clients_without_a_password_get_no_tokens(
    guarded: GuardedNode, key: ApiKey, fields: dict[str, Any], listener_type: str
) -> None:
    for version in APIS[key].versions:
        for client in ({"principal": ANONYMOUS}, {"principal": ALICE, "by_token": True}):
            response = guarded.ask(key, version, listener_type=listener_type, **client, **fields)
            assert response.error_code == NOT_ALLOWED
            assert getattr(response, "expiry_timestamp_ms", -1) == -1


@pytest.mark.parametrize(("key", "fields"), requests()[:3], ids=lambda value: getattr(value, "name", ""))
def test_a_forwarded_request_is_that_of_its_client(guarded: GuardedNode, key: ApiKey, fields: dict[str, Any]) -> None:
    """The controller refuses the bearer of a token itself, and decides for the principal in the envelope."""
    version = APIS[key].max_version
    data = encode_request_header(RequestHeader(key, version, 9, "app")) + build(key, fields).encode(version)

    def forward(*, by_token: bool) -> Any:
        envelope = guarded.ask(
            ApiKey.ENVELOPE,
            0,
            principal=ADMIN,
            listener_type="controller",
            request_data=data,
            request_principal=encode_principal(ForwardedPrincipal(ALICE, by_token)),
            client_host_address=bytes([10, 0, 0, 7]),
        )
        assert envelope.error_code == 0
        _, body_at = decode_response_header(key, version, envelope.response_data)
        return response_class(key).decode(envelope.response_data, version, body_at)

    assert forward(by_token=True).error_code == NOT_ALLOWED
    answer = forward(by_token=False)
    assert answer.error_code == (0 if key is CREATE else ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if key is CREATE:
        assert shown(guarded, ALICE) == [answer.token_id]


@pytest.mark.parametrize(("key", "fields"), requests(), ids=lambda value: getattr(value, "name", ""))
def test_tokens_are_disabled_without_a_key(new_node: NewNode, key: ApiKey, fields: dict[str, Any]) -> None:
    node = new_node(None, **SETTINGS | {"delegation_token_secret_key": ""})
    node.start()
    for version in APIS[key].versions:
        response = GuardedNode(node).ask(key, version, **fields)
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_renewers_are_users(guarded: GuardedNode) -> None:
    refused = create(guarded, renewers=[{"principal_type": "Group", "principal_name": "staff"}])
    assert (refused.error_code, refused.issue_timestamp_ms) == (ErrorCode.INVALID_PRINCIPAL_TYPE, -1)


def test_the_controller_removes_tokens_after_they_expire(new_node: NewNode) -> None:
    node = new_node(None, **SETTINGS | {"delegation_token_expiry_check_interval_ms": "60000"})
    node.start()
    guarded = GuardedNode(node)
    kept = create(guarded).token_id
    response = guarded.ask(CREATE, 3, max_lifetime_ms=30_000)
    assert shown(guarded, ALICE) == [kept, response.token_id]
    node.pass_time(61)
    assert shown(guarded, ALICE) == [kept]
    node.pass_time(2 * DAY_MS / 1000)
    assert shown(guarded, ALICE) == []


@pytest.mark.parametrize(
    ("protocol", "principal", "by_token", "allowed"),
    [
        ("PLAINTEXT", ANONYMOUS, False, False),
        ("PLAINTEXT", ALICE, False, False),
        ("SSL", ANONYMOUS, False, False),
        ("SSL", ALICE, False, True),
        ("SASL_PLAINTEXT", ALICE, False, True),
        ("SASL_PLAINTEXT", ALICE, True, False),
        ("SASL_SSL", ANONYMOUS, False, True),  # a user of that name has a password
        ("SASL_SSL", ALICE, True, False),
    ],
)
def test_clients_who_prove_who_they_are_without_a_token_are_allowed(
    protocol: str, principal: str, by_token: bool, allowed: bool
) -> None:
    connection = Connection(1, "IN", "127.0.0.1")
    connection.principal, connection.token_authenticated = principal, by_token
    settings = settings_of({"listeners": "IN://:1", "listener.security.protocol.map": f"IN:{protocol}"})
    context = context_of(RequestHeader(CREATE, 3, 1, None), connection)
    assert is_allowed(settings, context) == allowed


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_no_request_is_forwarded_to_controllers_that_do_not_authenticate(guarded: GuardedNode, protocol: str) -> None:
    connection = Connection(1, "SASL", "127.0.0.1")
    connection.principal = ALICE
    others = {
        "process.roles": "broker",
        "listeners": "SASL://:1",
        "controller.quorum.voters": "9@localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "SASL",
        "listener.security.protocol.map": f"SASL:SASL_PLAINTEXT,CONTROLLER:{protocol}",
    }
    broker: Any = SimpleNamespace(settings=settings_of(others), authorizer=None)
    for key, own in ((CREATE, own_creation), (RENEW, own_renewal), (EXPIRE, own_expiry)):
        context = context_of(RequestHeader(key, APIS[key].max_version, 1, None), connection)
        refused = own(broker, context, build(key, dict(requests())[key]))  # type: ignore[arg-type]
        if protocol == "PLAINTEXT":
            answer: Any = guarded.node.wait(present(refused))
            assert (answer.error_code, answer.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
        else:
            assert refused is None


def test_a_broker_refuses_tokens_for_other_owners_before_it_forwards_the_request(guarded: GuardedNode) -> None:
    connection = Connection(1, "SASL", "127.0.0.1")
    connection.principal = ALICE
    context = context_of(RequestHeader(CREATE, 3, 1, None), connection)

    def answer(owner: str) -> Any:
        fields = {"max_lifetime_ms": -1, "owner_principal_type": "User", "owner_principal_name": owner}
        refused = own_creation(guarded.node.broker, context, build(CREATE, fields))  # type: ignore[arg-type]
        return None if refused is None else guarded.node.wait(refused)

    assert answer("bob").error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert answer("alice") is None
    guarded.add("allow User:alice CREATE_TOKENS USER:User:bob")
    assert answer("bob") is None
