"""Changes of users' SCRAM credentials (KIP-554; Kafka: `ScramControlManager`).

A user that a request names twice is refused; the changes of the other users are made. The client has salted and hashed
the password; what is stored does not show it. The secret of decoys is stored with the first credential.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from controller.commands.controller_result import ControllerResult
from controller.image import MetadataImage
from controller.scram import (
    DECOY_KEY,
    DECOY_SECRET_BYTES,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_BY_NUMBER,
    credential_from,
    decoy_secret_record,
)
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from protocol.records.metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from protocol.schema import Message

if TYPE_CHECKING:
    from random import Random

_Error: TypeAlias = tuple[ErrorCode, str]
_Deletion = AlterUserScramCredentialsRequest.Deletion
_Upsertion = AlterUserScramCredentialsRequest.Upsertion
_TWICE = ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"


def alter_user_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest, random: Random
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    """Remove and set credentials; the secret of decoys is from `random`."""
    errors: dict[str, _Error] = {}
    records: dict[str, Message] = {}
    changes: list[_Deletion | _Upsertion] = [*request.deletions, *request.upsertions]
    for change in changes:
        user = change.name
        if user in errors:
            continue
        if user in records:
            del records[user]
            errors[user] = _TWICE
            continue
        error = _name_error(change) or (
            _deletion_error(image, change) if isinstance(change, _Deletion) else _iterations_error(change)
        )
        if error is not None:
            errors[user] = error
        else:
            records[user] = _record(change)
    results = [_result(user) for user in records]
    results += [_result(user, code, message) for user, (code, message) in errors.items()]
    if records and DECOY_KEY not in image.scram_credentials:
        records[DECOY_KEY[0]] = decoy_secret_record(random.randbytes(DECOY_SECRET_BYTES))
    return ControllerResult(tuple(records.values()), AlterUserScramCredentialsResponse(results=results))


def _name_error(change: _Deletion | _Upsertion) -> _Error | None:
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if change.mechanism not in SCRAM_BY_NUMBER:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _deletion_error(image: MetadataImage, deletion: _Deletion) -> _Error | None:
    if (deletion.name, deletion.mechanism) not in image.scram_credentials:
        return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    return None


def _iterations_error(upsertion: _Upsertion) -> _Error | None:
    if not MIN_ITERATIONS <= upsertion.iterations <= MAX_ITERATIONS:
        few_or_many = "few" if upsertion.iterations < MIN_ITERATIONS else "many"
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too {few_or_many} iterations"
    return None


def _record(change: _Deletion | _Upsertion) -> Message:
    if isinstance(change, _Deletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    mechanism = SCRAM_BY_NUMBER[change.mechanism]
    credential = credential_from(mechanism, bytes(change.salt), bytes(change.salted_password), change.iterations)
    return UserScramCredentialRecord(name=change.name, mechanism=change.mechanism, **credential._asdict())


def _result(
    user: str, code: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> AlterUserScramCredentialsResponse.Result:
    return AlterUserScramCredentialsResponse.Result(user=user, error_code=code, error_message=message)
