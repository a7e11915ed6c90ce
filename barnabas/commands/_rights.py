"""Rights: which operation on which resource a refused request needs, and the command that allows it.

The message of a broker is "Cluster authorization failed." for every request. `Admin` puts these sentences in its place.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.commands._output import CommandError, some

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

REFUSED = (29, 30, 31)
"""The error codes TOPIC_AUTHORIZATION_FAILED, GROUP_..., CLUSTER_..."""
_CONFIG_KINDS = {2: "topic", 32: "group"}


class Right(NamedTuple):
    """An operation on a kind of resource; the fields of the response that have the results and the resource's name."""

    operation: str
    kind: str = "cluster"
    results: str = ""
    name: str = ""


_RIGHTS = {
    "AlterClientQuotas": Right("ALTER_CONFIGS", results="entries"),
    "AlterPartitionReassignments": Right("ALTER"),
    "AlterUserScramCredentials": Right("ALTER", results="results"),
    "CreateAcls": Right("ALTER", results="results"),
    "CreatePartitions": Right("ALTER", "topic", "results", "name"),
    "CreateTopics": Right("CREATE", "topic", "topics", "name"),
    "DeleteAcls": Right("ALTER", results="filter_results"),
    "DeleteTopics": Right("DELETE", "topic", "responses", "name"),
    "DescribeAcls": Right("DESCRIBE"),
    "DescribeClientQuotas": Right("DESCRIBE_CONFIGS"),
    "DescribeConfigs": Right("DESCRIBE_CONFIGS", "", "results", "resource_name"),
    "DescribeQuorum": Right("DESCRIBE"),
    "DescribeUserScramCredentials": Right("DESCRIBE"),
    "ElectLeaders": Right("ALTER"),
    "IncrementalAlterConfigs": Right("ALTER_CONFIGS", "", "responses", "resource_name"),
    "ListConfigResources": Right("DESCRIBE_CONFIGS"),
    "ListPartitionReassignments": Right("DESCRIBE"),
    "UnregisterBroker": Right("ALTER"),
    "UpdateFeatures": Right("ALTER"),
}
"""The rights by API, as docs/SECURITY.md has them."""


def needs(
    config: Mapping[str, Any], operation: str, kind: str, names: Sequence[str] = (), note: str = "", option: str = ""
) -> str:
    """Return that the user of a client with this config needs an operation on the cluster, or on resources by name.

    `note` is about other operations, which the option of `acl add` adds as well.
    """
    by_token = getattr(config.get("kafka_client"), "keywords", {}).get("by_token")
    has_login = str(config["security_protocol"]).startswith("SASL") and not by_token
    who = shlex.quote(f"User:{config['sasl_plain_username']}") if has_login else "User:NAME"
    which = " ".join(f"--{kind} {shlex.quote(name)}" for name in names) or f"--{kind}"
    where = f"{kind} {some(names)}" if names else f"the {kind}"
    return (
        f"this user is not authorized: it needs {operation} on {where}{note} "
        f"(`barnabas acl add --allow-principal {who} {option or f'--operation {operation}'} {which}`)"
    )


def explain_refusal(config: Mapping[str, Any], response: Any) -> None:
    """Put the needed right into each refused result of a response; raise the Kafka error of one refused as a whole."""
    from kafka.errors import for_code

    right = _RIGHTS.get(type(response).__name__.removesuffix("Response"))
    if right is None:
        return
    if getattr(response, "error_code", 0) in REFUSED:
        raise for_code(response.error_code)(needs(config, right.operation, right.kind))
    for result in getattr(response, right.results) if right.results else ():
        if result.error_code in REFUSED:
            kind = right.kind or _CONFIG_KINDS.get(result.resource_type, "cluster")
            names = [] if kind == "cluster" else [getattr(result, right.name)]
            result.error_message = needs(config, right.operation, kind, names)


def check_cluster(client: Admin, operation: str) -> None:
    """Raise CommandError unless the user has the operation on the cluster.

    For changes that brokers cannot only validate, and for those that begin with a request for which less is needed.
    """
    # Brokers older than 2.3 do not return the operations. Without DESCRIBE on the cluster, there are none: each that
    # alters something implies it.
    operations = client.describe_cluster().get("authorized_operations")
    if operations is not None and operation not in operations:
        raise CommandError(needs(client.config, operation, "cluster"))
