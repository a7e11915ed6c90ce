"""The authorizer of a node, as its settings define it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.authorization.audit_log import AuditLog
from broker.authorization.request_authorizer import MetadataHolder, RequestAuthorizer
from controller.acls.authorizer import StandardAuthorizer, parse_super_users

if TYPE_CHECKING:
    import asyncio

    from broker.settings import Settings

_log = logging.getLogger("broker")


def new_authorizer(settings: Settings, metadata: MetadataHolder, loop: asyncio.AbstractEventLoop) -> RequestAuthorizer:
    """Return the authorizer; `authorizer.class.name` is set."""
    super_users = parse_super_users(settings["super.users"])
    allow_if_no_acl: bool = settings["allow.everyone.if.no.acl.found"]
    _log.info(
        "Requests are authorized by ACLs; super users: %s; resources without ACLs are for %s",
        "; ".join(sorted(super_users)) or "none",
        "everyone" if allow_if_no_acl else "super users",
    )
    authorizer = StandardAuthorizer(super_users, allow_if_no_acl=allow_if_no_acl)
    return RequestAuthorizer(authorizer, metadata, AuditLog(loop.time))
