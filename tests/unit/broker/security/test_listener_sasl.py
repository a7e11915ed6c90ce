from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from broker.metadata.dynamic_config import DynamicConfig
from broker.security.listener_sasl import ListenerSasl
from broker.security.sasl_mechanisms import AuthenticationError, ServerMechanism
from broker.security.scram import ScramServer
from broker.security.security_error import SecurityError
from broker.security.token_credentials import TokenCredentials
from broker.settings import Option, check_settings
from controller.image import MetadataImage, ResourceType
from controller.image_builder import apply_records
from controller.scram import ScramCredential
from protocol.records.metadata import ConfigRecord
from storage.disk import OsDisk
from tests.tokens import AUDIENCE, ISSUER, IdentityProvider
from tests.typed import present

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
NOW_MS = 1_700_000_000_000
JAAS = "listener.name.inside.plain.sasl.jaas.config"


def listener_sasl(**settings: str) -> ListenerSasl:
    return listener_sasl_with(partial(MetadataImage, cluster_id="c"), settings)


def listener_sasl_with(
    image: Callable[[], MetadataImage], settings: dict[str, str], tokens: TokenCredentials | None = None
) -> ListenerSasl:
    named = {"sasl.enabled.mechanisms": "PLAIN"} | settings
    start = check_settings({name: Option(text, "test") for name, text in named.items()})
    return ListenerSasl(
        "INSIDE",
        DynamicConfig(start),
        image,
        lambda: "nonce",
        OsDisk(),
        lambda: NOW_MS,
        tokens,
    )


def test_users_and_lifetimes_are_those_of_the_listener() -> None:
    sasl = listener_sasl(
        **{JAAS: f'{MODULE} username="node" password="own" user_alice="secret";'},
        **{"connections.max.reauth.ms": "1000", "listener.name.inside.plain.connections.max.reauth.ms": "2000"},
    )
    options = sasl.options()
    mechanism = options.new_mechanism("PLAIN")
    mechanism.respond(b"\0alice\0secret")
    assert (mechanism.user, options.mechanisms(), options.max_reauthentication_ms("PLAIN")) == (
        "alice",
        ["PLAIN"],
        2000,
    )
    assert sasl.client_mechanism("PLAIN").first() == b"\0node\0own"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, rf"{JAAS} is not set \(JAAS files are not read\); set it to: {MODULE} user_NAME="),
        ({JAAS: "com.example.Login required;"}, "the login module of PLAIN is org.apache.kafka"),
        (
            {"listener.name.inside.sasl.enabled.mechanisms": "GSSAPI"},
            "GSSAPI, the default, is not supported; supported: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        ({"listener.name.inside.sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms is empty"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(SecurityError, match=message):
        listener_sasl(**settings).options()


def test_connection_to_other_nodes_needs_a_user_of_its_own() -> None:
    with pytest.raises(SecurityError, match=r'ScramLoginModule required username="NAME" password="PASSWORD";$'):
        listener_sasl().client_mechanism("SCRAM-SHA-256")
    with pytest.raises(SecurityError, match="username is missing, of this node for other nodes"):
        listener_sasl(**{JAAS: f'{MODULE} user_alice="secret";'}).client_mechanism("PLAIN")
    with pytest.raises(SecurityError, match="GSSAPI, the default, is not supported between nodes"):
        listener_sasl().client_mechanism("GSSAPI")


def test_challenge_of_an_unknown_user_follows_the_stored_credentials_and_not_the_cluster_id() -> None:
    def challenge(cluster_id: str, iterations: int) -> bytes:
        credentials = {("alice", 1): ScramCredential(b"salt", bytes(32), bytes(32), iterations)}
        image = MetadataImage(cluster_id=cluster_id, scram_credentials=credentials)
        sasl = listener_sasl_with(lambda: image, {"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
        return sasl.options().new_mechanism("SCRAM-SHA-256").respond(b"n,,n=nobody,r=client")

    assert challenge("one", 8192) == challenge("another", 8192)
    assert challenge("one", 8192).endswith(b"==,i=8192")  # 4 bytes of salt


OAUTH_HANDLER = "listener.name.inside.oauthbearer.sasl.server.callback.handler.class"
OAUTH = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://idp.example.com/keys",
}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"sasl.oauthbearer.jwks.endpoint.url": ""},
            "sasl.oauthbearer.jwks.endpoint.url is not set: OAUTHBEARER needs",
        ),
        (
            {"sasl.oauthbearer.jwks.endpoint.url": "http://idp.example.com/keys"},
            "plain HTTP would let the network replace the keys",
        ),
        (
            {"sasl.oauthbearer.jwks.endpoint.url": "file://keys.json"},
            r"write file:///PATH or https://HOST/\.\.\.; keys.json is taken as the name of a host$",
        ),
        *(
            ({"sasl.oauthbearer.jwks.endpoint.url": url}, r"write file:///PATH or https://HOST/\.\.\.$")
            for url in ("ftp://idp.example.com/keys", "/etc/keys.json", "idp.example.com/keys")
        ),
        (
            {
                OAUTH_HANDLER: "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
                "OAuthBearerUnsecuredValidatorCallbackHandler"
            },
            "OAuthBearerUnsecuredValidatorCallbackHandler is not supported",
        ),
        ({"sasl.oauthbearer.jwt.validator.class": "com.example.Any"}, "supported is .*BrokerJwtValidator"),
    ],
)
def test_tokens_without_keys_or_with_another_validation_are_refused_at_the_start(
    settings: dict[str, str], message: str
) -> None:
    """CVE-2026-33557: Apache Kafka's default accepts tokens without a signature."""
    with pytest.raises(SecurityError, match=message):
        listener_sasl(**OAUTH | settings).options()


def test_mechanism_that_an_alteration_adds_without_its_keys_is_not_offered() -> None:
    sasl = listener_sasl(**OAUTH)
    sasl.options()
    assert sasl._mechanisms() == ["OAUTHBEARER"]
    other = listener_sasl(**{"sasl.enabled.mechanisms": "GSSAPI,OAUTHBEARER,SCRAM-SHA-256"})
    assert other._mechanisms() == ["SCRAM-SHA-256"]


def altered(config: DynamicConfig, image: MetadataImage, name: str, value: str) -> MetadataImage:
    """Alter a setting of the broker; return the metadata after it."""
    record = ConfigRecord(resource_type=ResourceType.BROKER, resource_name="1", name=name, value=value)
    after = apply_records(image, [record], offset=image.offset + 1, epoch=1)
    config.apply(image, after, [record])
    return after


def test_altered_passwords_apply_to_the_next_client() -> None:
    start = check_settings(
        {
            name: Option(text, "test")
            for name, text in {"sasl.enabled.mechanisms": "PLAIN", JAAS: f'{MODULE} user_alice="old";'}.items()
        }
    )
    config, image = DynamicConfig(start), MetadataImage(cluster_id="c")
    sasl = ListenerSasl("INSIDE", config, lambda: image, lambda: "nonce", OsDisk(), lambda: NOW_MS, None)
    options = sasl.options()
    options.new_mechanism("PLAIN").respond(b"\0alice\0old")
    image = altered(config, image, JAAS, f'{MODULE} user_alice="new";')
    options.new_mechanism("PLAIN").respond(b"\0alice\0new")
    with pytest.raises(AuthenticationError):
        options.new_mechanism("PLAIN").respond(b"\0alice\0old")


def test_lifetime_of_sessions_without_one_of_the_mechanism_is_that_of_the_listener() -> None:
    sasl = listener_sasl(**{JAAS: f"{MODULE};", "connections.max.reauth.ms": "1000"})
    assert sasl.options().max_reauthentication_ms("PLAIN") == 1000


def test_challenges_of_unknown_users_follow_altered_credentials_and_else_stay_the_same() -> None:
    def image_with(**iterations: int) -> MetadataImage:
        users = {(name, 1): ScramCredential(b"salt", bytes(32), bytes(32), count) for name, count in iterations.items()}
        return MetadataImage(cluster_id="c", scram_credentials=users)

    def challenge(server: ServerMechanism) -> bytes:
        return server.respond(b"n,,n=nobody,r=client").partition(b",")[2]

    def server_of(nonces: Iterator[str]) -> Callable[[], ServerMechanism]:
        start = check_settings({"sasl.enabled.mechanisms": Option("SCRAM-SHA-256", "test")})
        sasl = ListenerSasl(
            "INSIDE", DynamicConfig(start), lambda: image, lambda: next(nonces), OsDisk(), lambda: NOW_MS, None
        )
        return partial(sasl.options().new_mechanism, "SCRAM-SHA-256")

    image = image_with()
    one, other = (server_of(map(f"{name}{{}}".format, count())) for name in ("one", "other"))
    first = challenge(one())
    image = image_with()
    assert challenge(one()) == first, "the spare secret is made once"
    assert challenge(other()) != first, "and is random"
    image = image_with(alice=16384)
    assert challenge(one()).endswith(b",i=16384")


def test_tokens_are_validated_by_the_settings_and_keys_of_the_listener(tmp_path: Path) -> None:
    provider = IdentityProvider()
    sasl = listener_sasl(
        **{
            "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-256",
            "sasl.oauthbearer.jwks.endpoint.url": provider.write(tmp_path / "keys.json"),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
            "sasl.oauthbearer.sub.claim.name": "client_id",
            "sasl.oauthbearer.scope.claim.name": "scp",
            "sasl.oauthbearer.clock.skew.seconds": "7",
        }
    )
    options = sasl.options()

    def respond(**claims: object) -> tuple[bytes, str | None, int | None]:
        token = provider.token(now_s=NOW_MS // 1000, **{"client_id": "app"} | claims)
        server = options.new_mechanism("OAUTHBEARER")
        return (
            server.respond(f"n,,\x01auth=Bearer {token}\x01\x01".encode()),
            server.user,
            server.credential_lifetime_ms,
        )

    refused = (b'{"status":"invalid_token"}', None, None)
    assert respond() == refused, "no token is accepted before the keys are read"

    async def start() -> None:
        await present(sasl.oauthbearer).start(asyncio.get_running_loop())

    asyncio.run(start())
    assert respond() == (b"", "app", 3_600_000)
    assert respond(exp=NOW_MS // 1000 - 6) == (b"", "app", 0)
    for claims in ({"iss": "x"}, {"aud": "x"}, {"client_id": None}, {"scp": 7}, {"exp": NOW_MS // 1000 - 7}):
        assert respond(**claims) == refused
    assert isinstance(options.new_mechanism("SCRAM-SHA-256"), ScramServer)


def test_keys_of_tokens_are_read_again_by_the_times_of_the_settings() -> None:
    sasl = listener_sasl(
        **OAUTH,
        **{
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "60500",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "250",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "4500",
        },
    )
    sasl.options()
    assert present(sasl.oauthbearer).jwks._times == (60.5, 0.25, 4.5)


def test_oauthbearer_without_its_package_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "broker.security.jwt_validator", None)
    with pytest.raises(SecurityError, match=r"pip install 'barnabas\[oauthbearer\]'"):
        listener_sasl(**OAUTH).options()
