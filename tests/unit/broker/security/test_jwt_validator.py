from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey

from broker.security.jwks import parse_jwks
from broker.security.jwt_validator import JwtExpectations, JwtValidator
from broker.security.oauthbearer import BearerToken, InvalidToken
from tests.tokens import AUDIENCE, ISSUER, IdentityProvider

NOW_S = 1_700_000_000
PROVIDER = IdentityProvider()
EXPECTED = JwtExpectations(ISSUER, ["other", AUDIENCE], clock_skew_s=30, user_claim="sub", scope_claim="scope")


def validator(expected: JwtExpectations = EXPECTED, on_unknown_key: Callable[[], None] = lambda: None) -> JwtValidator:
    keys = parse_jwks(PROVIDER.jwks.encode())
    return JwtValidator(expected, lambda: keys, on_unknown_key)


def validate(token: str, expected: JwtExpectations = EXPECTED) -> BearerToken:
    return validator(expected).validate(token, NOW_S * 1000)


def unsigned(algorithm: str) -> str:
    parts = ({"alg": algorithm, "kid": "first"}, {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW_S + 60})
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{body}."


def test_token_of_the_provider_has_its_user_and_lifetime() -> None:
    assert validate(PROVIDER.token(now_s=NOW_S)) == BearerToken("alice", 3_600_000)
    assert validate(PROVIDER.token(now_s=NOW_S, aud=["a", AUDIENCE], scope=["read"])).user == "alice"
    assert validate(PROVIDER.token(now_s=NOW_S, scope=None)).user == "alice"


def test_user_and_scope_are_those_of_the_configured_claims() -> None:
    expected = EXPECTED._replace(user_claim="client_id", scope_claim="scp")
    assert validate(PROVIDER.token(now_s=NOW_S, client_id="app", scp=["a"]), expected).user == "app"
    with pytest.raises(InvalidToken, match="client_id"):
        validate(PROVIDER.token(now_s=NOW_S), expected)
    with pytest.raises(InvalidToken, match="scp is neither"):
        validate(PROVIDER.token(now_s=NOW_S, client_id="app", scp=7), expected)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", ""])
def test_token_without_a_signature_is_refused(algorithm: str) -> None:
    with pytest.raises(InvalidToken):
        validate(unsigned(algorithm))


def test_public_key_as_the_secret_of_an_hmac_is_refused() -> None:
    """CVE-2015-9235: the algorithm of the token must not decide how the key is used."""
    public = PROVIDER.key.as_pem(private=False)
    forged = jwt.encode(
        {"alg": "HS256", "kid": "first"},
        {"iss": ISSUER, "aud": AUDIENCE, "sub": "admin", "iat": NOW_S, "exp": NOW_S + 60},
        OctKey.import_key(base64.urlsafe_b64encode(public).decode()),
        algorithms=["HS256"],
    )
    with pytest.raises(InvalidToken):
        validate(forged)


def test_signature_of_another_key_with_the_same_kid_is_refused() -> None:
    with pytest.raises(InvalidToken, match=r"^its signature is not by the key that it names$"):
        validate(IdentityProvider("first").token(now_s=NOW_S))


def test_altered_claims_are_refused() -> None:
    head, _, signature = PROVIDER.token(now_s=NOW_S).split(".")
    body = PROVIDER.token(now_s=NOW_S, sub="admin").split(".")[1]
    with pytest.raises(InvalidToken, match=r"^its signature is not by the key that it names$"):
        validate(f"{head}.{body}.{signature}")


def test_unknown_kid_is_refused_and_reported() -> None:
    reported: list[None] = []
    with pytest.raises(InvalidToken, match="unknown key"):
        validator(on_unknown_key=lambda: reported.append(None)).validate(
            IdentityProvider("second").token(now_s=NOW_S), NOW_S * 1000
        )
    assert reported == [None]


def test_token_without_a_kid_is_verified_by_the_only_key_and_refused_if_there_are_several() -> None:
    other = KeySet([PROVIDER.key, IdentityProvider("second").key])
    bare = jwt.encode({"alg": "ES256"}, {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}, PROVIDER.key)
    anyone = EXPECTED._replace(issuer=None, audiences=())
    assert validate(bare, anyone).user == "alice"
    with pytest.raises(InvalidToken, match="there are several"):
        JwtValidator(anyone, lambda: other, lambda: None).validate(bare, NOW_S * 1000)


@pytest.mark.parametrize("issuer", ["https://evil.example.com", None, [ISSUER]])
def test_wrong_issuer_is_refused(issuer: object) -> None:
    with pytest.raises(InvalidToken, match=r"^((Invalid|Missing) claim: 'iss'|Claim 'iss' must .*)$"):
        validate(PROVIDER.token(now_s=NOW_S, iss=issuer))


@pytest.mark.parametrize("audience", ["billing", None, [], ["billing"]])
def test_wrong_audience_is_refused(audience: object) -> None:
    with pytest.raises(InvalidToken, match="aud"):
        validate(PROVIDER.token(now_s=NOW_S, aud=audience))


@pytest.mark.parametrize("expiry", [NOW_S - 31, None, "tomorrow", float("nan")])
def test_expired_token_or_one_without_expiry_is_refused(expiry: object) -> None:
    with pytest.raises(InvalidToken):
        validate(PROVIDER.token(now_s=NOW_S - 100, exp=expiry))


def test_lifetime_of_a_token_fits_into_the_response() -> None:
    assert validate(PROVIDER.token(now_s=NOW_S, exp=10**400)).lifetime_ms == 2**63 - 1


def test_clock_skew_is_allowed_and_does_not_lengthen_the_session() -> None:
    assert validate(PROVIDER.token(now_s=NOW_S - 100, exp=NOW_S - 10)).lifetime_ms == 0
    assert validate(PROVIDER.token(now_s=NOW_S + 20)).user == "alice"


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_token_of_the_future_is_refused(claim: str) -> None:
    with pytest.raises(InvalidToken, match=f"{claim}|future|not yet"):
        validate(PROVIDER.token(now_s=NOW_S, **{claim: NOW_S + 60}))


@pytest.mark.parametrize("user", ["", "  ", 7, None, ["admin"]])
def test_user_that_is_no_name_is_refused(user: object) -> None:
    with pytest.raises(InvalidToken):
        validate(PROVIDER.token(now_s=NOW_S, sub=user))


@pytest.mark.parametrize("claims", [{"aud": "billing"}, {"exp": NOW_S - 100}, {"iss": None}], ids=str)
def test_refused_token_names_the_user_that_it_claims(claims: dict[str, object]) -> None:
    with pytest.raises(InvalidToken) as refused:
        validate(PROVIDER.token(now_s=NOW_S - 1000, sub="mallory\nRefused", **claims))
    assert refused.value.user == "mallory\nRefused"  # the log escapes it


@pytest.mark.parametrize(
    "payload", [b"[]", b"7", b"{}", b'{"sub": 7}', b"\xff", b"[" * 30_000, b'{"sub": "%s"}' % (b"a" * 70_000)]
)
def test_refused_token_without_a_readable_user_names_none(payload: bytes) -> None:
    with pytest.raises(InvalidToken) as refused:
        validate(f"e30.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.AAAA")
    assert refused.value.user == ""


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "a.b.c.d.e", "é.é.é", "e30.e30.", "A" * 5000, "." * 5000])
def test_garbage_is_refused(token: str) -> None:
    with pytest.raises(InvalidToken):
        validate(token)


def test_deeply_nested_header_is_refused() -> None:
    nested = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    with pytest.raises(InvalidToken):
        validate(f"{nested}.e30.AA")
