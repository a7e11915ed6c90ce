"""OAUTHBEARER of one listener, from the `sasl.oauthbearer.*` settings: which tokens it accepts, and by which keys.

Kafka: `OAuthBearerValidatorCallbackHandler`. Its default in Apache Kafka accepts tokens without a signature; here a
start without keys is refused (CVE-2026-33557), and there is no setting for such tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker.security.oauthbearer import BearerToken
from broker.security.security_error import SecurityError
from storage.disk import Disk

if TYPE_CHECKING:
    import asyncio

    from broker.metadata.dynamic_config import DynamicConfig
    from broker.security.jwks import JwksTimes

_ISSUER, _AUDIENCE = "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_VALIDATORS = (f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator")

_log = logging.getLogger("broker.security")


class ListenerOAuthBearer:
    """The validation of the tokens of one listener's clients."""

    def __init__(self, listener: str, dynamic_config: DynamicConfig, disk: Disk, now_ms: Callable[[], int]) -> None:
        """Read the settings, but no keys. `SecurityError` if they are invalid, or the package joserfc is missing."""
        value = partial(dynamic_config.of_listener, listener)
        if value("sasl.oauthbearer.jwt.validator.class") not in _VALIDATORS:
            raise SecurityError(f"sasl.oauthbearer.jwt.validator.class: supported is {_VALIDATORS[1]}")
        url = value("sasl.oauthbearer.jwks.endpoint.url")
        if not url:
            raise SecurityError(
                "sasl.oauthbearer.jwks.endpoint.url is not set: OAUTHBEARER needs the keys that verify tokens, "
                "as file:///PATH or https://HOST/..."
            )
        try:
            from broker.security.jwks import Jwks
            from broker.security.jwt_validator import JwtExpectations, JwtValidator
        except ImportError:
            raise SecurityError("OAUTHBEARER needs the package joserfc: pip install 'barnabas[oauthbearer]'") from None
        self.jwks = Jwks(url, _times(value), disk)
        self._now_ms = now_ms
        self._listener = listener
        self._unset = [name for name in (_ISSUER, _AUDIENCE) if not value(name)]
        self._validator = JwtValidator(
            JwtExpectations(
                issuer=value(_ISSUER),
                audiences=value(_AUDIENCE),
                clock_skew_s=value("sasl.oauthbearer.clock.skew.seconds"),
                user_claim=value("sasl.oauthbearer.sub.claim.name"),
                scope_claim=value("sasl.oauthbearer.scope.claim.name"),
            ),
            self.jwks.keys,
            self.jwks.request_refresh,
        )

    async def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the keys, and warn if tokens of others are accepted; `SecurityError` if the source has no keys.

        Settings that an alteration would lead to are only checked, and not started.
        """
        await self.jwks.load(loop)
        if self._unset:
            which = "that are for other services" if _AUDIENCE in self._unset else "of other issuers with the same keys"
            _log.warning(
                "listener %s: tokens %s are accepted. Set %s", self._listener, which, " and ".join(self._unset)
            )

    def validate(self, token: str) -> BearerToken:
        """Return the validated token; `InvalidToken` if it is not accepted."""
        return self._validator.validate(token, self._now_ms())


def _times(value: Callable[[str], int]) -> JwksTimes:
    from broker.security.jwks import JwksTimes

    return JwksTimes(
        value("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000,
        value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms") / 1000,
        value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms") / 1000,
    )
