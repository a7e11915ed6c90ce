"""Which of Java's server callback handlers `sasl.server.callback.handler.class` may name.

A handler checks the credentials of one mechanism. Kafka's own are accepted, because the broker does their work itself.
Any other class is refused: the broker cannot load it, and would accept other clients than the user intends. Kafka:
`SaslChannelBuilder.createServerCallbackHandlers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.security.oauthbearer import OAUTHBEARER
from broker.security.sasl_mechanisms import PLAIN
from broker.security.security_error import SecurityError

if TYPE_CHECKING:
    from broker.metadata.dynamic_config import DynamicConfig

_SETTING = "sasl.server.callback.handler.class"
_PACKAGE = "org.apache.kafka.common.security."
_OF_MECHANISM = {
    PLAIN: (f"{_PACKAGE}plain.internals.PlainServerCallbackHandler",),
    OAUTHBEARER: (
        f"{_PACKAGE}oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{_PACKAGE}oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    ),
}
_ALL = [name for names in _OF_MECHANISM.values() for name in names]


def check_callback_handler(listener: str, mechanism: str, dynamic_config: DynamicConfig) -> None:
    """Raise `SecurityError` if another class than the broker's own check is set for a mechanism of a listener.

    A setting without a mechanism is for all of them, and so may be the handler of one.
    """
    of_mechanism = f"{mechanism.lower()}.{_SETTING}"
    for setting, handler, supported in (
        (of_mechanism, dynamic_config.own_of_listener(listener, of_mechanism), _OF_MECHANISM.get(mechanism, ())),
        (_SETTING, dynamic_config.of_listener(listener, _SETTING), _ALL),
    ):
        if handler is not None and handler not in supported:
            instead = f", or set it to {supported[0]}" if mechanism in _OF_MECHANISM else ""
            raise SecurityError(f"{setting}={handler} is not supported; leave it out{instead}")
