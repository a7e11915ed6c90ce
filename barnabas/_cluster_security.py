"""The security of a cluster of `barnabas up --secure` or of the test kit: certificates, users, files for their clients.

    DIR/security/
        ca.pem               certificate of the cluster's authority, which clients trust
        ca-key.pem           its private key
        broker.pem           key and certificate of the brokers; renewed 30 days before it expires, and for another host
        token-key            the secret of delegation tokens: they are invalid with another one
        users.properties     USER=PASSWORD; lines that are added or removed change the users at the next start
        USER.properties      settings for Java clients, Kafka's tools and `barnabas --command-config`
        USER.librdkafka      settings for librdkafka: confluent-kafka, `kcat -F`
        USER.json            arguments for kafka-python

Other users of the machine can read nothing in the folder; ca.pem has the mode of a public file, for copies of it. The
files of users are rewritten at each start, with the addresses of the brokers; the others stay as they are. A broker.pem
that another authority has issued is refused, never replaced.

Clients and nodes authenticate with SASL/PLAIN over TLS. `broker` is the user of the nodes, `admin` can do everything,
and any other user what ACLs allow.
"""

from __future__ import annotations

import json
import os
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas._cluster_settings import CONTROLLERS
from barnabas._settings_files import PRIVATE_DIRECTORY, PRIVATE_FILE, PUBLIC_FILE, write_file, write_settings

if TYPE_CHECKING:
    from barnabas._certificates import Issued

SECURITY_PROTOCOL = "SASL_SSL"
DIRECTORY = "security"
ADMIN = "admin"
_BROKER = "broker"
_FIRST_USERS = (_BROKER, ADMIN, "client")
_AUTHORITY = "ca.pem"
_USERS_FILE = "users.properties"
_TOKEN_KEY = "token-key"  # noqa: S105 - the name of a file
_NO_USER = "users"  # its settings would replace the file of the passwords
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_PASSWORD_BYTES = 24
_NAME_BYTES = 8
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_KEY_END = "-----END PRIVATE KEY-----\n"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class ClusterSecurityError(Exception):
    """A cluster cannot have security, or not with the files that it has; the message has the cause or the remedy."""


class ClientFiles(NamedTuple):
    """The paths of the files of one user."""

    java: str
    librdkafka: str
    kafka_python: str


class UserSettings(NamedTuple):
    """The settings of one user's clients."""

    java: dict[str, str]
    librdkafka: dict[str, str]
    kafka_python: dict[str, str]


class ClusterSecurity:
    """The security of one cluster, in the folder `security` of its directory."""

    def __init__(self, directory: str, host: str) -> None:
        """Read the files, and make those that do not exist; `host` is where the brokers listen.

        ClusterSecurityError if a file is damaged or cannot be written, if the brokers' certificate is of another
        authority, or if the package cryptography is missing; nothing is written then.
        """
        try:
            import barnabas._certificates  # noqa: F401 - before anything is written
        except ImportError:
            raise ClusterSecurityError(
                "a secure cluster makes its certificates with cryptography: pip install 'barnabas[secure]'"
            ) from None
        self.folder = os.path.join(directory, DIRECTORY)
        self.trusted = self._path(_AUTHORITY)
        self._broker = self._path("broker.pem")
        if os.path.exists(self._broker) and not os.path.exists(self.trusted):
            raise ClusterSecurityError(
                f"{self._broker} is not of an authority of this cluster, which has none yet: move it elsewhere, and "
                "the next start makes a new one"
            )
        try:
            os.makedirs(self.folder, mode=PRIVATE_DIRECTORY, exist_ok=True)
            self._users = self._make_users()
            self._token_key = self._make_token_key()
            self._make_certificates(host)
        except OSError as error:
            raise ClusterSecurityError(
                f"{error.filename or self.folder}: {(error.strerror or str(error)).lower()}"
            ) from error

    @property
    def users(self) -> list[str]:
        """The users except that of the nodes."""
        return sorted(self._users.keys() - {_BROKER})

    def broker_settings(self) -> dict[str, str]:
        """Return the security settings of all brokers."""
        login = f"{_PLAIN_MODULE} required username={_quoted(_BROKER)} password={_quoted(self._users[_BROKER])}"
        users = "".join(f" user_{user}={_quoted(password)}" for user, password in self._users.items())
        node = f" user_{_BROKER}={_quoted(self._users[_BROKER])}"
        listeners = (SECURITY_PROTOCOL, CONTROLLERS)
        return {
            "listener.security.protocol.map": ",".join(f"{name}:{SECURITY_PROTOCOL}" for name in listeners),
            "security.inter.broker.protocol": SECURITY_PROTOCOL,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"listener.name.{SECURITY_PROTOCOL.lower()}.plain.sasl.jaas.config": f"{login}{users};",
            f"listener.name.{CONTROLLERS.lower()}.plain.sasl.jaas.config": f"{login}{node};",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._broker,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trusted,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_BROKER};User:{ADMIN}",
            "delegation.token.secret.key": self._token_key,
        }

    def write_clients(self, bootstrap_servers: str) -> dict[str, ClientFiles]:
        """Write the files of the users except that of the nodes, and return their paths.

        ClusterSecurityError if that fails.
        """
        written = {}
        try:
            for user in self.users:
                written[user] = files = ClientFiles(
                    *map(self._path, (f"{user}.properties", f"{user}.librdkafka", f"{user}.json"))
                )
                settings = self.client_settings(bootstrap_servers, user)
                write_settings(files.java, settings.java, secret=True)
                write_file(files.librdkafka, _lines(settings.librdkafka), PRIVATE_FILE)
                write_file(files.kafka_python, json.dumps(settings.kafka_python, indent=2) + "\n", PRIVATE_FILE)
        except OSError as error:
            raise ClusterSecurityError(
                f"{error.filename or self.folder}: {(error.strerror or str(error)).lower()}"
            ) from error
        return written

    def client_settings(self, bootstrap_servers: str, user: str) -> UserSettings:
        """Return the settings of a user's clients."""
        password = self._users[user]
        login = f"{_PLAIN_MODULE} required username={_quoted(user)} password={_quoted(password)};"
        return UserSettings(
            java={
                "bootstrap.servers": bootstrap_servers,
                "security.protocol": SECURITY_PROTOCOL,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.trusted,
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": login,
            },
            librdkafka={
                "bootstrap.servers": bootstrap_servers,
                "security.protocol": SECURITY_PROTOCOL,
                "ssl.ca.location": self.trusted,
                "sasl.mechanisms": "PLAIN",
                "sasl.username": user,
                "sasl.password": password,
            },
            kafka_python={
                "bootstrap_servers": bootstrap_servers,
                "security_protocol": SECURITY_PROTOCOL,
                "ssl_cafile": self.trusted,
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": user,
                "sasl_plain_password": password,
            },
        )

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _make_users(self) -> dict[str, str]:
        """Return the password of each user; make the first ones, and later those that every cluster needs."""
        path = self._path(_USERS_FILE)
        users: dict[str, str] = {}
        text = _read(path)
        for number, line in enumerate((text or "").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            user, equals, password = line.partition("=")
            if why := _why_not(user, equals, password):
                raise ClusterSecurityError(f"{path}, line {number}: {why}; write it as USER=PASSWORD")
            if user.lower() == _NO_USER:
                raise ClusterSecurityError(
                    f"{path}, line {number}: no user can be named {user}, because its settings would replace this "
                    "file; choose another name"
                )
            if user in users:
                raise ClusterSecurityError(
                    f"{path}, line {number}: {user} has a password in an earlier line already: remove one"
                )
            users[user] = password
        needed = _FIRST_USERS if text is None else (_BROKER, ADMIN)
        missing = [user for user in needed if user not in users]
        if missing:
            users |= {user: urlsafe_b64encode(os.urandom(_PASSWORD_BYTES)).decode() for user in missing}
            write_file(path, "".join(f"{user}={password}\n" for user, password in users.items()), PRIVATE_FILE)
        return users

    def _make_token_key(self) -> str:
        path = self._path(_TOKEN_KEY)
        found = (_read(path) or "").strip()
        if not found:
            found = urlsafe_b64encode(os.urandom(_PASSWORD_BYTES)).decode()
            write_file(path, f"{found}\n", PRIVATE_FILE)
        return found

    def _make_certificates(self, host: str) -> None:
        from barnabas._certificates import is_current, is_issued_by, issue

        authority = self._authority()
        hosts = list(dict.fromkeys((host, *_LOCAL_HOSTS)))
        found = _read(self._broker)
        _, _, certificate = (found or "").partition(_KEY_END)
        try:
            if found is not None and not (certificate and is_issued_by(certificate, authority)):
                raise ClusterSecurityError(
                    f"{self._broker} is not a key with a certificate of the authority in {self.trusted}: move it "
                    "elsewhere, and the next start makes a new one"
                )
            if not certificate or not is_current(certificate, hosts):
                key, certificate = issue(authority, _BROKER, hosts)
                write_file(self._broker, key + certificate, PRIVATE_FILE)
        except ValueError as error:
            raise ClusterSecurityError(f"{self.folder}: ca.pem, ca-key.pem or broker.pem is damaged: {error}") from None

    def _authority(self) -> Issued:
        from barnabas._certificates import Issued, new_authority

        key_path = self._path("ca-key.pem")
        key, certificate = _read(key_path), _read(self.trusted)
        if key and certificate:
            return Issued(key, certificate)
        if certificate:
            raise ClusterSecurityError(
                f"{key_path} is missing: restore it, or remove {self.folder} for new certificates and passwords"
            )
        made = new_authority(f"cluster authority {os.urandom(_NAME_BYTES).hex()}")  # clients may trust several
        write_file(key_path, made.key, PRIVATE_FILE)
        write_file(self.trusted, made.certificate, PUBLIC_FILE)  # last: without it, the next start makes both again
        return made


def is_secure(directory: str) -> bool:
    """Return whether the cluster in the directory was started with security: it has an authority then."""
    return os.path.isfile(os.path.join(directory, DIRECTORY, _AUTHORITY))


def _quoted(value: str) -> str:
    """Return a value of a JAAS line."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _why_not(user: str, equals: str, password: str) -> str | None:
    """Return what is wrong with a line of the users, without its text; None if nothing is."""
    if not equals:
        return "it has no ="
    if user != user.strip():
        return "there is a space before or after the name of the user"
    if not _USER.fullmatch(user):
        return "a name of a user has letters, digits, ., _ and -, and begins with none of the last two"
    return None if password else "the password is empty"


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
