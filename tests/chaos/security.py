"""A cluster whose listeners are all SASL_SSL: the settings of its brokers and clients, and its observer's connection.

Brokers and clients authenticate with SCRAM at brokers, and brokers with PLAIN at controllers, which need the metadata
log for SCRAM. All of them verify the certificates.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

from broker.security.scram import ScramClient
from controller.scram import SCRAM_BY_NAME
from protocol.api import ApiKey
from tests.certificates import Certificates
from tests.raw_client import RawClient

MECHANISM = "SCRAM-SHA-512"
USERS = {"broker": "broker-secret", "client": "client-secret"}
_MODULES = "org.apache.kafka.common.security"
_PLAIN = f"{_MODULES}.plain.PlainLoginModule required"
_SCRAM = f"{_MODULES}.scram.ScramLoginModule required"


class Security:
    """The certificates in a folder, and what each side does with them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._certificates = Certificates(folder)
        self._context = ssl.create_default_context(cafile=str(self._certificates.trusted))

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings of the brokers."""
        own = f'username="broker" password="{USERS["broker"]}"'
        return {
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,INTERNAL:SASL_SSL,CONTROLLER:SASL_SSL",
            "listener.name.clients.sasl.enabled.mechanisms": MECHANISM,
            "listener.name.internal.sasl.enabled.mechanisms": MECHANISM,
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{_SCRAM};",
            "listener.name.internal.scram-sha-512.sasl.jaas.config": f"{_SCRAM} {own};",
            "listener.name.controller.plain.sasl.jaas.config": f'{_PLAIN} {own} user_broker="{USERS["broker"]}";',
            **self._certificates.broker_settings(),
        }

    @property
    def options(self) -> Sequence[str]:
        """The options of `barnabas serve` that create the users in a new cluster."""
        return [f"--add-scram={MECHANISM}=[name={name},password={password}]" for name, password in USERS.items()]

    @property
    def of_clients(self) -> Mapping[str, str]:
        """The settings of a librdkafka client."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": "client",
            "sasl.password": USERS["client"],
            "ssl.ca.location": str(self._certificates.trusted),
        }

    def connect(self, address: str, timeout_s: float) -> RawClient:
        """Return an authenticated connection; OSError if the broker does not answer."""
        client = _TlsClient(address, timeout_s, self._context)
        try:
            client.authenticate()
        except BaseException:
            client.close()
            raise
        return client


class _TlsClient(RawClient):
    """A client that encrypts and authenticates."""

    def __init__(self, bootstrap: str, timeout_s: float, context: ssl.SSLContext) -> None:
        super().__init__(bootstrap, timeout_s)
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname="127.0.0.1")
        except BaseException:
            self.close()
            raise
        self._stream.close()
        self._stream = self._socket.makefile("rb")

    def authenticate(self) -> None:
        scram = ScramClient(SCRAM_BY_NAME[MECHANISM], "client", USERS["client"], os.urandom(12).hex())
        self.call(ApiKey.SASL_HANDSHAKE, 1, mechanism=MECHANISM)
        token: bytes | None = scram.first()
        while token is not None:
            answer = self.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
            if answer.error_code:
                raise ConnectionError(f"the observer is not authenticated: {answer.error_message}")
            token = scram.respond(bytes(answer.auth_bytes))
