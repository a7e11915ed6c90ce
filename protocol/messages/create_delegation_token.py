"""CreateDelegationToken: a token by which a client logs in for somebody (KIP-48).

Version notes: 3 brought tokens for others than the one who asks (KIP-373).
"""

from __future__ import annotations

from protocol.schema import Bytes, Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=38, versions=(1, 3), flexible=2)
class CreateDelegationTokenRequest(Message):
    """Whom the token is for, who may renew it, and how long it can live; -1 for the broker's limit."""

    owner_principal_type: String | None = wire("3+", default="")
    owner_principal_name: String | None = wire("3+", default="")
    renewers: list[Renewer]
    max_lifetime_ms: Int64

    @struct
    class Renewer:
        principal_type: String
        principal_name: String


@message(key=38, versions=(1, 3), flexible=2)
class CreateDelegationTokenResponse(Message):
    """The token; times in ms, -1 where there is none."""

    error_code: Int16 = wire(default=0)
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = wire("3+", default="")
    token_requester_principal_name: String = wire("3+", default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32 = wire(default=0)
