"""Envelope: a broker forwards a client's request to the controller (KIP-590)."""

from __future__ import annotations

from protocol.schema import Bytes, Int16, Message, message, wire


@message(key=58, versions=(0, 0), flexible=0)
class EnvelopeRequest(Message):
    """The client's header and request, its principal and its address (4 or 16 bytes)."""

    request_data: Bytes
    request_principal: Bytes | None
    client_host_address: Bytes


@message(key=58, versions=(0, 0), flexible=0)
class EnvelopeResponse(Message):
    """The header and response for the client; `error_code` is that of the envelope."""

    response_data: Bytes | None = wire(default=None)
    error_code: Int16 = wire(default=0)
