"""Security of the node's connections: what each listener requires of clients, and how this node connects to others.

Everything is read at the start, so that a start with a missing certificate fails. When `ssl.*` settings are altered, or
a key store file has changed, new connections use the new certificates, and established ones stay as they are. If those
are invalid, or name another broker (`broker.security.certificate_names`), the old ones stay in use and an error is
logged. The same goes for altered users and passwords of PLAIN that are invalid.

A node without secure listeners imports nothing of TLS.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.network.listeners import uses_sasl, uses_tls
from broker.security.security_error import SecurityError
from broker.settings import METRICS_PROTOCOL
from controller.configs.ssl_configs import SSL_CONFIGS

if TYPE_CHECKING:
    import asyncio
    import ssl
    from random import Random

    from broker.metadata.dynamic_config import DynamicConfig
    from broker.network.connection_protocol import Dispatch
    from broker.security.authentication_log import AuthenticationLog
    from broker.security.certificate_names import CertificateNames
    from broker.security.jwks import Jwks
    from broker.security.listener_sasl import ListenerSasl
    from broker.security.listener_tls import ListenerTls
    from broker.security.sasl_authenticator import SaslOptions
    from broker.security.sasl_dispatcher import SaslDispatcher
    from broker.security.sasl_mechanisms import ClientMechanism
    from broker.security.ssl_contexts import NodeEnds
    from broker.security.token_credentials import TokenCredentials
    from broker.settings import Settings
    from controller.delegation_tokens import TokenHmacs
    from controller.image import MetadataImage
    from storage.disk import Disk

JAAS = "sasl.jaas.config"
_NONCE_BYTES = 24
_FILES = ("ssl.keystore.location", "ssl.truststore.location")
METRICS = "METRICS"
"""The listener that the address for metrics counts as: its settings begin with `listener.name.metrics.`."""

_MECHANISMS = {
    "broker": "sasl.mechanism.inter.broker.protocol",
    "controller": "sasl.mechanism.controller.protocol",
}

_log = logging.getLogger("broker.security")


class ListenerSecurity:
    """The security of all listeners that this node has or connects to."""

    def __init__(
        self,
        settings: Settings,
        dynamic_config: DynamicConfig,
        disk: Disk,
        image: Callable[[], MetadataImage],
        now_ms: Callable[[], int],
        token_hmacs: TokenHmacs | None,
        random: Random,
    ) -> None:
        """Read nothing before `load`; `image` returns the current metadata, `now_ms` the wall clock.

        Nonces are from `random`. `token_hmacs` has the HMACs of delegation tokens; None if there are no tokens.
        """
        self._random = random
        self._token_hmacs = token_hmacs
        self._token_credentials: TokenCredentials | None = None
        self._now_ms = now_ms
        self._image = image
        self._settings = settings
        self._dynamic_config = dynamic_config
        self._disk = disk
        self._of_clients: dict[str, ListenerTls] = {}
        self._of_nodes: dict[str, ssl.SSLContext] = {}
        self._names: dict[str, CertificateNames | None] = {}
        self._node_ends: dict[str, NodeEnds | None] = {}
        self._files: dict[str, int] = {}
        self._sasl: dict[str, ListenerSasl] = {}
        self._sasl_options: dict[str, SaslOptions] = {}
        self._sasl_dispatchers: dict[str, SaslDispatcher] = {}
        self.authentications: dict[str, AuthenticationLog] = {}  # by listener with SASL
        self.is_serving = False
        """Whether clients know the names in the certificates. Alterations that are stored may change them before."""

    def load(self, node_listeners: Iterable[str]) -> None:
        """Read keys and certificates, as `check`, and use them; warn of what clients may refuse."""
        self.check(node_listeners)
        self._warn_of_names()
        self._warn_of_trust()
        if self.has_tls:
            self._files = self._modified()
            self._dynamic_config.on_change([definition.name for definition in SSL_CONFIGS], self.reload)
        if self._sasl:
            self._dynamic_config.on_change([JAAS], self._reload_logins)

    def check(self, node_listeners: Iterable[str]) -> None:
        """Read keys and certificates; `node_listeners` are those at which this node connects to others.

        `SecurityError` if settings or files are invalid.
        """
        self._check_jaas()
        for endpoint in self._settings.listeners:
            if uses_sasl(endpoint.security_protocol):
                self._sasl_options[endpoint.listener] = self._load_sasl(endpoint.listener)
            if uses_tls(endpoint.security_protocol):
                self._of_clients[endpoint.listener] = self._new_listener_tls(endpoint.listener)
        if self._settings["barnabas.metrics.listener"] and uses_tls(self._settings[METRICS_PROTOCOL]):
            self._of_clients[METRICS] = self._new_listener_tls(METRICS)
        for listener in node_listeners:
            if uses_sasl(self._settings.security_protocol_of(listener)):
                role = "controller" if listener in self._settings.controller_listeners else "broker"
                with _naming(listener):
                    self._check_login(role, listener)
            if uses_tls(self._settings.security_protocol_of(listener)):
                self._of_nodes[listener] = self._new_client_context(listener, self._of_clients.get(listener))
        self._names, self._node_ends = self._certificate_names(), self._ends_of_nodes(self._of_clients)

    def check_replacement(self, new: ListenerSecurity) -> None:
        """Raise `SecurityError` if the certificates of `new`, which is checked, cannot replace those in use.

        Other nodes get theirs before or after this one.
        """
        self._check_names(new._names)
        for listener, ends in self._node_ends.items():
            from broker.security.ssl_contexts import check_beside

            with _naming(listener):
                check_beside(ends, new._node_ends[listener])

    @property
    def token_keys(self) -> list[Jwks]:
        """Return the sources of the keys of tokens; `load` of each is due before the first client connects."""
        return [sasl.oauthbearer.jwks for sasl in self._sasl.values() if sasl.oauthbearer is not None]

    async def load_token_keys(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the keys of tokens; `SecurityError` if a source has none: tokens would not be verified."""
        for listener, sasl in self._sasl.items():
            if sasl.oauthbearer is not None:
                with _naming(listener):
                    await sasl.oauthbearer.start(loop)

    async def refresh_token_keys(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the keys of tokens again where that is due."""
        for keys in self.token_keys:
            if keys.is_due(loop.time()):
                await keys.refresh(loop)

    def tls_of(self, listener: str) -> ListenerTls | None:
        """Return the TLS of a listener of this node; None if it has none."""
        return self._of_clients.get(listener)

    def client_context(self, listener: str) -> ssl.SSLContext | None:
        """Return the context for a connection to that listener of another node; None if it is not encrypted."""
        return self._of_nodes.get(listener)

    def behind_sasl(
        self, listener: str, dispatch: Dispatch, loop: asyncio.AbstractEventLoop
    ) -> tuple[Dispatch, int | None]:
        """Return the dispatcher of a listener, behind SASL if clients have to authenticate, and their first limit.

        The limit is the size of requests before the authentication; None without SASL.
        """
        options = self._sasl_options.get(listener)
        if options is None:
            return dispatch, None
        from broker.monitoring.rate import SampleWindow
        from broker.security.authentication_log import AuthenticationLog
        from broker.security.sasl_dispatcher import SaslDispatcher

        delay_s = self._settings["connection.failed.authentication.delay.ms"] / 1000
        max_bytes: int = self._value(listener, "sasl.server.max.receive.size")
        window = SampleWindow(self._settings["metrics.num.samples"], self._settings["metrics.sample.window.ms"])
        log = self.authentications.setdefault(listener, AuthenticationLog(listener, window))
        authenticating = SaslDispatcher(dispatch, options, loop, failure_delay_s=delay_s, log=log)
        self._sasl_dispatchers[listener] = authenticating
        return authenticating, max_bytes

    def dispatch_with(self, listener: str, dispatch: Dispatch) -> bool:
        """Hand the requests of authenticated clients to another dispatcher; False if the listener has no SASL."""
        found = self._sasl_dispatchers.get(listener)
        if found is not None:
            found.dispatch_with(dispatch)
        return found is not None

    def login(self, role: str, listener: str) -> tuple[str, ClientMechanism] | None:
        """Return the mechanism for a connection to a listener of a `controller` or `broker`; None if it needs none.

        `SecurityError` if the settings are invalid.
        """
        if not uses_sasl(self._settings.security_protocol_of(listener)):
            return None
        mechanism: str = self._value(listener, _MECHANISMS[role])
        return mechanism, self._sasl_of(listener).client_mechanism(mechanism)

    def _check_login(self, role: str, listener: str) -> None:
        """Raise `SecurityError` if this node could not log in at other nodes that have its settings."""
        from controller.scram import SCRAM_BY_NAME

        name = _MECHANISMS[role]
        mechanism: str = self._value(listener, name)
        if role == "controller" and mechanism in SCRAM_BY_NAME and self._has_other_controllers:
            raise SecurityError(
                f"{name}={mechanism}: controllers cannot log in to each other with users of the metadata log, which "
                "they read only then; set it to PLAIN"
            )
        try:
            self.login(role, listener)
        except SecurityError as error:
            raise SecurityError(f"{name}={mechanism}: {error}") from None
        enabled = self._value(listener, "sasl.enabled.mechanisms")
        if listener in self._sasl_options and mechanism not in enabled:
            raise SecurityError(
                f"{name}={mechanism} is not in sasl.enabled.mechanisms={','.join(enabled)}: other nodes would refuse it"
            )

    @property
    def _has_other_controllers(self) -> bool:
        return self._settings.is_controller and len(self._settings.voters) > 1

    def _check_jaas(self) -> None:
        """Raise `SecurityError` if a login module cannot be read, whatever its listener."""
        for name, text in self._dynamic_config.of_listeners(JAAS).items():
            from controller.configs.definition import ConfigError
            from controller.configs.jaas import parse_jaas

            try:
                parse_jaas(name, text)
            except ConfigError as error:
                raise SecurityError(str(error)) from None

    def _reload_logins(self) -> None:
        for sasl in self._sasl.values():
            sasl.reload()

    def _load_sasl(self, listener: str) -> SaslOptions:
        with _naming(listener):
            return self._sasl_of(listener).options()

    def _sasl_of(self, listener: str) -> ListenerSasl:
        from broker.security.listener_sasl import ListenerSasl

        if listener not in self._sasl:
            self._sasl[listener] = ListenerSasl(
                listener, self._dynamic_config, self._image, self._new_nonce, self._disk, self._now_ms, self._tokens()
            )
        return self._sasl[listener]

    def _new_nonce(self) -> str:
        return self._random.randbytes(_NONCE_BYTES).hex()

    def _tokens(self) -> TokenCredentials | None:
        """Return the credentials of delegation tokens, which all listeners share."""
        if self._token_hmacs is not None and self._token_credentials is None:
            from broker.security.token_credentials import TokenCredentials

            self._token_credentials = TokenCredentials(
                self._token_hmacs, lambda: self._image().delegation_tokens, self._now_ms
            )
        return self._token_credentials

    def reload(self) -> None:
        """Read all keys and certificates again, for new connections."""
        self._files = self._modified()  # before they are read: what changes meanwhile is read again
        try:
            of_clients = {listener: self._new_listener_tls(listener) for listener in self._of_clients}
            of_nodes = {listener: self._new_client_context(listener, None) for listener in self._of_nodes}
            names = self._certificate_names()
            if self.is_serving:
                self._check_names(names)
            ends = self._ends_of_nodes(of_clients)
        except SecurityError as error:
            _log.error("New certificates or ssl settings are invalid; the old ones stay in use: %s", error)
            return
        for listener, tls in of_clients.items():
            self._of_clients[listener].replace_context(tls)
        self._of_nodes, self._names, self._node_ends = of_nodes, names, ends
        _log.info("New connections use the certificates that were read now")
        self._warn_of_names()

    async def reload_if_changed(self) -> None:
        """Read the key stores again if one of their files has changed since."""
        if self._modified() != self._files:
            self.reload()

    @property
    def has_sasl(self) -> bool:
        """Return whether clients of a listener authenticate by SASL."""
        return bool(self._sasl_options)

    @property
    def has_tls(self) -> bool:
        """Return whether a listener of this node, or a connection to another one, is encrypted."""
        return bool(self._of_clients or self._of_nodes)

    def _modified(self) -> dict[str, int]:
        """Return the time of the last change of each key store file, in ms since 1970; 0 for a missing one."""
        listeners = (*self._of_clients, *self._of_nodes)
        paths: set[str | None] = {self._value(listener, name) for listener in listeners for name in _FILES}
        modified: dict[str, int] = {}
        for path in filter(None, paths):
            try:
                modified[path] = self._disk.modified_ms(path)
            except OSError:
                modified[path] = 0
        return modified

    def _value(self, listener: str, name: str) -> Any:
        return self._dynamic_config.of_listener(listener, name)

    def _new_listener_tls(self, listener: str) -> ListenerTls:
        from broker.security.listener_tls import ListenerTls
        from broker.security.ssl_contexts import check_not_expired

        value = partial(self._value, listener)
        with _naming(listener):
            tls = ListenerTls(value, self._disk, self._client_auth(listener))
            check_not_expired(value, self._disk, self._now_ms())
            return tls

    def _certificate_names(self) -> dict[str, CertificateNames | None]:
        """Return the names in the certificates of all listeners with TLS."""
        listeners = dict.fromkeys((*self._of_clients, *self._of_nodes))
        if not listeners:
            return {}
        from broker.security.certificate_names import certificate_names

        return {listener: certificate_names(partial(self._value, listener), self._disk) for listener in listeners}

    def _ends_of_nodes(self, of_clients: Mapping[str, ListenerTls]) -> dict[str, NodeEnds | None]:
        """Return the ends of connections between nodes at listeners that this node has, with `of_clients`."""
        found = {}
        for listener in self._of_nodes.keys() & of_clients.keys():
            from broker.security.ssl_contexts import node_ends

            found[listener] = node_ends(of_clients[listener].context, partial(self._value, listener), self._disk)
        return found

    def _check_names(self, new: Mapping[str, CertificateNames | None]) -> None:
        """Raise `SecurityError` if certificates with the names `new` cannot replace those in use."""
        for listener, names in self._names.items():
            from broker.security.certificate_names import check_same_names

            with _naming(listener):
                check_same_names(partial(self._value, listener), names, new[listener])

    def _warn_of_names(self) -> None:
        """Warn of advertised hosts that are not in the listener's certificate, unless nodes do not verify names."""
        for listener, host, _, _ in self._settings.advertised_listeners:
            tls, value = self._of_clients.get(listener), partial(self._value, listener)
            if tls is None or not value("ssl.endpoint.identification.algorithm"):
                continue
            from broker.security.ssl_contexts import is_for_host

            host = host or socket.gethostname()
            if not is_for_host(tls.context, value, self._disk, host):
                _log.warning(
                    "listener %s: the certificate is not valid for the advertised host %s: clients that verify host "
                    "names refuse it. Set advertised.listeners to a name in the certificate",
                    listener,
                    host,
                )

    def _warn_of_trust(self) -> None:
        """Warn of listeners where any public authority can issue the client certificates that are accepted."""
        for listener in self._of_clients:
            value = partial(self._value, listener)
            own = value("ssl.truststore.location") or value("ssl.truststore.certificates")
            if self._client_auth(listener) != "none" and not own:
                _log.warning(
                    "listener %s: ssl.client.auth=%s without trusted certificates: those of all authorities that this "
                    "system trusts are accepted. Set ssl.truststore.type=PEM and ssl.truststore.location",
                    listener,
                    self._client_auth(listener),
                )

    def _client_auth(self, listener: str) -> str:
        """Return whether clients need certificates; with SASL only if that is set for the listener itself (KIP-684)."""
        if uses_sasl(self._settings.security_protocol_of(listener)):
            return self._dynamic_config.own_of_listener(listener, "ssl.client.auth") or "none"
        return str(self._value(listener, "ssl.client.auth"))

    def _new_client_context(self, listener: str, own: ListenerTls | None) -> ssl.SSLContext:
        """Return the context for connections to that listener of other nodes; check that it could connect to `own`."""
        from broker.security.ssl_contexts import check_not_expired, check_own_certificate, client_context

        value = partial(self._value, listener)
        with _naming(listener):
            context = client_context(value, self._disk)
            check_not_expired(value, self._disk, self._now_ms())
            if own is not None:
                check_own_certificate(own.context, value, self._disk)
            return context


@contextmanager
def _naming(listener: str) -> Iterator[None]:
    """Add the listener to the message of a `SecurityError`."""
    try:
        yield
    except SecurityError as error:
        raise SecurityError(f"listener {listener}: {error}") from None
