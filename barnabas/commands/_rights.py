"""Rights: which operation on which resource a refused request needs, and the command that allows it.

The message of a broker is "Cluster authorization failed." for every request. `Admin` puts these sentences in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from barnabas.commands._output import CommandError, explain_code, lacking

REFUSED = (29, 30, 31)
"""The error codes TOPIC_AUTHORIZATION_FAILED, GROUP_..., CLUSTER_..."""
_CONFIG_KINDS = {2: "topic", 32: "group"}


class Right(NamedTuple):
    """An operation on a kind of resource.

    `results` is the field of the response, `name` that of a result, or else of the request, with the resource's name.
    """

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
    "OffsetDelete": Right("DELETE", "group", name="group_id"),
    "UnregisterBroker": Right("ALTER"),
    "UpdateFeatures": Right("ALTER"),
}
"""The rights by API, as docs/SECURITY.md has them."""


def needs(
    config: Mapping[str, Any], operation: str, kind: str, names: Sequence[str] = (), note: str = "", option: str = ""
) -> str:
    """Return `lacking` for the user of a client with this config."""
    by_token = getattr(config.get("kafka_client"), "keywords", {}).get("by_token")
    has_login = str(config["security_protocol"]).startswith("SASL") and not by_token
    user = config["sasl_plain_username"] if has_login else "NAME"
    return lacking(f"User:{user}", operation, kind, names, note, option)


def explain_refusal(config: Mapping[str, Any], request: Any, response: Any) -> None:
    """Put the needed right into each refused result of a response; raise the Kafka error of one refused as a whole."""
    from kafka.errors import for_code

    right = _RIGHTS.get(type(response).__name__.removesuffix("Response"))
    if right is None:
        return
    if getattr(response, "error_code", 0) in REFUSED:
        names = [getattr(request, right.name)] if right.name else []
        raise for_code(response.error_code)(needs(config, right.operation, right.kind, names))
    for result in getattr(response, right.results) if right.results else ():
        if result.error_code in REFUSED:
            kind = right.kind or _CONFIG_KINDS.get(result.resource_type, "cluster")
            names = [] if kind == "cluster" else [getattr(result, right.name)]
            result.error_message = needs(config, right.operation, kind, names)


def explain_result(config: Mapping[str, Any], code: int, on_group: str, group: str, on_topic: str, topic: str) -> str:
    """Return the message of an error code of a group or topic, for responses that have no room for messages.

    `on_group` and `on_topic` are the operations that the request needs.
    """
    refused = {30: (on_group, "group", group), 29: (on_topic, "topic", topic)}
    if code not in refused:
        return explain_code(code)
    operation, kind, name = refused[code]
    return needs(config, operation, kind, [name])


class DescribingClient(Protocol):
    """The part of `Admin` that is used here."""

    config: dict[str, Any]

    def describe_cluster(self) -> dict[str, Any]:
        """Return the cluster, with the user's operations on it."""


def check_cluster(client: DescribingClient, operation: str) -> None:
    """Raise CommandError unless the user has the operation on the cluster.

    For changes that brokers cannot only validate, and for those that begin with a request for which less is needed.
    """
    # Brokers older than 2.3 do not return the operations. Without DESCRIBE on the cluster, there are none: each that
    # alters something implies it.
    operations = client.describe_cluster().get("authorized_operations")
    if operations is not None and operation not in operations:
        raise CommandError(needs(client.config, operation, "cluster"))
