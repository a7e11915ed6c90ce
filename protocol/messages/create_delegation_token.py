"""CreateDelegationToken: issue a token with which a client authenticates as its owner (KIP-48).

Version notes: 3 added tokens for another owner than the requester (KIP-373).
"""

from __future__ import annotations

from protocol.schema import Bytes, Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=38, versions=(1, 3), flexible=2)
class CreateDelegationTokenRequest(Message):
    """The owner, the principals that may renew the token, and its maximum lifetime in ms; -1: the broker's limit."""

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
    """The token; times in ms, -1 for none."""

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
