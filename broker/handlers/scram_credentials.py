"""DescribeUserScramCredentials and AlterUserScramCredentials: the SCRAM credentials of users (KIP-554).

Behaviour
- The controller makes the changes (`controller.commands.scram_credentials`).
- Mechanisms and iterations only: no salt and no key leaves the broker. A request without users lists all.
- A named user without credentials is RESOURCE_NOT_FOUND, one named twice DUPLICATE_RESOURCE.
- The secret of decoys, which is stored like a credential, is not listed.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from controller.commands.scram_credentials import alter_user_scram_credentials
from controller.scram import DECOY_KEY
from protocol.errors import ErrorCode
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from broker.controller_server import ControllerServer
    from broker.network.connection import RequestContext
    from broker.shared_server import RoleServer
    from protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )

_Result = DescribeUserScramCredentialsResponse.Result


def describe(
    server: RoleServer, _context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return the credentials of the named users, or of all."""
    found: dict[str, list[_Result.Credential]] = {}
    for (user, mechanism), credential in sorted(server.image.scram_credentials.items()):
        if (user, mechanism) != DECOY_KEY:
            described = _Result.Credential(mechanism=mechanism, iterations=credential.iterations)
            found.setdefault(user, []).append(described)
    times = Counter(user.name for user in request.users or ()) or dict.fromkeys(found, 1)
    return DescribeUserScramCredentialsResponse(
        error_message=None, results=[_described(user, count, found.get(user)) for user, count in times.items()]
    )


async def alter(
    controller: ControllerServer, _context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Submit the command; return its response once its records are committed."""
    return await controller.raft.submit(
        partial(alter_user_scram_credentials, request=request, random=controller.random)
    )


def _described(user: str, count: int, credentials: list[_Result.Credential] | None) -> _Result:
    if count > 1:
        return _refused(
            user,
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
        )
    if credentials is None:
        return _refused(
            user,
            ErrorCode.RESOURCE_NOT_FOUND,
            f"Attempt to describe a user credential that does not exist: {user}",
        )
    return _Result(user=user, error_message=None, credential_infos=credentials)


def _refused(user: str, code: ErrorCode, message: str) -> _Result:
    return _Result(user=user, error_code=code, error_message=message, credential_infos=[])
