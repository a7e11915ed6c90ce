from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from broker.metadata.dynamic_config import DynamicConfig
from broker.security.listener_sasl import ListenerSasl
from broker.security.security_error import SecurityError
from broker.security.token_credentials import TokenCredentials
from broker.settings import Option, check_settings
from controller.image import MetadataImage
from controller.scram import ScramCredential
from storage.disk import OsDisk

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
            "GSSAPI is not supported; supported: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
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
    with pytest.raises(SecurityError, match="GSSAPI is not supported between nodes"):
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
