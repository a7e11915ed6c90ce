"""Settings of secured connections, checked before a command connects: the login, and the files for TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.commands._output import CommandError, WrongCall

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms with user and password."""


def secured(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TLS context for settings of kafka-python as another setting; none without TLS.

    Raise `WrongCall` if the login is incomplete, `CommandError` if a file cannot be used.
    """
    protocol = settings.get("security_protocol", "PLAINTEXT")
    if protocol.startswith("SASL"):
        _check_login(settings, protocol)
    return {"ssl_context": _context(settings)} if protocol.endswith("SSL") else {}


def _check_login(settings: Mapping[str, Any], protocol: str) -> None:
    mechanism = settings.get("sasl_mechanism")
    if not mechanism:
        raise WrongCall(f"security.protocol={protocol} requires a login: set sasl.mechanism, user and password")
    if mechanism == "OAUTHBEARER":
        raise WrongCall(f"sasl.mechanism={mechanism}: the commands log in by {', '.join(_MECHANISMS)}")
    complete = settings.get("sasl_plain_username") and settings.get("sasl_plain_password")
    if mechanism in _MECHANISMS and not complete:
        raise WrongCall(
            f"sasl.mechanism={mechanism} requires user and password: set sasl.jaas.config in the file of "
            "--command-config, or -X sasl.username and sasl.password"
        )


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the context that kafka-python would make."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.get("ssl_check_hostname", True)
    if trusted := settings.get("ssl_cafile"):
        _load("CA file", trusted, lambda: context.load_verify_locations(trusted))
    else:
        context.load_default_certs()
    if revoked := settings.get("ssl_crlfile"):
        _load("revocation list", revoked, lambda: context.load_verify_locations(revoked))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if identity := settings.get("ssl_certfile"):
        _load_identity(context, identity, settings.get("ssl_keyfile") or identity, settings.get("ssl_password"))
    return context


def _load_identity(context: ssl.SSLContext, identity: str, key: str, password: str | None) -> None:
    """Load a certificate and its private key."""
    requested = False

    def given() -> str:
        nonlocal requested
        requested = True
        return password or ""  # else OpenSSL reads one from the terminal

    of_key = "key store" if key == identity else "key file"
    _load(of_key, key, lambda: open(key, "rb").close())  # OpenSSL's error does not have the missing file
    try:
        _load("key store", identity, lambda: context.load_cert_chain(identity, key, given))
    except CommandError as error:
        if not requested:
            raise
        why = "another password than ssl.key.password" if password else "a password: set ssl.key.password"
        raise CommandError(f"{of_key} {key}: its private key is encrypted with {why}") from error


def _load(what: str, path: str, load: Callable[[], object]) -> None:
    """Call `load`, which reads the file at `path`; `CommandError` names both if it fails."""
    try:
        load()
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = "its private key does not belong to its certificate"
        elif what == "key store":
            why = "it has no certificate with its private key in PEM format"
        else:
            why = "it has no certificates in PEM format"
        raise CommandError(f"{what} {path}: {why}") from error
    except OSError as error:
        raise CommandError(f"{what} {path}: {(error.strerror or str(error)).lower()}") from error
