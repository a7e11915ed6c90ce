"""SaslHandshake: choose the SASL mechanism of a connection (KIP-43).

Version notes: after version 0 the tokens follow without headers of requests, after version 1 in SaslAuthenticate
(KIP-152).
"""

from __future__ import annotations

from protocol.schema import Int16, Message, String, message, wire


@message(key=17, versions=(0, 1))
class SaslHandshakeRequest(Message):
    """The mechanism that the client chooses."""

    mechanism: String


@message(key=17, versions=(0, 1))
class SaslHandshakeResponse(Message):
    """The mechanisms that the listener enables."""

    error_code: Int16 = wire(default=0)
    mechanisms: list[String]
