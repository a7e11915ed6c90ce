"""TLS of one listener for its clients: the current context, and the principals of client certificates.

Kafka: `SslChannelBuilder`, `DefaultKafkaPrincipalBuilder`.
"""

from __future__ import annotations

import ssl

from broker.security.distinguished_name import subject_of
from broker.security.key_stores import Lookup
from broker.security.security_error import SecurityError
from broker.security.ssl_contexts import server_context
from broker.security.ssl_principal_mapper import MappingRuleError, SslPrincipalMapper
from controller.acls.acl import ANONYMOUS
from storage.disk import Disk

_SCRATCH_BYTES = 256 * 1024
_FREED_BYTES = 1024 * 1024


class ListenerTls:
    """The context and the mapping rules of one listener."""

    def __init__(self, value: Lookup, disk: Disk, client_auth: str) -> None:
        """Read keys and certificates. `SecurityError` if the settings are invalid."""
        self.context = server_context(value, disk, client_auth)
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        """Where the connections receive encrypted bytes, which are consumed before the next read."""
        # glibc returns freed memory to the system above a threshold, which a large block that is freed raises.
        # Without this, it would return and fetch again the buffers of each large response: 12 % of the CPU time.
        freed = bytearray(_FREED_BYTES)
        del freed
        try:
            self._mapper: SslPrincipalMapper = SslPrincipalMapper(value("ssl.principal.mapping.rules"))
        except MappingRuleError as error:
            raise SecurityError(f"ssl.principal.mapping.rules: {error}") from None

    def replace_context(self, other: ListenerTls) -> None:
        """Use the context and the rules of another one for new connections."""
        self.context, self._mapper = other.context, other._mapper

    def principal_of(self, connection: ssl.SSLObject) -> str:
        """Return the principal of a client's verified certificate; that of anonymous clients if it sent none.

        `NoMatchingRuleError` if no mapping rule applies, `DamagedCertificateError` if the certificate has no subject.
        """
        certificate = connection.getpeercert(binary_form=True)
        # A certificate that was not requested is not verified either.
        if certificate is None or self.context.verify_mode is ssl.CERT_NONE:
            return ANONYMOUS
        return f"User:{self._mapper.name_of(subject_of(certificate))}"
