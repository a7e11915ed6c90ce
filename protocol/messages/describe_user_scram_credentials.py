"""DescribeUserScramCredentials: list the users with SCRAM credentials, and their mechanisms (KIP-554)."""

from __future__ import annotations

from protocol.schema import Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest(Message):
    """The users; null or an empty list: all."""

    users: list[User] | None

    @struct
    class User:
        name: String


@message(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse(Message):
    """The mechanisms and iterations of each user, without salts and keys."""

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
