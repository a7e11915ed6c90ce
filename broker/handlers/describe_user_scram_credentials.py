"""DescribeUserScramCredentials: list the SCRAM credentials of users (KIP-554).

Behaviour
- There are none: credentials cannot be stored yet (AlterUserScramCredentials is not served). A request for all users
  gets an empty list; a named user is RESOURCE_NOT_FOUND, one named twice DUPLICATE_RESOURCE.
"""

from collections import Counter

from broker.network.connection import RequestContext
from broker.shared_server import RoleServer
from protocol.errors import ErrorCode
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)


def handle(
    _broker: RoleServer, _context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return an error for each named user."""
    times = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[
            _not_found(user)
            if count == 1
            else _refused(
                user,
                ErrorCode.DUPLICATE_RESOURCE,
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
            )
            for user, count in times.items()
        ],
    )


def _not_found(user: str) -> DescribeUserScramCredentialsResponse.Result:
    return _refused(
        user,
        ErrorCode.RESOURCE_NOT_FOUND,
        f"Attempt to describe a user credential that does not exist: {user}",
    )


def _refused(user: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResponse.Result:
    return DescribeUserScramCredentialsResponse.Result(
        user=user, error_code=code, error_message=message, credential_infos=[]
    )
