"""ExpireDelegationToken: shorten the lifetime of a delegation token (KIP-48)."""

from __future__ import annotations

from protocol.schema import Bytes, Int16, Int32, Int64, Message, message, wire


@message(key=40, versions=(1, 2), flexible=2)
class ExpireDelegationTokenRequest(Message):
    """The token, and the time from now until it expires, in ms."""

    hmac: Bytes
    expiry_time_period_ms: Int64


@message(key=40, versions=(1, 2), flexible=2)
class ExpireDelegationTokenResponse(Message):
    """The new expiration time in ms; -1 after an error."""

    error_code: Int16 = wire(default=0)
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = wire(default=0)
