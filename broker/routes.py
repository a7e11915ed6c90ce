"""The route table: the handler or command of each API, and the rules by which its requests are handled.

An API without a row is not served, and ApiVersions does not list it. Functions are imported at the first request, so
that a start does not pay for them. What a request needs to be authorized is listed here, and checked by the guards of
`broker.authorization` if there is an authorizer. The listeners and versions of an API are the protocol's
(`protocol.api.APIS`). Kafka: the switch of `KafkaApis.handle` and `ControllerApis.handle`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from broker.authorization.requirement import (
    Requirements,
    on_cluster,
    on_delegation_token,
    on_group,
    on_topics,
    on_transactional_id,
    on_user,
)
from controller.acls.acl import AclOperation
from protocol.api import APIS, Api, ApiKey

_ALTER, _DESCRIBE, _CLUSTER_ACTION = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
_READ, _WRITE, _CREATE, _DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS

CONTROLLER = "controller"
"""The type of the listeners of controllers; the other one is "broker"."""


class Handlers(NamedTuple):
    """The functions that handle the requests of one API, imported."""

    handle: Callable[..., Any]
    handle_frame: Callable[..., Any] | None
    own_part: Callable[..., Any] | None


class Route(NamedTuple):
    """How the requests of one API are handled: by a handler, or by a command of the controller.

    `MODULE:FUNCTION` names a function, `MODULE` the function `handle`, and for a command the one of the module's name.
    """

    handler: str = ""
    """The function in `broker.handlers`: `handle(node, context, request)` returns the response."""
    command: str = ""
    """The function in `controller.commands` instead: `command(image, request, settings)` returns the result."""
    on_controller: str = ""
    """The handler instead on a controller listener."""
    fast_path: bool = False
    """Whether the handler's module has `handle_frame`, to handle a request without decoding it as a message."""
    forwarded: bool = False
    """Whether any broker accepts the request from clients and only the active controller decides it (KIP-590)."""
    own_part: str = ""
    """The function in `broker.handlers` for the part of a forwarded request that this broker decides itself."""
    pipelined: bool = False
    """Whether the next request of the connection is handled before this one has its response."""
    requires: Requirements = ()
    """What a client needs; several for one resource are alternatives or belong to different requests."""
    requires_on_controller: Requirements = ()
    """What a client needs instead on a controller listener."""
    guard: str = ""
    """The guard in `broker.authorization`, where one made from the requirements is not enough."""

    def requirements(self, listener_type: str) -> Requirements:
        """Return what a client needs on a type of listener."""
        return (listener_type == CONTROLLER and self.requires_on_controller) or self.requires

    def load(self, listener_type: str) -> Handlers:
        """Return the functions for a type of listener, imported."""
        handler = self.on_controller if listener_type == CONTROLLER and self.on_controller else self.handler
        return Handlers(
            handler_function("controller_command:handler")(self.command) if self.command else handler_function(handler),
            handler_function(f"{handler}:handle_frame") if self.fast_path else None,
            handler_function(self.own_part) if self.own_part else None,
        )


def handler_function(name: str) -> Callable[..., Any]:
    """Return the function `MODULE:FUNCTION` of a handler's module, imported."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"broker.handlers.{module}"), function or "handle")
    return found


_TO_ALTER_CONFIGS = (
    on_topics(_ALTER_CONFIGS, "resources.resource_name")
    + on_group(_ALTER_CONFIGS, "resources.resource_name")
    + on_cluster(_ALTER_CONFIGS)
)

ROUTES = {
    ApiKey.PRODUCE: Route(
        "produce",
        fast_path=True,
        pipelined=True,
        requires=on_topics(_WRITE, "topic_data.name") + on_transactional_id(_WRITE),
        guard="produce",
    ),
    ApiKey.FETCH: Route(
        "fetch",
        on_controller="raft",
        pipelined=True,
        requires=on_topics(_READ, "topics.topic") + on_cluster(_CLUSTER_ACTION),
        requires_on_controller=on_cluster(_CLUSTER_ACTION),
        guard="fetch",
    ),
    ApiKey.LIST_OFFSETS: Route("list_offsets", requires=on_topics(_DESCRIBE)),
    ApiKey.METADATA: Route(
        "metadata",
        requires=on_topics(_DESCRIBE) + on_topics(_CREATE, or_on_cluster=_CREATE),
        guard="metadata",
    ),
    ApiKey.OFFSET_COMMIT: Route(
        "offset_commit",
        requires=on_group(_READ) + on_topics(_READ),
    ),
    ApiKey.OFFSET_FETCH: Route(
        "offset_fetch",
        requires=on_group(_DESCRIBE, "groups.group_id") + on_topics(_DESCRIBE),
        guard="groups:guard_offsets",
    ),
    ApiKey.FIND_COORDINATOR: Route(
        "find_coordinator",
        requires=on_group(_DESCRIBE, "coordinator_keys") + on_transactional_id(_DESCRIBE, "coordinator_keys"),
        guard="groups:guard_coordinator",
    ),
    ApiKey.JOIN_GROUP: Route("group_membership:join_group", requires=on_group(_READ)),
    ApiKey.HEARTBEAT: Route("group_membership:heartbeat", requires=on_group(_READ)),
    ApiKey.LEAVE_GROUP: Route("group_membership:leave_group", requires=on_group(_READ)),
    ApiKey.SYNC_GROUP: Route("group_membership:sync_group", requires=on_group(_READ)),
    ApiKey.DESCRIBE_GROUPS: Route(
        "group_admin:describe_groups", requires=on_group(_DESCRIBE, "groups"), guard="groups:guard_description"
    ),
    ApiKey.LIST_GROUPS: Route(
        "group_admin:list_groups", requires=on_group(_DESCRIBE, or_on_cluster=_DESCRIBE), guard="groups:guard_list"
    ),
    ApiKey.SASL_HANDSHAKE: Route("sasl:handshake"),
    ApiKey.API_VERSIONS: Route("api_versions"),
    ApiKey.CREATE_TOPICS: Route(
        "create_topics:create_topics",
        forwarded=True,
        requires=on_topics(_CREATE, or_on_cluster=_CREATE) + on_topics(_DESCRIBE_CONFIGS),
        guard="topics:guard_creation",
    ),
    ApiKey.DELETE_TOPICS: Route(
        "delete_topics",
        forwarded=True,
        requires=on_topics(_DELETE, or_on_cluster=_DELETE),
        guard="topics:guard_deletion",
    ),
    ApiKey.DELETE_RECORDS: Route("delete_records", requires=on_topics(_DELETE)),
    ApiKey.INIT_PRODUCER_ID: Route(
        "init_producer_id",
        requires=on_transactional_id(_WRITE) + on_cluster(AclOperation.IDEMPOTENT_WRITE) + on_topics(_WRITE),
        guard="transactions:guard_producer_id",
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Route(
        "offset_for_leader_epoch", requires=on_topics(_DESCRIBE, "topics.topic", or_on_cluster=_CLUSTER_ACTION)
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Route(
        "add_partitions_to_txn",
        requires=on_transactional_id(_WRITE, "v3_and_below_transactional_id")
        + on_topics(_WRITE, "v3_and_below_topics.name")
        + on_cluster(_CLUSTER_ACTION),
        guard="transactions:guard_partitions",
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Route(
        "add_partitions_to_txn:add_offsets",
        requires=on_transactional_id(_WRITE) + on_group(_READ),
    ),
    ApiKey.END_TXN: Route("end_txn", requires=on_transactional_id(_WRITE)),
    ApiKey.WRITE_TXN_MARKERS: Route("write_txn_markers", requires=on_cluster(_CLUSTER_ACTION, or_on_cluster=_ALTER)),
    ApiKey.TXN_OFFSET_COMMIT: Route(
        "txn_offset_commit",
        requires=on_transactional_id(_WRITE) + on_group(_READ) + on_topics(_READ),
    ),
    ApiKey.DESCRIBE_ACLS: Route("acls:describe_acls", requires=on_cluster(_DESCRIBE)),
    ApiKey.CREATE_ACLS: Route("acls:create_acls", forwarded=True, requires=on_cluster(_ALTER)),
    ApiKey.DELETE_ACLS: Route("acls:delete_acls", forwarded=True, requires=on_cluster(_ALTER)),
    ApiKey.DESCRIBE_CONFIGS: Route(
        "describe_configs",
        requires=on_topics(_DESCRIBE_CONFIGS, "resources.resource_name")
        + on_group(_DESCRIBE_CONFIGS, "resources.resource_name")
        + on_cluster(_DESCRIBE_CONFIGS),
        guard="configs:guard_description",
    ),
    ApiKey.ALTER_CONFIGS: Route(
        command="alter_configs",
        forwarded=True,
        own_part="alter_configs:own_alterations",
        requires=_TO_ALTER_CONFIGS,
        guard="configs:guard_alteration",
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Route("alter_replica_log_dirs", requires=on_cluster(_ALTER)),
    ApiKey.DESCRIBE_LOG_DIRS: Route("describe_log_dirs", requires=on_cluster(_DESCRIBE)),
    ApiKey.SASL_AUTHENTICATE: Route("sasl:authenticate"),
    ApiKey.CREATE_PARTITIONS: Route("create_topics:create_partitions", forwarded=True, requires=on_topics(_ALTER)),
    ApiKey.CREATE_DELEGATION_TOKEN: Route(
        "delegation_tokens:create_delegation_token",
        forwarded=True,
        own_part="delegation_tokens:own_creation",
        requires=on_user(AclOperation.CREATE_TOKENS),
        guard="delegation_tokens:guard_creation",
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: Route(
        "delegation_tokens:renew_delegation_token", forwarded=True, own_part="delegation_tokens:own_renewal"
    ),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Route(
        "delegation_tokens:expire_delegation_token", forwarded=True, own_part="delegation_tokens:own_expiry"
    ),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Route(
        "delegation_tokens:describe_delegation_token",
        requires=on_delegation_token(_DESCRIBE) + on_user(AclOperation.DESCRIBE_TOKENS),
        guard="delegation_tokens:guard_description",
    ),
    ApiKey.DELETE_GROUPS: Route("group_admin:delete_groups", requires=on_group(_DELETE, "groups_names")),
    ApiKey.ELECT_LEADERS: Route(command="elect_leaders", forwarded=True, requires=on_cluster(_ALTER)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Route(
        command="alter_configs:incremental_alter_configs",
        forwarded=True,
        own_part="alter_configs:own_incremental_alterations",
        requires=_TO_ALTER_CONFIGS,
        guard="configs:guard_alteration",
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Route(
        command="reassignments:alter_partition_reassignments", forwarded=True, requires=on_cluster(_ALTER)
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Route(
        command="reassignments:list_partition_reassignments", forwarded=True, requires=on_cluster(_DESCRIBE)
    ),
    ApiKey.OFFSET_DELETE: Route(
        "offset_delete",
        requires=on_group(_DELETE) + on_topics(_READ),
        guard="groups:guard_offset_deletion",
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Route("describe_client_quotas", requires=on_cluster(_DESCRIBE_CONFIGS)),
    ApiKey.ALTER_CLIENT_QUOTAS: Route("alter_client_quotas", forwarded=True, requires=on_cluster(_ALTER_CONFIGS)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Route("scram_credentials:describe", requires=on_cluster(_DESCRIBE)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Route("scram_credentials:alter", forwarded=True, requires=on_cluster(_ALTER)),
    ApiKey.VOTE: Route("raft", requires=on_cluster(_CLUSTER_ACTION)),
    ApiKey.BEGIN_QUORUM_EPOCH: Route("raft", requires=on_cluster(_CLUSTER_ACTION)),
    ApiKey.END_QUORUM_EPOCH: Route("raft", requires=on_cluster(_CLUSTER_ACTION)),
    ApiKey.DESCRIBE_QUORUM: Route("describe_quorum", forwarded=True, requires=on_cluster(_DESCRIBE)),
    ApiKey.ALTER_PARTITION: Route(command="alter_partition", requires=on_cluster(_CLUSTER_ACTION)),
    ApiKey.UPDATE_FEATURES: Route("update_features", forwarded=True, requires=on_cluster(_ALTER)),
    ApiKey.ENVELOPE: Route("envelope", requires=on_cluster(_CLUSTER_ACTION)),
    ApiKey.FETCH_SNAPSHOT: Route("raft", requires=on_cluster(_CLUSTER_ACTION)),
    ApiKey.DESCRIBE_CLUSTER: Route("describe_cluster", requires_on_controller=on_cluster(_ALTER), guard="cluster"),
    ApiKey.DESCRIBE_PRODUCERS: Route("describe_producers", requires=on_topics(_READ)),
    ApiKey.BROKER_REGISTRATION: Route("broker_registration:register", requires=on_cluster(_CLUSTER_ACTION)),
    ApiKey.BROKER_HEARTBEAT: Route("broker_registration:heartbeat", requires=on_cluster(_CLUSTER_ACTION)),
    ApiKey.UNREGISTER_BROKER: Route("broker_registration:unregister", forwarded=True, requires=on_cluster(_ALTER)),
    ApiKey.DESCRIBE_TRANSACTIONS: Route(
        "transaction_admin:describe_transactions",
        requires=on_transactional_id(_DESCRIBE, "transactional_ids") + on_topics(_DESCRIBE),
        guard="transactions:guard_description",
    ),
    ApiKey.LIST_TRANSACTIONS: Route(
        "transaction_admin:list_transactions",
        requires=on_transactional_id(_DESCRIBE),
        guard="transactions:guard_list",
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: Route(
        command="producer_ids:allocate_producer_ids", requires=on_cluster(_CLUSTER_ACTION)
    ),
    ApiKey.CONTROLLER_REGISTRATION: Route(
        command="registration:register_controller", requires=on_cluster(_CLUSTER_ACTION)
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Route("telemetry:get_telemetry_subscriptions"),
    ApiKey.PUSH_TELEMETRY: Route("telemetry:push_telemetry"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Route(command="assign_replicas_to_dirs", requires=on_cluster(_CLUSTER_ACTION)),
    ApiKey.LIST_CONFIG_RESOURCES: Route("list_config_resources", requires=on_cluster(_DESCRIBE_CONFIGS)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Route(
        "describe_topic_partitions", requires=on_topics(_DESCRIBE), guard="metadata:guard_partitions"
    ),
}

FORWARDED = frozenset(key for key, route in ROUTES.items() if route.forwarded)
PIPELINED = frozenset(key for key, route in ROUTES.items() if route.pipelined)


def served_apis(listener_type: str) -> dict[ApiKey, Api]:
    """Return the APIs that a listener of type "broker" or "controller" serves."""
    return {key: APIS[key] for key in ROUTES if listener_type in APIS[key].listeners}
