from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwe import JWERegistry
from joserfc.jwk import ECKey, Key, KeySet, OctKey, OKPKey, RSAKey

from broker.security.jwks import parse_jwks
from broker.security.jwt_validator import JwtExpectations, JwtValidator
from broker.security.oauthbearer import BearerToken, InvalidToken
from tests.tokens import AUDIENCE, ISSUER, IdentityProvider

NOW_S = 1_700_000_000
PROVIDER = IdentityProvider()
EXPECTED = JwtExpectations(ISSUER, ["other", AUDIENCE], clock_skew_s=30, user_claim="sub", scope_claim="scope")


def validator(expected: JwtExpectations = EXPECTED, on_unknown_key: Callable[[], None] = lambda: None) -> JwtValidator:
    keys = parse_jwks(PROVIDER.jwks.encode(), pytest.fail)
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


RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


def signed(algorithm: str, key: Key, **claims: object) -> str:
    usual: dict[str, Any] = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}
    return jwt.encode({"alg": algorithm}, usual | claims, key, algorithms=[algorithm])


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated via RFC 9864")
def test_each_asymmetric_algorithm_is_accepted() -> None:
    rsa = RSAKey.generate_key(2048)
    keys: dict[str, Key] = dict.fromkeys(RSA_ALGORITHMS, rsa)
    keys |= {"ES256": PROVIDER.key, "ES384": ECKey.generate_key("P-384"), "ES512": ECKey.generate_key("P-521")}
    keys["EdDSA"] = OKPKey.generate_key("Ed25519")
    for algorithm, key in keys.items():
        validating = JwtValidator(EXPECTED, partial(KeySet, [key]), lambda: None)
        assert validating.validate(signed(algorithm, key), NOW_S * 1000).user == "alice"


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_token_with_a_shared_secret_is_refused_even_if_that_is_a_key(algorithm: str) -> None:
    secret = OctKey.generate_key(512)
    with pytest.raises(InvalidToken):
        JwtValidator(EXPECTED, lambda: KeySet([secret]), lambda: None).validate(signed(algorithm, secret), NOW_S * 1000)


def test_encrypted_token_is_refused_which_anyone_can_make_with_the_public_key() -> None:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "admin", "iat": NOW_S, "exp": NOW_S + 60}
    header, key = {"alg": "ECDH-ES", "enc": "A128GCM"}, ECKey.generate_key("P-256")
    forged = jwt.encode(header, claims, key, registry=JWERegistry(algorithms=["ECDH-ES", "A128GCM"]))
    with pytest.raises(InvalidToken, match=r"^it is not a signed JWT$"):
        JwtValidator(EXPECTED, lambda: KeySet([key]), lambda: None).validate(forged, NOW_S * 1000)


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


@pytest.mark.parametrize("expiry", [NOW_S - 31, None, "tomorrow", float("nan"), float("inf"), float("-inf"), [], True])
def test_expired_token_or_one_without_expiry_is_refused(expiry: object) -> None:
    with pytest.raises(InvalidToken):
        validate(PROVIDER.token(now_s=NOW_S - 100, exp=expiry))


def test_lifetime_of_a_token_fits_into_the_response() -> None:
    assert validate(PROVIDER.token(now_s=NOW_S, exp=10**400)).lifetime_ms == 2**63 - 1


def test_clock_skew_is_allowed_and_does_not_lengthen_the_session() -> None:
    assert validate(PROVIDER.token(now_s=NOW_S - 100, exp=NOW_S - 10)).lifetime_ms == 0
    assert validate(PROVIDER.token(now_s=NOW_S + 20)).user == "alice"


@pytest.mark.parametrize("issued", [None, "yesterday", []])
def test_token_without_a_time_of_issue_is_refused(issued: object) -> None:
    with pytest.raises(InvalidToken, match="iat"):
        validate(PROVIDER.token(now_s=NOW_S, iat=issued))


@pytest.mark.parametrize(("expiry", "skew_s"), [(NOW_S - 30, 30), (NOW_S - 29, 30), (NOW_S, 0), (NOW_S + 1, 0)])
def test_token_expires_when_its_expiry_and_the_clock_skew_have_passed(expiry: int, skew_s: int) -> None:
    expected = EXPECTED._replace(clock_skew_s=skew_s)
    token = PROVIDER.token(now_s=NOW_S - 100, exp=expiry)
    if expiry + skew_s > NOW_S:
        assert validate(token, expected).lifetime_ms == max(0, 1000 * (expiry - NOW_S))
        return
    with pytest.raises(InvalidToken):
        validate(token, expected)


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_token_of_the_future_is_refused(claim: str) -> None:
    with pytest.raises(InvalidToken, match=f"{claim}|future|not yet"):
        validate(PROVIDER.token(now_s=NOW_S, **{claim: NOW_S + 60}))


@pytest.mark.parametrize("user", ["", "  ", 7, None, ["admin"]])
def test_user_that_is_no_name_is_refused(user: object) -> None:
    with pytest.raises(InvalidToken):
        validate(PROVIDER.token(now_s=NOW_S, sub=user))


@pytest.mark.parametrize("user", ["", "  ", 7, True, None, ["admin"], {"name": "admin"}])
def test_user_of_a_configured_claim_that_is_no_name_is_refused(user: object) -> None:
    with pytest.raises(InvalidToken, match="client_id"):
        validate(PROVIDER.token(now_s=NOW_S, client_id=user), EXPECTED._replace(user_claim="client_id"))


def test_blanks_around_a_name_are_not_part_of_it() -> None:
    assert validate(PROVIDER.token(now_s=NOW_S, sub=" alice ")).user == "alice"


@pytest.mark.parametrize("scope", [7, ["read", 7], [None], {"read": True}])
def test_scope_that_is_no_text_is_refused(scope: object) -> None:
    with pytest.raises(InvalidToken, match="scope is neither a text nor a list of texts"):
        validate(PROVIDER.token(now_s=NOW_S, scope=scope))


@pytest.mark.parametrize(("size", "user"), [(64 * 1024, "mallory"), (64 * 1024 + 1, "")])
def test_claimed_user_is_read_from_claims_of_a_bounded_size(size: int, user: str) -> None:
    claims = base64.urlsafe_b64encode(b'{"sub": "mallory"' + b" " * (size * 3 // 4 - 18) + b"}").decode()
    with pytest.raises(InvalidToken) as refused:
        validate(f"e30.{claims.ljust(size, '=')}.AAAA")
    assert refused.value.user == user


def test_reason_has_a_bounded_size() -> None:
    with pytest.raises(InvalidToken) as refused:
        validate(PROVIDER.token(now_s=NOW_S, exp=float("nan"), nbf="x" * 1000))
    assert len(str(refused.value)) <= 200


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
