"""DescribeDelegationToken: list the tokens of some or all owners (KIP-48).

Version notes: 3 added the requester of each token (KIP-373).
"""

from __future__ import annotations

from protocol.schema import Bytes, Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=41, versions=(1, 3), flexible=2)
class DescribeDelegationTokenRequest(Message):
    """The owners; null: all."""

    owners: list[Owner] | None

    @struct
    class Owner:
        principal_type: String
        principal_name: String


@message(key=41, versions=(1, 3), flexible=2)
class DescribeDelegationTokenResponse(Message):
    """The tokens; times in ms."""

    error_code: Int16 = wire(default=0)
    tokens: list[Token]
    throttle_time_ms: Int32 = wire(default=0)

    @struct
    class Token:
        principal_type: String
        principal_name: String
        token_requester_principal_type: String = wire("3+", default="")
        token_requester_principal_name: String = wire("3+", default="")
        issue_timestamp: Int64
        expiry_timestamp: Int64
        max_timestamp: Int64
        token_id: String
        hmac: Bytes
        renewers: list[Renewer]

        @struct
        class Renewer:
            principal_type: String
            principal_name: String
