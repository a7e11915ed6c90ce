"""SaslAuthenticate: a token of the SASL mechanism, in either direction (KIP-152).

Version notes: 1 added the session's lifetime (KIP-368).
"""

from __future__ import annotations

from protocol.schema import Bytes, Int16, Int64, Message, String, message, wire


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest(Message):
    """The client's token."""

    auth_bytes: Bytes


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateResponse(Message):
    """The broker's token, and after the last one the time in ms until the client must authenticate again; 0: never."""

    error_code: Int16 = wire(default=0)
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = wire("1+", default=0, ignorable=True)
