from __future__ import annotations

from functools import partial

import pytest

from broker.metadata.dynamic_config import DynamicConfig
from broker.security.listener_sasl import ListenerSasl
from broker.security.security_error import SecurityError
from broker.settings import Option, check_settings
from controller.image import MetadataImage

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
JAAS = "listener.name.inside.plain.sasl.jaas.config"


def listener_sasl(**settings: str) -> ListenerSasl:
    named = {"sasl.enabled.mechanisms": "PLAIN"} | settings
    start = check_settings({name: Option(text, "test") for name, text in named.items()})
    return ListenerSasl("INSIDE", DynamicConfig(start), partial(MetadataImage, cluster_id="c"), lambda: "nonce")


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
        ("PLAIN",),
        2000,
    )
    assert sasl.client_mechanism("PLAIN").first() == b"\0node\0own"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, f"{JAAS} is not set; set it to: {MODULE} user_NAME="),
        ({JAAS: "com.example.Login required;"}, "the login module of PLAIN is org.apache.kafka"),
        (
            {"listener.name.inside.sasl.enabled.mechanisms": "GSSAPI"},
            "GSSAPI is not supported; supported: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        ({"listener.name.inside.sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms is empty"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(SecurityError, match=message):
        listener_sasl(**settings).options()


def test_connection_to_other_nodes_needs_a_user_of_its_own() -> None:
    with pytest.raises(SecurityError, match="username is missing, of this node for other nodes"):
        listener_sasl(**{JAAS: f'{MODULE} user_alice="secret";'}).client_mechanism("PLAIN")
    with pytest.raises(SecurityError, match="GSSAPI is not supported between nodes"):
        listener_sasl().client_mechanism("GSSAPI")
