"""ExpireDelegationToken: a delegation token ends sooner (KIP-48)."""

from __future__ import annotations

from protocol.schema import Bytes, Int16, Int32, Int64, Message, message, wire


@message(key=40, versions=(1, 2), flexible=2)
class ExpireDelegationTokenRequest(Message):
    """The token, and the time from now on in ms."""

    hmac: Bytes
    expiry_time_period_ms: Int64


@message(key=40, versions=(1, 2), flexible=2)
class ExpireDelegationTokenResponse(Message):
    """When the token expires now, in ms; -1 if it could not be changed."""

    error_code: Int16 = wire(default=0)
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = wire(default=0)
