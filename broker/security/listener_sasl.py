"""SASL of the node's listeners and of its connections to other nodes, from the `sasl.*` settings.

The credentials of a listener are in `listener.name.NAME.MECHANISM.sasl.jaas.config`: `user_NAME` has the password of a
client (PLAIN; those of SCRAM are in the metadata log), `username` and `password` are this node's own, when it connects
to that listener of other nodes. They can be altered while the broker runs. Kafka: `SaslChannelBuilder`, `JaasContext`,
`PlainServerCallbackHandler`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.security.callback_handlers import check_callback_handler
from broker.security.oauthbearer import OAUTHBEARER, OAuthBearerServer
from broker.security.sasl_authenticator import SaslOptions
from broker.security.sasl_mechanisms import PLAIN, ClientMechanism, PlainClient, PlainServer, ServerMechanism
from broker.security.scram import ScramClient, ScramServer
from broker.security.scram_decoys import ScramDecoys
from broker.security.security_error import SecurityError
from broker.security.token_credentials import TokenCredentials
from controller.configs.definition import ConfigError
from controller.configs.jaas import JAAS, LOGIN_MODULES, LoginModule, login_module
from controller.image import MetadataImage
from controller.scram import SCRAM_BY_NAME, ScramCredential, ScramMechanism
from storage.disk import Disk

if TYPE_CHECKING:
    from broker.metadata.dynamic_config import DynamicConfig
    from broker.security.listener_oauthbearer import ListenerOAuthBearer

_REAUTHENTICATION = "connections.max.reauth.ms"
_DEFAULT = "GSSAPI"
_USER = "user_"
_BETWEEN_NODES = tuple(LOGIN_MODULES)
SUPPORTED = (*_BETWEEN_NODES, OAUTHBEARER)

_log = logging.getLogger("broker.security")


class ListenerSasl:
    """SASL of one listener, of this node or of others."""

    def __init__(
        self,
        listener: str,
        dynamic_config: DynamicConfig,
        image: Callable[[], MetadataImage],
        new_nonce: Callable[[], str],
        disk: Disk,
        now_ms: Callable[[], int],
        tokens: TokenCredentials | None,
    ) -> None:
        """Read nothing; settings are read when they are needed, because they change.

        `image` returns the current metadata; `new_nonce` a random nonce; `now_ms` the wall clock. `tokens` has the
        credentials of delegation tokens, if there are any.
        """
        self._tokens = tokens
        self._disk = disk
        self._now_ms = now_ms
        self.oauthbearer: ListenerOAuthBearer | None = None
        """The validation of tokens, if OAUTHBEARER was enabled at the start."""
        self._image = image
        self._new_nonce = new_nonce
        self._listener = listener
        self._dynamic_config = dynamic_config
        self._decoys: dict[int, ScramDecoys] = {}
        self._spare_secret = b""
        self._parsed: dict[str, tuple[str, LoginModule]] = {}

    def options(self) -> SaslOptions:
        """Return what clients need; `SecurityError` if the settings are invalid."""
        mechanisms = self._enabled()
        if not mechanisms:
            raise SecurityError("sasl.enabled.mechanisms is empty")
        for mechanism in mechanisms:
            if mechanism not in SUPPORTED:
                raise SecurityError(f"sasl.enabled.mechanisms: {_not_supported(mechanism, SUPPORTED)}")
            check_callback_handler(self._listener, mechanism, self._dynamic_config)
            if mechanism == PLAIN:
                self._login_module(mechanism, 'user_NAME="PASSWORD"')
            if mechanism == OAUTHBEARER:
                from broker.security.listener_oauthbearer import ListenerOAuthBearer

                self.oauthbearer = ListenerOAuthBearer(self._listener, self._dynamic_config, self._disk, self._now_ms)
        return SaslOptions(self._mechanisms, self._server_mechanism, self._max_reauthentication_ms)

    def client_mechanism(self, mechanism: str) -> ClientMechanism:
        """Return the client's side for a connection to that listener; `SecurityError` if the settings are invalid."""
        if mechanism not in _BETWEEN_NODES:
            raise SecurityError(_not_supported(mechanism, _BETWEEN_NODES, " between nodes"))
        options = self._login_module(mechanism, 'username="NAME" password="PASSWORD"').options
        for name in ("username", "password"):
            if not options.get(name):
                raise SecurityError(f"{self._setting(mechanism)}: {name} is missing, of this node for other nodes")
        if mechanism == PLAIN:
            return PlainClient(options["username"], options["password"])
        return ScramClient(SCRAM_BY_NAME[mechanism], options["username"], options["password"], self._new_nonce())

    def reload(self) -> None:
        """Read the login modules in use again, after an alteration; log those that cannot be used."""
        for mechanism in tuple(self._parsed):
            try:
                self._login_module(mechanism, "...")
            except SecurityError as error:
                _log.error("A login module was removed: %s", error)

    def _mechanisms(self) -> list[str]:
        """Return the enabled mechanisms that can be used: an alteration may have added others."""
        usable = SUPPORTED if self.oauthbearer is not None else _BETWEEN_NODES
        return [mechanism for mechanism in self._enabled() if mechanism in usable]

    def _enabled(self) -> tuple[str, ...]:
        enabled: tuple[str, ...] = self._dynamic_config.of_listener(self._listener, "sasl.enabled.mechanisms")
        return enabled

    def _server_mechanism(self, mechanism: str) -> ServerMechanism:
        if mechanism == PLAIN:
            return PlainServer(self._users(mechanism))
        if mechanism == OAUTHBEARER and self.oauthbearer is not None:
            return OAuthBearerServer(self.oauthbearer.validate)
        scram = SCRAM_BY_NAME[mechanism]
        credentials = self._image().scram_credentials
        return ScramServer(
            scram,
            lambda user: credentials.get((user, scram.number)),
            self._new_nonce(),
            self._decoys_of(scram, credentials).of,
            self._tokens,
        )

    def _decoys_of(
        self, mechanism: ScramMechanism, credentials: Mapping[tuple[str, int], ScramCredential]
    ) -> ScramDecoys:
        """Return the decoys of a mechanism, new ones if credentials have changed; the mapping itself never changes."""
        found = self._decoys.get(mechanism.number)
        if found is None or found.credentials is not credentials:
            if not self._spare_secret:
                self._spare_secret = self._new_nonce().encode()
            found = self._decoys[mechanism.number] = ScramDecoys(mechanism, credentials, self._spare_secret)
        return found

    def _users(self, mechanism: str) -> Mapping[str, str]:
        options = self._login_module(mechanism, 'user_NAME="PASSWORD"').options
        return {name.removeprefix(_USER): value for name, value in options.items() if name.startswith(_USER)}

    def _max_reauthentication_ms(self, mechanism: str) -> int:
        own = partial(self._dynamic_config.own_of_listener, self._listener)
        found = own(f"{mechanism.lower()}.{_REAUTHENTICATION}")
        value: int = self._dynamic_config.of_listener(self._listener, _REAUTHENTICATION) if found is None else found
        return value

    def _setting(self, mechanism: str) -> str:
        return f"listener.name.{self._listener.lower()}.{mechanism.lower()}.{JAAS}"

    def _login_module(self, mechanism: str, needed: str) -> LoginModule:
        """Return the login module of a mechanism; `SecurityError` if there is none, or another than the mechanism's.

        `needed` has the options that it should have. If an alteration that no controller has checked makes the setting
        invalid, the last valid login module stays in use.
        """
        setting = self._setting(mechanism)
        text = self._dynamic_config.own_of_listener(self._listener, f"{mechanism.lower()}.{JAAS}")
        if text is None:
            self._parsed.pop(mechanism, None)
            instead = f"{LOGIN_MODULES[mechanism]} required {needed};"
            raise SecurityError(f"{setting} is not set (JAAS files are not read); set it to: {instead}")
        before = self._parsed.get(mechanism)
        if before is not None and before[0] == text:
            return before[1]
        try:
            module = login_module(setting, mechanism, text)
        except ConfigError as error:
            if before is None:
                raise SecurityError(str(error)) from None
            _log.error("A new login module is invalid; the old one stays in use: %s", error)
            module = before[1]
        self._parsed[mechanism] = text, module
        return module


def _not_supported(mechanism: str, supported: Sequence[str], where: str = "") -> str:
    what = f"{mechanism}, the default," if mechanism == _DEFAULT else mechanism
    return f"{what} is not supported{where}; supported: {', '.join(supported)}"
