"""Refused connections: the sentences for failed logins and TLS handshakes, each with what would be right.

Pure: `_kafka_client` finds the failures, and `_client` the settings that are wrong before a connection.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any

NO_TLS = "it does not use TLS: set security.protocol=PLAINTEXT or SASL_PLAINTEXT"
NEEDS_TLS = "it requires TLS: set security.protocol=SSL or SASL_SSL"
NEEDS_LOGIN = (
    "it closes the connection at the first request; does it require a login? "
    "Set security.protocol={} with sasl.mechanism, user and password"
)
NO_LOGIN = "it asks for no login: set security.protocol={}"
CLOSED = "it closes the connection without a response; does it require TLS? Set security.protocol=SSL or SASL_SSL"
CLOSED_IN_HANDSHAKE = (
    "it closes the connection in the TLS handshake; does it use TLS? Else set security.protocol=PLAINTEXT or "
    "SASL_PLAINTEXT"
)
HTTP = "an HTTP server, not a Kafka broker"

# OpenSSL's X509_V_ERR_...: the names of the ssl module lack them.
_NOT_YET_VALID, _EXPIRED = 9, 10
_UNTRUSTED = (2, 18, 19, 20, 21)  # no issuer found, self-signed, or the signature cannot be verified
_OTHER_NAME = (62, 64)  # host name, IP address

_TLS_ALERT = b"\x15\x03"
_HTTP_BEGINNINGS = (b"HTTP/", b"<!DOCTYPE", b"<html")
_NOT_TLS_RECORDS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE")
_CERTIFICATE_ALERTS = {
    "UNKNOWN_CA": "it does not trust the authority of the client certificate {}",
    "CERTIFICATE_EXPIRED": "the client certificate {} has expired",
    "CERTIFICATE_REVOKED": "the client certificate {} is revoked",
    "BAD_CERTIFICATE": "it refuses the client certificate {} as invalid",
    "CERTIFICATE_UNKNOWN": "it refuses the client certificate {}; its log has the reason",
    "UNSUPPORTED_CERTIFICATE": "it does not support the client certificate {}: its key usage or algorithm",
    "ACCESS_DENIED": "it refuses the client certificate {}; its log has the reason",
}
_CERTIFICATE = "set ssl.keystore.location (ssl.certificate.location)"


def refused_login(config: Mapping[str, Any], why: str) -> str:
    """Return that the broker has refused the user of `config` with the message `why`."""
    return (
        f"login of user {config['sasl_plain_username']} by {config['sasl_mechanism']} refused: {why.rstrip('.')}; "
        "check user, password and mechanism"
    )


def closed_in_login(config: Mapping[str, Any]) -> str:
    """Return that the broker has closed the connection while the user of `config` logged in."""
    return (
        f"it closes the connection in the login of user {config['sasl_plain_username']} by "
        f"{config['sasl_mechanism']}; its log has the reason"
    )


def refused_mechanism(config: Mapping[str, Any], enabled: Sequence[str]) -> str:
    """Return that the broker does not have the mechanism of `config`, and which ones it has."""
    ones = ", ".join(enabled) or "none"
    return f"SASL mechanism {config['sasl_mechanism']} is not enabled; set sasl.mechanism to an enabled one: {ones}"


def without_sasl(protocol: str) -> str:
    """Return the security protocol with the same encryption that has no login."""
    return protocol.removeprefix("SASL_")


def with_sasl(protocol: str) -> str:
    """Return the security protocol with the same encryption that has a login."""
    return f"SASL_{protocol}"


def refused_beginning(received: bytes) -> str | None:
    """Return what kind of server responded to a plaintext request with these bytes; None if it may be a broker."""
    if received.startswith(_TLS_ALERT):
        return NEEDS_TLS
    if received.startswith(_HTTP_BEGINNINGS):
        return HTTP
    return None


def refused_tls(config: Mapping[str, Any], error: BaseException) -> str | None:
    """Return why TLS failed; None if the connection was closed, or for another kind of error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _refused_certificate(config, error)
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    reason = error.reason or str(error)
    if reason in _NOT_TLS_RECORDS:
        return NO_TLS
    _, is_alert, alert = reason.partition("_ALERT_")
    if is_alert:
        return _refused_by_alert(config["ssl_certfile"], alert)
    return f"TLS failed: {_words(reason)}"


def closed_after_tls(config: Mapping[str, Any]) -> str:
    """Return why a broker may close a connection after the TLS handshake, without a response."""
    if identity := config["ssl_certfile"]:
        return f"it closes the connection after the TLS handshake; does it refuse the client certificate {identity}?"
    return (
        f"it closes the connection after the TLS handshake; does it require a client certificate? Then {_CERTIFICATE}"
    )


def _refused_by_alert(identity: str | None, alert: str) -> str:
    if alert == "CERTIFICATE_REQUIRED" or (identity is None and alert in ("BAD_CERTIFICATE", "HANDSHAKE_FAILURE")):
        return f"it requires a client certificate: {_CERTIFICATE}"
    if identity is not None and alert in _CERTIFICATE_ALERTS:
        return f"{_CERTIFICATE_ALERTS[alert].format(identity)}: {_CERTIFICATE}"
    if alert == "PROTOCOL_VERSION":
        return "it has no TLS version of this client, which has 1.2 and later"
    return f"it refuses the TLS handshake: {_words(alert)}"


def _refused_certificate(config: Mapping[str, Any], error: ssl.SSLCertVerificationError) -> str:
    code, what = error.verify_code, error.verify_message.rstrip(".")
    if code == _EXPIRED:
        return "its certificate, or one of its chain, has expired: renew it"
    if code == _NOT_YET_VALID:
        return "its certificate, or one of its chain, is not yet valid; is the clock right?"
    if code in _OTHER_NAME:
        name = what.rpartition(" for ")[2].strip("'")
        return (
            f"its certificate does not have the name {name}: connect by a name that it has, issue it with this one, "
            "or set ssl.endpoint.identification.algorithm= (empty)"
        )
    if code in _UNTRUSTED:
        trusted = config["ssl_cafile"]
        by = f"an authority in {trusted}" if trusted else "an authority that this system trusts"
        return f"its certificate is not issued by {by}: set ssl.truststore.location (ssl.ca.location)"
    return f"its certificate is not valid: {what}"


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")
