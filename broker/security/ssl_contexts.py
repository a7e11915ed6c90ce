"""TLS contexts of listeners and of connections between nodes, from the `ssl.*` settings.

Kafka: `DefaultSslEngineFactory`. TLS 1.2 and 1.3, without renegotiation. A context is never changed: other settings or
files make a new one, which new connections use. OpenSSL reads keys from files only; ours are text, and reach it through
a pipe, never through a file.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import NamedTuple

from broker.security.distinguished_name import DamagedCertificateError, end_of_validity
from broker.security.key_stores import KeyStore, Lookup, key_store, trusted_certificates
from broker.security.security_error import SecurityError
from storage.disk import Disk

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_KNOWN_VERSIONS = {*_VERSIONS, "TLSv1.1", "TLSv1"}  # Kafka's documentation lists these two, and Java disables them
_VERIFICATION = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
_MAX_PEM_BYTES = 60_000  # a pipe holds 64 KiB
_OTHER_NAMES = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_NOT_YET_VALID = 9  # X509_V_ERR_CERT_NOT_YET_VALID
_HANDSHAKE_ROUNDS = 4
_OTHER_KEY = ("NO_CERTIFICATE_ASSIGNED", "KEY_TYPE_MISMATCH", "KEY_VALUES_MISMATCH")  # the first: of another type
_END_OF_CERTIFICATE = "-----END CERTIFICATE-----"
_TLS13_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


def server_context(value: Lookup, disk: Disk, client_auth: str) -> ssl.SSLContext:
    """Return the context of a listener, which verifies clients' certificates as `client_auth` says.

    `SecurityError` if the settings are invalid, or a certificate or its key is missing.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    keys = key_store(value, disk)
    if keys is None:
        raise SecurityError(
            "a listener with TLS needs a certificate: set ssl.keystore.type=PEM and ssl.keystore.location to a file "
            "with the private key and its certificates"
        )
    _configure(context, value, disk, keys)
    context.verify_mode = _VERIFICATION[client_auth]
    return context


def client_context(value: Lookup, disk: Disk) -> ssl.SSLContext:
    """Return the context of connections to a listener of other nodes; `SecurityError` if the settings are invalid."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(value("ssl.endpoint.identification.algorithm"))
    _configure(context, value, disk, key_store(value, disk))
    return context


class NodeEnds(NamedTuple):
    """Both ends of a connection between nodes, as one node has them; the client does not verify host names."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def node_ends(server: ssl.SSLContext, value: Lookup, disk: Disk) -> NodeEnds | None:
    """Return the ends with the listener `server` and these settings; None if no trusted certificates are configured."""
    if trusted_certificates(value, disk) is None:
        return None
    client = client_context(value, disk)
    client.check_hostname = False  # the names of other nodes are unknown here
    return NodeEnds(server, client)


def check_own_certificate(server: ssl.SSLContext, value: Lookup, disk: Disk) -> None:
    """Raise `SecurityError` if a node with these settings could not connect to the listener `server` of another one.

    That is tried in memory (Kafka: `SslEngineValidator`), if trusted certificates are configured.
    """
    ends = node_ends(server, value, disk)
    failure = None if ends is None else _failure(ends.client, ends.server)
    if failure is None:
        return
    if isinstance(failure, ssl.SSLCertVerificationError):
        is_too_early = failure.verify_code == _NOT_YET_VALID
        remedy = "Is the clock right?" if is_too_early else "Does ssl.truststore have its authority?"
        found = f"{failure.verify_message}; other nodes would refuse it too. {remedy}"
    else:
        found = f"{failure.reason or failure}; the other nodes could not connect to this one, nor it to them"
    keys = key_store(value, disk)
    raise SecurityError(f"{'' if keys is None else keys.origin}: this node refuses its own certificate: {found}")


def check_beside(old: NodeEnds | None, new: NodeEnds | None) -> None:
    """Raise `SecurityError` if nodes that still have `old` and nodes that already have `new` could not connect."""
    if old is None or new is None:
        return
    failure = _failure(old.client, new.server) or _failure(new.client, old.server)
    if failure is None or _failure(old.client, old.server) is not None:  # as with a certificate that has expired
        return
    found = failure.verify_message if isinstance(failure, ssl.SSLCertVerificationError) else failure.reason or failure
    raise SecurityError(
        f"nodes with the settings in use and nodes with these could not connect to each other: {found}. "
        "Change all nodes in steps that overlap: first trust both authorities, or enable both versions"
    )


def _failure(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLError | None:
    """Return why two nodes cannot connect; None if they can."""
    try:
        _shake_hands(client, server, None)
    except ssl.SSLError as error:
        return error
    return None


def is_for_host(server: ssl.SSLContext, value: Lookup, disk: Disk, host: str) -> bool:
    """Return whether clients that connect to the listener `server` at `host` find that name in its certificate."""
    try:
        keys = key_store(value, disk)
    except SecurityError:  # it has changed since `server` was made, and will be read again
        return True
    if keys is None:
        return True
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies names
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(cadata=first_certificate(keys))
        _shake_hands(client, server, host)
    except ssl.SSLCertVerificationError as error:
        return error.verify_code not in _OTHER_NAMES
    except ValueError:  # no name that TLS knows: a part of it is empty, or longer than 63 characters
        return False
    except ssl.SSLError:  # the listener requires a certificate, which comes after the verification of its own
        return True
    return True


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str | None) -> None:
    """Do a TLS handshake in memory; SSLError if one side refuses it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(_HANDSHAKE_ROUNDS):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()


def first_certificate(keys: KeyStore) -> str:
    """Return the certificate of the private key as PEM, without those of its authorities."""
    return keys.chain.decode("ascii", "replace").partition(_END_OF_CERTIFICATE)[0] + _END_OF_CERTIFICATE


def check_not_expired(value: Lookup, disk: Disk, now_ms: int) -> None:
    """Raise `SecurityError` if the certificate of the key store, which can be read, has expired: clients refuse it."""
    keys = key_store(value, disk)
    if keys is None:
        return
    try:
        end = end_of_validity(ssl.PEM_cert_to_DER_cert(first_certificate(keys)))
    except (DamagedCertificateError, ValueError):
        return  # OpenSSL has read it
    if end < datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%d%H%M%SZ"):
        day = f"{end[:4]}-{end[4:6]}-{end[6:8]}"
        raise SecurityError(f"{keys.origin}: the certificate expired on {day}: replace it by a renewed one")


def _configure(context: ssl.SSLContext, value: Lookup, disk: Disk, keys: KeyStore | None) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Java: any trusted certificate ends a chain
    _restrict_versions(context, value("ssl.enabled.protocols"))
    if suites := value("ssl.cipher.suites"):
        _restrict_ciphers(context, suites)
    if keys is not None:
        _load_keys(context, keys)
    trusted = trusted_certificates(value, disk)
    if trusted is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise SecurityError(f"the trusted certificates are damaged: {error.reason or error}") from None


def _restrict_versions(context: ssl.SSLContext, enabled: tuple[str, ...]) -> None:
    versions = [_VERSIONS[name] for name in enabled if name in _VERSIONS]
    if not versions or not _KNOWN_VERSIONS.issuperset(enabled):
        raise SecurityError(f"ssl.enabled.protocols={','.join(enabled)}: supported are TLSv1.2 and TLSv1.3")
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _restrict_ciphers(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Allow only these cipher suites, which have the names of the standard, as in Java."""
    of_tls13 = _TLS13_SUITES.intersection(suites)
    if of_tls13 and of_tls13 != _TLS13_SUITES:
        raise SecurityError(
            "ssl.cipher.suites: the suites of TLS 1.3 cannot be selected one by one; list all of "
            f"{', '.join(sorted(_TLS13_SUITES))}, or none for TLS 1.2 only"
        )
    if not of_tls13:
        if context.minimum_version == ssl.TLSVersion.TLSv1_3:
            raise SecurityError("ssl.cipher.suites: none of them is for TLSv1.3, the only version enabled")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    older = [name for name in suites if name not in _TLS13_SUITES]
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    for name in older:
        try:
            context.set_ciphers(_openssl_name(name))
        except ssl.SSLError:
            raise SecurityError(f"ssl.cipher.suites: {name} is unknown or not supported") from None
    context.set_ciphers(":".join(map(_openssl_name, older)))


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256."""
    name = suite.removeprefix("TLS_").replace("_CBC_", "_").replace("_WITH_", "_").removeprefix("RSA_")
    name = name.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return re.sub(r"(AES|CAMELLIA)_(\d)", r"\1\2", name).replace("_", "-")


def _load_keys(context: ssl.SSLContext, keys: KeyStore) -> None:
    is_encrypted = False

    def password() -> str:
        nonlocal is_encrypted
        is_encrypted = True
        # Without a password OpenSSL would request one on the terminal.
        if keys.password is None:
            raise SecurityError(f"{keys.origin}: the private key is encrypted; set ssl.key.password")
        return keys.password

    try:
        with _readable(keys.chain, keys.origin) as chain, _readable(keys.key, keys.origin) as key:
            context.load_cert_chain(chain, key, password)
    except ssl.SSLError as error:
        if error.reason in _OTHER_KEY:
            raise SecurityError(f"{keys.origin}: the certificate belongs to another private key") from None
        raise SecurityError(f"{keys.origin}: the certificate is damaged") from None
    except OSError:  # OpenSSL could not go back in the pipe of the key; that hides which of these it was
        why = "ssl.key.password is wrong, " if is_encrypted else ""
        raise SecurityError(
            f"{keys.origin}: {why}the certificate belongs to another private key, or the key is damaged"
        ) from None


@contextmanager
def _readable(text: bytes, origin: str) -> Iterator[str]:
    """Yield the path of a pipe that contains `text`."""
    if len(text) > _MAX_PEM_BYTES:
        raise SecurityError(f"{origin}: {len(text)} bytes of certificates; at most {_MAX_PEM_BYTES} are supported")
    read_end, write_end = os.pipe()
    try:
        try:
            os.write(write_end, text)
        finally:
            os.close(write_end)
        yield f"/dev/fd/{read_end}"
    finally:
        os.close(read_end)
