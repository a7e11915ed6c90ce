from __future__ import annotations

import pytest

from broker.metadata.dynamic_config import DynamicConfig
from broker.security.callback_handlers import check_callback_handler
from broker.security.security_error import SecurityError
from broker.settings import Option, check_settings

SETTING = "sasl.server.callback.handler.class"
PACKAGE = "org.apache.kafka.common.security."
OF_PLAIN = f"{PACKAGE}plain.internals.PlainServerCallbackHandler"
OF_OAUTHBEARER = f"{PACKAGE}oauthbearer.OAuthBearerValidatorCallbackHandler"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")


def check(mechanism: str, **settings: str) -> None:
    """Check the handler of a mechanism of the listener INSIDE."""
    start = check_settings({name: Option(text, "test") for name, text in settings.items()})
    check_callback_handler("INSIDE", mechanism, DynamicConfig(start))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {SETTING: OF_PLAIN},
        {f"listener.name.inside.{SETTING}": OF_OAUTHBEARER},
        {
            f"listener.name.inside.plain.{SETTING}": OF_PLAIN,
            f"listener.name.inside.oauthbearer.{SETTING}": OF_OAUTHBEARER,
        },
        {f"listener.name.outside.{SETTING}": "com.example.Ldap"},
    ],
)
def test_handlers_whose_work_the_broker_does_are_accepted(mechanism: str, settings: dict[str, str]) -> None:
    check(mechanism, **settings)


@pytest.mark.parametrize(
    ("mechanism", "instead"),
    [
        ("PLAIN", f", or set it to {OF_PLAIN}"),
        ("SCRAM-SHA-256", ""),
        ("OAUTHBEARER", f", or set it to {OF_OAUTHBEARER}"),
    ],
)
def test_other_classes_are_refused_with_the_setting(mechanism: str, instead: str) -> None:
    of_mechanism = f"{mechanism.lower()}.{SETTING}"
    other = OF_OAUTHBEARER if mechanism == "PLAIN" else OF_PLAIN
    for written, named, handler in (
        (f"listener.name.inside.{of_mechanism}", of_mechanism, "com.example.Ldap"),
        (f"listener.name.inside.{of_mechanism}", of_mechanism, other),
    ):
        with pytest.raises(SecurityError) as refused:
            check(mechanism, **{written: handler})
        assert str(refused.value) == f"{named}={handler} is not supported; leave it out{instead}"
    for written in (f"listener.name.inside.{SETTING}", SETTING):
        with pytest.raises(SecurityError, match=f"^{SETTING}=com.example.Ldap is not supported; leave it out"):
            check(mechanism, **{written: "com.example.Ldap"})
