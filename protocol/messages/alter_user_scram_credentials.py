"""AlterUserScramCredentials: set and remove the SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from protocol.schema import Bytes, Int8, Int16, Int32, Message, String, message, struct, wire


# librdkafka sends one byte more than the request has; Apache Kafka ignores it.
@message(key=51, versions=(0, 0), flexible=0, trailing_bytes=True)
class AlterUserScramCredentialsRequest(Message):
    """The credentials to remove and to set; passwords are salted and hashed by the client."""

    deletions: list[Deletion]
    upsertions: list[Upsertion]

    @struct
    class Deletion:
        name: String
        mechanism: Int8

    @struct
    class Upsertion:
        name: String
        mechanism: Int8
        iterations: Int32
        salt: Bytes
        salted_password: Bytes


@message(key=51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsResponse(Message):
    """The outcome for each user."""

    throttle_time_ms: Int32 = wire(default=0)
    results: list[Result]

    @struct
    class Result:
        user: String
        error_code: Int16 = wire(default=0)
        error_message: String | None
