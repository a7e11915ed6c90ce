"""RenewDelegationToken: extend the lifetime of a delegation token (KIP-48)."""

from __future__ import annotations

from protocol.schema import Bytes, Int16, Int32, Int64, Message, message, wire


@message(key=39, versions=(1, 2), flexible=2)
class RenewDelegationTokenRequest(Message):
    """The token, and the time from now until it expires, in ms."""

    hmac: Bytes
    renew_period_ms: Int64


@message(key=39, versions=(1, 2), flexible=2)
class RenewDelegationTokenResponse(Message):
    """The new expiration time in ms; -1 after an error."""

    error_code: Int16 = wire(default=0)
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = wire(default=0)
