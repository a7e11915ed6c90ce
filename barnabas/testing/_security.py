"""The security of `Cluster(secure=True)`, that of `barnabas up --secure`, and the settings of its clients."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

from barnabas._cluster_security import (
    ADMIN,
    DIRECTORY,
    SECURITY_PROTOCOL,
    ClusterSecurity,
    ClusterSecurityError,
    UserSettings,
)
from barnabas._settings_files import write_settings
from barnabas.testing.errors import ClusterError

LIBRARIES = ("librdkafka", "kafka-python", "aiokafka", "java")


class Security:
    """The certificates and users of a cluster, in the folder `security` of its directory."""

    listener = SECURITY_PROTOCOL
    """The name of the listener for clients."""

    def __init__(self, directory: Path, host: str) -> None:
        """Make the files that do not exist; ClusterError if that fails."""
        self._bootstrap = ""
        settings_file = str(directory / DIRECTORY / "brokers")
        try:
            self._cluster = ClusterSecurity(str(directory), host)
            write_settings(settings_file, self._cluster.broker_settings(), secret=True)
        except ClusterSecurityError as error:
            raise ClusterError(str(error)) from error
        except OSError as error:
            raise ClusterError(f"{settings_file}: {(error.strerror or str(error)).lower()}") from error
        self.options = ["--config", settings_file]
        """Options of `barnabas serve`; the passwords are in the file, because other users see command lines."""

    def write_clients(self, bootstrap: str) -> None:
        """Write the files of the users; ClusterError if that fails."""
        self._bootstrap = bootstrap
        try:
            self._cluster.write_clients(bootstrap)
        except ClusterSecurityError as error:
            raise ClusterError(str(error)) from error

    def settings(self, user: str) -> UserSettings:
        """Return the settings of the clients of a user; ValueError for an unknown one."""
        if user not in self._cluster.users:
            raise ValueError(f"user={user!r}: the cluster has {', '.join(self._cluster.users)}")
        return self._cluster.client_settings(self._bootstrap, user)

    def environment(self) -> dict[str, str]:
        """Return variables for a program whose clients are those of `admin`."""
        settings = self.settings(ADMIN).librdkafka
        return {
            "KAFKA_SECURITY_PROTOCOL": settings["security.protocol"],
            "KAFKA_SASL_MECHANISM": settings["sasl.mechanisms"],
            "KAFKA_SASL_USERNAME": settings["sasl.username"],
            "KAFKA_SASL_PASSWORD": settings["sasl.password"],
            "KAFKA_SSL_CA_LOCATION": settings["ssl.ca.location"],
            "KAFKA_CLIENT_FILES": self._cluster.folder,
            "BARNABAS_COMMAND_CONFIG": os.path.join(self._cluster.folder, f"{ADMIN}.properties"),
        }


def client_config(library: str, user: str, bootstrap: str, security: Security | None) -> dict[str, Any]:
    """Return the settings of a client of one of LIBRARIES, without those of security if there is none."""
    if library not in LIBRARIES:
        raise ValueError(f"library={library!r}: choose {', '.join(LIBRARIES)}")
    is_python = library in ("kafka-python", "aiokafka")
    if security is None:
        return {"bootstrap_servers" if is_python else "bootstrap.servers": bootstrap}
    settings = security.settings(user)
    if not is_python:
        return dict(settings.java if library == "java" else settings.librdkafka)
    found: dict[str, Any] = dict(settings.kafka_python)
    if library == "aiokafka":  # it takes a context only
        found["ssl_context"] = ssl.create_default_context(cafile=found.pop("ssl_cafile"))
    return found
