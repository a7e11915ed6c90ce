"""The route table: the handler or command of each API, and the rules by which its requests are handled.

An API without a row is not served, and ApiVersions does not list it. Functions are imported at the first request, so
that a start does not pay for them. The listeners and versions of an API are the protocol's (`protocol.api.APIS`).
Kafka: the switch of `KafkaApis.handle` and `ControllerApis.handle`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from protocol.api import APIS, Api, ApiKey

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


ROUTES = {
    ApiKey.PRODUCE: Route("produce", fast_path=True, pipelined=True),
    ApiKey.FETCH: Route("fetch", on_controller="raft", pipelined=True),
    ApiKey.LIST_OFFSETS: Route("list_offsets"),
    ApiKey.METADATA: Route("metadata"),
    ApiKey.OFFSET_COMMIT: Route("offset_commit"),
    ApiKey.OFFSET_FETCH: Route("offset_fetch"),
    ApiKey.FIND_COORDINATOR: Route("find_coordinator"),
    ApiKey.JOIN_GROUP: Route("group_membership:join_group"),
    ApiKey.HEARTBEAT: Route("group_membership:heartbeat"),
    ApiKey.LEAVE_GROUP: Route("group_membership:leave_group"),
    ApiKey.SYNC_GROUP: Route("group_membership:sync_group"),
    ApiKey.DESCRIBE_GROUPS: Route("group_admin:describe_groups"),
    ApiKey.LIST_GROUPS: Route("group_admin:list_groups"),
    ApiKey.API_VERSIONS: Route("api_versions"),
    ApiKey.CREATE_TOPICS: Route("create_topics:create_topics", forwarded=True),
    ApiKey.DELETE_TOPICS: Route(command="topics:delete_topics", forwarded=True),
    ApiKey.DELETE_RECORDS: Route("delete_records"),
    ApiKey.INIT_PRODUCER_ID: Route("init_producer_id"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Route("offset_for_leader_epoch"),
    ApiKey.ADD_PARTITIONS_TO_TXN: Route("add_partitions_to_txn"),
    ApiKey.ADD_OFFSETS_TO_TXN: Route("add_partitions_to_txn:add_offsets"),
    ApiKey.END_TXN: Route("end_txn"),
    ApiKey.WRITE_TXN_MARKERS: Route("write_txn_markers"),
    ApiKey.TXN_OFFSET_COMMIT: Route("txn_offset_commit"),
    ApiKey.DESCRIBE_ACLS: Route("security_disabled:describe_acls"),
    ApiKey.CREATE_ACLS: Route("security_disabled:alter_acls"),
    ApiKey.DELETE_ACLS: Route("security_disabled:alter_acls"),
    ApiKey.DESCRIBE_CONFIGS: Route("describe_configs"),
    ApiKey.ALTER_CONFIGS: Route(command="alter_configs", forwarded=True, own_part="alter_configs:own_alterations"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Route("alter_replica_log_dirs"),
    ApiKey.DESCRIBE_LOG_DIRS: Route("describe_log_dirs"),
    ApiKey.CREATE_PARTITIONS: Route("create_topics:create_partitions", forwarded=True),
    ApiKey.CREATE_DELEGATION_TOKEN: Route("security_disabled:create_delegation_token"),
    ApiKey.RENEW_DELEGATION_TOKEN: Route("security_disabled:renew_delegation_token"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Route("security_disabled:expire_delegation_token"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Route("security_disabled:describe_delegation_token"),
    ApiKey.DELETE_GROUPS: Route("group_admin:delete_groups"),
    ApiKey.ELECT_LEADERS: Route(command="elect_leaders", forwarded=True),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Route(
        command="alter_configs:incremental_alter_configs",
        forwarded=True,
        own_part="alter_configs:own_incremental_alterations",
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Route(command="reassignments:alter_partition_reassignments", forwarded=True),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Route(command="reassignments:list_partition_reassignments", forwarded=True),
    ApiKey.OFFSET_DELETE: Route("offset_delete"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Route("describe_client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: Route("alter_client_quotas", forwarded=True),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Route("describe_user_scram_credentials"),
    ApiKey.VOTE: Route("raft"),
    ApiKey.BEGIN_QUORUM_EPOCH: Route("raft"),
    ApiKey.END_QUORUM_EPOCH: Route("raft"),
    ApiKey.DESCRIBE_QUORUM: Route("describe_quorum", forwarded=True),
    ApiKey.ALTER_PARTITION: Route(command="alter_partition"),
    ApiKey.UPDATE_FEATURES: Route("update_features", forwarded=True),
    ApiKey.ENVELOPE: Route("envelope"),
    ApiKey.FETCH_SNAPSHOT: Route("raft"),
    ApiKey.DESCRIBE_CLUSTER: Route("describe_cluster"),
    ApiKey.DESCRIBE_PRODUCERS: Route("describe_producers"),
    ApiKey.BROKER_REGISTRATION: Route("broker_registration:register"),
    ApiKey.BROKER_HEARTBEAT: Route("broker_registration:heartbeat"),
    ApiKey.UNREGISTER_BROKER: Route("broker_registration:unregister", forwarded=True),
    ApiKey.DESCRIBE_TRANSACTIONS: Route("transaction_admin:describe_transactions"),
    ApiKey.LIST_TRANSACTIONS: Route("transaction_admin:list_transactions"),
    ApiKey.ALLOCATE_PRODUCER_IDS: Route(command="producer_ids:allocate_producer_ids"),
    ApiKey.CONTROLLER_REGISTRATION: Route(command="registration:register_controller"),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Route("telemetry:get_telemetry_subscriptions"),
    ApiKey.PUSH_TELEMETRY: Route("telemetry:push_telemetry"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Route(command="assign_replicas_to_dirs"),
    ApiKey.LIST_CONFIG_RESOURCES: Route("list_config_resources"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Route("describe_topic_partitions"),
}

FORWARDED = frozenset(key for key, route in ROUTES.items() if route.forwarded)
PIPELINED = frozenset(key for key, route in ROUTES.items() if route.pipelined)


def served_apis(listener_type: str) -> dict[ApiKey, Api]:
    """Return the APIs that a listener of type "broker" or "controller" serves."""
    return {key: APIS[key] for key in ROUTES if listener_type in APIS[key].listeners}
