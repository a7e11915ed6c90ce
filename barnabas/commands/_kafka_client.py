"""kafka-python's client with connections that are refused once: a failed login or TLS handshake is an error at once.

kafka-python 3.0.12 retries these until its timeout, and then raises KafkaTimeoutError without the reason. Only what has
no certain reason, a connection closed without a response, is tried twice: the broker may be starting or stopping.

It can also log in with a delegation token, for which kafka-python has no setting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient
from kafka.net.selector import NetworkSelector
from kafka.protocol.sasl import SaslHandshakeRequest

from barnabas.commands._output import plain
from barnabas.commands._refusals import (
    CLOSED,
    CLOSED_IN_HANDSHAKE,
    NEEDS_LOGIN,
    NO_LOGIN,
    closed_after_tls,
    closed_in_login,
    refused_beginning,
    refused_login,
    refused_mechanism,
    refused_tls,
    with_sasl,
    without_sasl,
)

_CLOSED_TWICE = 2
_DELEGATED = "barnabas_delegated"
"""A setting of connections, which the SASL mechanism gets: whether a delegation token logs in."""


class RefusedError(SaslAuthenticationFailedError):  # type: ignore[misc]
    """A broker has refused the connection. kafka-python keeps errors of this base class, and does not connect again."""

    def __init__(self, node: Any, why: str) -> None:
        """Create the error of a connection to the broker `node`."""
        host = f"[{node.host}]" if ":" in node.host else node.host
        super().__init__(f"cannot connect to {host}:{node.port}: {why}")
        self.why = why


class ClosedError(RefusedError):
    """A broker has closed the connection, twice, without naming a reason."""


class OneAttemptClient(KafkaNetClient):  # type: ignore[misc]
    """The setting `kafka_client` of kafka-python's clients."""

    def __init__(self, *, by_token: bool = False, **settings: Any) -> None:
        """Create the client with the settings that kafka-python passes; `by_token` if the login is that of a token."""
        net = NetworkSelector(**settings)
        super().__init__(net=net, manager=_Manager(by_token, net, **settings))


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Keeps the reason of each refused connection: `get_connection` then raises it."""

    def __init__(self, by_token: bool, net: Any, **settings: Any) -> None:
        super().__init__(net, **settings)
        self._by_token = by_token
        self._closed_by: Counter[int | str] = Counter()

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        try:
            transport = await super()._build_transport(node, timeout_at=timeout_at)
        except KafkaConnectionError as error:
            failure = error.__context__
            if failure is None or not self.ssl_enabled or "Handshake failed" not in str(error):
                raise
            if why := refused_tls(self.config, failure):
                raise RefusedError(node, why) from error
            if closed := self.closed_by(node, CLOSED_IN_HANDSHAKE):
                raise closed from error
            raise
        transport._sock_recv = _DataFirst(transport._sock_recv).receive
        return transport

    async def _connect(self, node: Any, conn: Any, *others: Any, **named: Any) -> None:
        conn.__class__ = _Connection  # kafka-python has no setting for it
        conn.manager, conn.node = self, node
        conn.config[_DELEGATED] = self._by_token
        await super()._connect(node, conn, *others, **named)

    def closed_by(self, node: Any, why: str) -> ClosedError | None:
        """Count a connection that a bootstrap address has closed without a response; return the error for the second.

        A broker that has answered before is connected to again, however often.
        """
        self._closed_by[node.node_id] += 1
        is_second = self._closed_by[node.node_id] >= _CLOSED_TWICE and self.cluster.is_bootstrap(node.node_id)
        return ClosedError(node, why) if is_second else None

    def keep(self, node: Any, error: RefusedError) -> None:
        """Keep an error of an established connection, so that there is no other attempt."""
        self._auth_failures[node.node_id] = error


class _DataFirst:
    """Returns the error of a read after its data: kafka-python drops the response that comes with the end of a stream.

    That would be the response that names why a login was refused.
    """

    def __init__(self, receive: Callable[[], tuple[bytes, Exception | None]]) -> None:
        self._receive = receive
        self._error: Exception | None = None

    def receive(self) -> tuple[bytes, Exception | None]:
        """Return what was read, or the error."""
        if self._error is not None:
            return b"", self._error
        data, self._error = self._receive()
        return data, None if data else self._error


class _Connection(KafkaConnection):  # type: ignore[misc]
    """Names why the connection was refused."""

    manager: _Manager
    node: Any
    _mechanisms: Sequence[str] = ()
    _beginning = b""
    _answered = False

    async def initialize(self, timeout_at: float | None = None) -> None:
        """Request the broker's versions, and log in. Raise `RefusedError` if it refuses."""
        await super().initialize(timeout_at=timeout_at)
        if not self.init_future.failed():
            return
        error = self.init_future.exception
        why = self._refusal(error)
        if why is not None:
            raise RefusedError(self.node, why) from error
        if isinstance(error, KafkaTimeoutError):
            raise error
        if self._mechanisms:
            why = closed_in_login(self._settings)
        elif self._beginning:
            raise error
        else:
            why = closed_after_tls(self._settings) if self._tls else CLOSED
        raise self.manager.closed_by(self.node, why) or error

    @property
    def _settings(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self.manager.config
        return settings

    @property
    def _tls(self) -> bool:
        return bool(self.manager.ssl_enabled)

    def _refusal(self, error: Exception) -> str | None:
        """Return why the broker has refused the connection; None for another error."""
        protocol = self._settings["security_protocol"]
        if isinstance(error, UnsupportedSaslMechanismError):
            return refused_mechanism(self._settings, self._mechanisms)
        if isinstance(error, IllegalSaslStateError):
            return NO_LOGIN.format(without_sasl(protocol))
        if isinstance(error, SaslAuthenticationFailedError):
            return refused_login(self._settings, plain(str(error)))
        if not self._tls:
            return refused_beginning(self._beginning)
        cause = error.args[0] if isinstance(error, KafkaConnectionError) and error.args else error
        return refused_tls(self._settings, cause) if isinstance(cause, Exception) else None

    def data_received(self, data: bytes) -> None:
        """Keep the first bytes, which are not Kafka's if the port has another protocol."""
        self._beginning = self._beginning or data[:16]
        self._answered = self._answered or self.connected
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Keep the reason if the broker has closed the connection at the first request after its versions."""
        closed_at_first = self.connected and not self._answered and exc is not None and bool(self.in_flight_requests)
        super().connection_lost(exc)
        if closed_at_first and not self.sasl_enabled:
            why = NEEDS_LOGIN.format(with_sasl(self._settings["security_protocol"]))
            if closed := self.manager.closed_by(self.node, why):
                self.manager.keep(self.node, closed)

    def _send_request(self, request: Any, **how: Any) -> Any:
        future = super()._send_request(request, **how)
        if isinstance(request, SaslHandshakeRequest):
            future.add_callback(self._keep_mechanisms)
        return future

    def _keep_mechanisms(self, response: Any) -> None:
        self._mechanisms = response.mechanisms


class _Scram(SaslMechanismScram):  # type: ignore[misc]
    """SCRAM that can log in with a delegation token."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        if config.get(_DELEGATED):
            self._scram_client = _TokenScramClient(
                config["sasl_plain_username"], config["sasl_plain_password"], config["sasl_mechanism"]
            )


class _TokenScramClient(ScramClient):  # type: ignore[misc]
    """SCRAM with the extension that tells the broker to look for a token, and not for a user."""

    def first_message(self) -> bytes:
        """Return the client's first message."""
        bare = b"n=%b,r=%b,tokenauth=true" % (self.user, self.nonce)
        self.auth_message += bare
        return b"n,," + bare


for _mechanism in ScramClient.MECHANISMS:
    register_sasl_mechanism(_mechanism, _Scram, overwrite=True)
