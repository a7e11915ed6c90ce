"""DescribeUserScramCredentials: which users can log in with SCRAM, and how (KIP-554)."""

from __future__ import annotations

from protocol.schema import Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest(Message):
    """Users; null or none for all."""

    users: list[User] | None

    @struct
    class User:
        name: String


@message(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse(Message):
    """The mechanisms of each user, without anything secret."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    error_message: String | None
    results: list[Result]

    @struct
    class Result:
        user: String
        error_code: Int16 = wire(default=0)
        error_message: String | None
        credential_infos: list[Credential]

        @struct
        class Credential:
            mechanism: Int8
            iterations: Int32
