"""Settings of secured connections, checked before a command connects: the login, and the files for TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.commands._inline_pem import CHAIN, KEY, NO_PEM, TRUSTED, InlinePem, readable
from barnabas.commands._output import CommandError, WrongCall

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms with user and password."""


def secured(settings: Mapping[str, Any], pem: InlinePem = NO_PEM) -> dict[str, Any]:
    """Return the TLS context for settings of kafka-python as another setting; none without TLS.

    Files of the settings come before the PEM text of another file. Where that is used, `ssl_cafile` and `ssl_certfile`
    have its name, for messages: with a context, kafka-python does not read them.

    Raise `WrongCall` if the login is incomplete, `CommandError` if a file cannot be used.
    """
    protocol = settings.get("security_protocol", "PLAINTEXT")
    if protocol.startswith("SASL"):
        _check_login(settings, protocol)
    if not protocol.endswith("SSL"):
        return {}
    names = {}
    if pem.trusted and not settings.get("ssl_cafile"):
        names["ssl_cafile"] = f"{TRUSTED} of {pem.path}"
    if pem.key and not settings.get("ssl_certfile"):
        names["ssl_certfile"] = f"{CHAIN} of {pem.path}"
    return {"ssl_context": _context(settings, pem), **names}


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


def _context(settings: Mapping[str, Any], pem: InlinePem) -> ssl.SSLContext:
    """Return the context that kafka-python would make."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.get("ssl_check_hostname", True)
    if trusted := settings.get("ssl_cafile"):
        _load("CA file", trusted, lambda: context.load_verify_locations(trusted))
    elif certificates := pem.trusted:
        of = f"{TRUSTED} of"
        _load(of, pem.path, lambda: context.load_verify_locations(cadata=certificates))
    else:
        context.load_default_certs()
    if revoked := settings.get("ssl_crlfile"):
        _load("revocation list", revoked, lambda: context.load_verify_locations(revoked))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if identity := settings.get("ssl_certfile"):
        _load_identity(context, identity, settings.get("ssl_keyfile") or identity, settings.get("ssl_password"))
    elif pem.chain and pem.key:
        _load_inline_identity(context, pem, settings.get("ssl_password"))
    return context


def _load_inline_identity(context: ssl.SSLContext, pem: InlinePem, password: str | None) -> None:
    """Load a certificate and its private key that are PEM text in settings."""
    asked = _Password(password)
    try:
        with readable(str(pem.chain)) as chain, readable(str(pem.key)) as key:
            context.load_cert_chain(chain, key, asked)
    except (ssl.SSLError, OSError) as error:  # OSError: OpenSSL cannot go back in the pipe to look for another reason
        why = asked.why_not or f"it does not belong to the certificate of {CHAIN}, or one of them is damaged"
        raise CommandError(f"{KEY} of {pem.path}: {why}") from error


def _load_identity(context: ssl.SSLContext, identity: str, key: str, password: str | None) -> None:
    """Load a certificate and its private key."""
    asked = _Password(password)
    of_key = "key store" if key == identity else "key file"
    _load(of_key, key, lambda: open(key, "rb").close())  # OpenSSL's error does not have the missing file
    try:
        _load("key store", identity, lambda: context.load_cert_chain(identity, key, asked))
    except CommandError as error:
        if asked.why_not is None:
            raise
        raise CommandError(f"{of_key} {key}: {asked.why_not}") from error


class _Password:
    """Passes the password of a private key to OpenSSL, and why it may be wrong once OpenSSL has requested it."""

    def __init__(self, password: str | None) -> None:
        self.why_not: str | None = None
        self._password = password

    def __call__(self) -> str:
        """Return the password."""
        why = "another password than ssl.key.password" if self._password else "a password: set ssl.key.password"
        self.why_not = f"its private key is encrypted with {why}"
        return self._password or ""  # else OpenSSL reads one from the terminal


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
