"""SaslHandshake and SaslAuthenticate of clients that need not authenticate, or have just done so.

Behaviour
- ILLEGAL_SASL_STATE, as by Apache Kafka: on listeners without SASL, and for a second re-authentication within a second.
  All others are handled before the dispatcher, by `broker.security.sasl_dispatcher`.
"""

from broker.network.connection import RequestContext
from broker.shared_server import RoleServer
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handshake(_server: RoleServer, _context: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Return ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


def authenticate(
    _server: RoleServer, _context: RequestContext, _request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Return ILLEGAL_SASL_STATE."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
