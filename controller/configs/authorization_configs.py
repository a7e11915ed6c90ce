"""Broker configs of authorization (Kafka: `ServerConfigs`, `StandardAuthorizer`).

`controller.configs.config_table` explains the columns.
"""

from collections.abc import Callable
from typing import Any

from controller.acls.authorizer import SuperUsersError, parse_super_users
from controller.configs.config_table import table
from controller.configs.definition import ConfigConflictError

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_OF_ZOOKEEPER = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")

AUTHORIZATION_CONFIGS = table(
    """
    allow.everyone.if.no.acl.found BOOLEAN false read-only
        Whether every client can use a resource that no ACL is about; otherwise only super users can.
    authorizer.class.name STRING '' read-only
        The authorizer: org.apache.kafka.metadata.authorizer.StandardAuthorizer, or none if empty: every client can do
        everything.
    super.users STRING '' read-only
        Principals that can do everything, as type:name and separated by semicolons. Brokers and controllers need all
        rights of each other, so their principals belong here.
    """
)


def check_authorization(value: Callable[[str], Any]) -> None:
    """Raise ConfigConflictError for another authorizer, or for super users that are no principals."""
    authorizer = value("authorizer.class.name")
    if authorizer not in ("", STANDARD_AUTHORIZER):
        why = (
            "authorizes with ZooKeeper, which Apache Kafka 4 does not do either"
            if authorizer in _OF_ZOOKEEPER
            else "is a Java class, which cannot be loaded"
        )
        raise ConfigConflictError(
            "authorizer.class.name", f"{authorizer} {why}; the only authorizer is {STANDARD_AUTHORIZER}"
        )
    try:
        parse_super_users(value("super.users"))
    except SuperUsersError as error:
        raise ConfigConflictError("super.users", f"the super user {error}") from None
