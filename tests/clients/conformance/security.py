"""A cluster whose listeners are all SASL_SSL: the settings of its brokers, and those of each suite's clients.

Clients authenticate with SCRAM or PLAIN, brokers with SCRAM at brokers and with PLAIN at controllers, which need the
metadata log for SCRAM. Certificates are verified by all of them. Sessions are short, so that the clients that can
authenticate again do so beneath every test (KIP-368). ACLs decide: what has none is allowed, as the suites expect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate, load_pem_x509_certificates

from tests.certificates import Certificates

SESSION_MS = 8000  # a test of librdkafka wants 5 s without traffic
KEY_PASSWORD = "key-secret"  # of a certificate that lives as long as its test
_USERS = {"broker": "broker-secret", "client": "client-secret"}
_SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS = ",".join(f"{name}:{name}" for name in ("SASL_SSL", "SSL", "SASL_PLAINTEXT"))
_MODULES = "org.apache.kafka.common.security"
_PLAIN = f"{_MODULES}.plain.PlainLoginModule required"
_SCRAM = f"{_MODULES}.scram.ScramLoginModule required"
_BROKER = f'username="broker" password="{_USERS["broker"]}"'
_CLIENT = f'username="client" password="{_USERS["client"]}"'


class Security:
    """Certificates and users of a cluster, and the settings of both sides.

    With `protocol` SSL, clients have certificates instead, and a second listener has SASL_PLAINTEXT with SCRAM: for
    franz-go's suite, which does not know both at once.
    """

    user = "client"
    password = _USERS["client"]

    def __init__(self, folder: Path, protocol: str = "SASL_SSL") -> None:
        folder.mkdir(parents=True)
        self.protocol = protocol
        self._folder = folder
        self._certificates = Certificates(folder)
        self.trusted = self._certificates.trusted

    @property
    def broker_settings(self) -> Mapping[str, object]:
        """The settings of the brokers, with `listeners` for `ext-cluster`, which adds their addresses."""
        users = " ".join(f'user_{name}="{password}"' for name, password in _USERS.items())
        jaas = {
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{_PLAIN} {_BROKER} {users};",
            "listener.name.controller.plain.sasl.jaas.config": f"{_PLAIN} {_BROKER} {users};",
            **{
                f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config": f"{_SCRAM} {_BROKER};"
                for listener in ("sasl_ssl", "sasl_plaintext")
                for mechanism in _SCRAM_MECHANISMS
            },
        }
        return {
            "listeners": "SASL_SSL://" if self.protocol == "SASL_SSL" else "SSL://,SASL_PLAINTEXT://,SASL_SSL://",
            "listener.security.protocol.map": f"CONTROLLER:SASL_SSL,{_PROTOCOLS}",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *_SCRAM_MECHANISMS)),
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": ",".join(_SCRAM_MECHANISMS),
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.ssl.ssl.client.auth": "required",
            "connections.max.reauth.ms": SESSION_MS,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:broker",
            **jaas,
            **self._certificates.broker_settings(),
        }

    @property
    def broker_options(self) -> Sequence[str]:
        """The options of `barnabas serve` that create the users in a new cluster."""
        return [
            f"--add-scram={mechanism}=[name={name},password={password}]"
            for mechanism in _SCRAM_MECHANISMS
            for name, password in _USERS.items()
        ]

    @cached_property
    def java(self) -> Path:
        """The file of settings for Java clients, the `--command-config` of tools."""
        path = self._folder / "client.properties"
        path.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={_SCRAM} {_CLIENT};\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.trusted}\n"
        )
        return path

    @property
    def librdkafka(self) -> Mapping[str, str]:
        """The settings of librdkafka's clients, who have a certificate too, which SASL_SSL does not ask for."""
        return {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": self.user,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.trusted),
            "ssl.key.location": str(self.key_files["SSL_priv_pem"]),
            "ssl.key.password": KEY_PASSWORD,
            "ssl.certificate.location": str(self.key_files["SSL_pub_pem"]),
        }

    @cached_property
    def key_files(self) -> Mapping[str, Path]:
        """A client's key and certificates in every encoding, by the variables that librdkafka's tests read."""
        issued = self._certificates.issue("client", "client@example.com", common_name="client").read_bytes()
        key = load_pem_private_key(issued, None)
        assert isinstance(key, EllipticCurvePrivateKey)
        (certificate, *_) = load_pem_x509_certificates(issued)
        authority = load_pem_x509_certificate(self.trusted.read_bytes())
        encrypted = BestAvailableEncryption(KEY_PASSWORD.encode())
        contents = {
            "SSL_priv_pem": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted),
            "SSL_priv_der": key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
            "SSL_pub_pem": certificate.public_bytes(Encoding.PEM),
            "SSL_pub_der": certificate.public_bytes(Encoding.DER),
            "SSL_ca_der": authority.public_bytes(Encoding.DER),
            "SSL_ca_pem": authority.public_bytes(Encoding.PEM),
            "SSL_all_cas_pem": authority.public_bytes(Encoding.PEM),
            "SSL_pkcs": pkcs12.serialize_key_and_certificates(b"client", key, certificate, [authority], encrypted),
        }
        files = {name: self._folder / name for name in contents}
        for name, content in contents.items():
            files[name].write_bytes(content)
        return files

    @property
    def kgo(self) -> Mapping[str, str]:
        """The variables of franz-go's tests, which read a key without a password."""
        certificate = self._certificates.alice
        return {
            "KGO_TEST_TLS": f"ca:{self.trusted},cert:{certificate},key:{certificate}",
            "KGO_TEST_SCRAM": f"{self.user}:{self.password}:256",
        }
