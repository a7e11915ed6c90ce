"""The route table: the handler of each API, and the rules by which its requests are handled.

An API without a row is not served, and ApiVersions does not list it. Handlers are imported at their first request, so
that a start does not pay for them. The listeners and versions of an API are the protocol's (`protocol.api.APIS`).
Kafka: the switch of `KafkaApis.handle` and `ControllerApis.handle`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from protocol.api import APIS, Api, ApiKey

if TYPE_CHECKING:
    from types import ModuleType

CONTROLLER = "controller"
"""The type of the listeners of controllers; the other one is "broker"."""


class Route(NamedTuple):
    """How the requests of one API are handled."""

    handler: str
    """The module in `broker.handlers` whose `handle(node, context, request)` returns the response."""
    on_controller: str = ""
    """The module instead of `handler` on a controller listener."""
    fast_path: bool = False
    """Whether the module's `handle_frame` may handle a request without decoding it as a message."""
    forwarded: bool = False
    """Whether any broker accepts the request from clients and only the active controller decides it (KIP-590)."""
    splits: bool = False
    """Whether the module's `own_part` takes the part of a forwarded request that this broker decides itself."""
    pipelined: bool = False
    """Whether the next request of the connection is handled before this one has its response."""

    def module(self, listener_type: str) -> ModuleType:
        """Return the handler's module for a type of listener, imported."""
        name = self.on_controller if listener_type == CONTROLLER and self.on_controller else self.handler
        return import_module(f"broker.handlers.{name}")


ROUTES = {
    ApiKey.PRODUCE: Route("produce", fast_path=True, pipelined=True),
    ApiKey.FETCH: Route("fetch", on_controller="metadata_fetch", pipelined=True),
    ApiKey.LIST_OFFSETS: Route("list_offsets"),
    ApiKey.METADATA: Route("metadata"),
    ApiKey.OFFSET_COMMIT: Route("offset_commit"),
    ApiKey.OFFSET_FETCH: Route("offset_fetch"),
    ApiKey.FIND_COORDINATOR: Route("find_coordinator"),
    ApiKey.JOIN_GROUP: Route("join_group"),
    ApiKey.HEARTBEAT: Route("heartbeat"),
    ApiKey.LEAVE_GROUP: Route("leave_group"),
    ApiKey.SYNC_GROUP: Route("sync_group"),
    ApiKey.DESCRIBE_GROUPS: Route("describe_groups"),
    ApiKey.LIST_GROUPS: Route("list_groups"),
    ApiKey.API_VERSIONS: Route("api_versions"),
    ApiKey.CREATE_TOPICS: Route("create_topics", forwarded=True),
    ApiKey.DELETE_TOPICS: Route("delete_topics", forwarded=True),
    ApiKey.DELETE_RECORDS: Route("delete_records"),
    ApiKey.INIT_PRODUCER_ID: Route("init_producer_id"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Route("offset_for_leader_epoch"),
    ApiKey.DESCRIBE_ACLS: Route("describe_acls"),
    ApiKey.CREATE_ACLS: Route("create_acls"),
    ApiKey.DELETE_ACLS: Route("delete_acls"),
    ApiKey.DESCRIBE_CONFIGS: Route("describe_configs"),
    ApiKey.ALTER_CONFIGS: Route("alter_configs", forwarded=True, splits=True),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Route("alter_replica_log_dirs"),
    ApiKey.DESCRIBE_LOG_DIRS: Route("describe_log_dirs"),
    ApiKey.CREATE_PARTITIONS: Route("create_partitions", forwarded=True),
    ApiKey.CREATE_DELEGATION_TOKEN: Route("create_delegation_token"),
    ApiKey.RENEW_DELEGATION_TOKEN: Route("renew_delegation_token"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Route("expire_delegation_token"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Route("describe_delegation_token"),
    ApiKey.DELETE_GROUPS: Route("delete_groups"),
    ApiKey.ELECT_LEADERS: Route("elect_leaders", forwarded=True),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Route("incremental_alter_configs", forwarded=True, splits=True),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Route("alter_partition_reassignments", forwarded=True),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Route("list_partition_reassignments", forwarded=True),
    ApiKey.OFFSET_DELETE: Route("offset_delete"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Route("describe_client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: Route("alter_client_quotas", forwarded=True),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Route("describe_user_scram_credentials"),
    ApiKey.VOTE: Route("vote"),
    ApiKey.BEGIN_QUORUM_EPOCH: Route("begin_quorum_epoch"),
    ApiKey.END_QUORUM_EPOCH: Route("end_quorum_epoch"),
    ApiKey.DESCRIBE_QUORUM: Route("describe_quorum", forwarded=True),
    ApiKey.ALTER_PARTITION: Route("alter_partition"),
    ApiKey.UPDATE_FEATURES: Route("update_features", forwarded=True),
    ApiKey.ENVELOPE: Route("envelope"),
    ApiKey.FETCH_SNAPSHOT: Route("fetch_snapshot"),
    ApiKey.DESCRIBE_CLUSTER: Route("describe_cluster"),
    ApiKey.DESCRIBE_PRODUCERS: Route("describe_producers"),
    ApiKey.BROKER_REGISTRATION: Route("broker_registration"),
    ApiKey.BROKER_HEARTBEAT: Route("broker_heartbeat"),
    ApiKey.UNREGISTER_BROKER: Route("unregister_broker", forwarded=True),
    ApiKey.ALLOCATE_PRODUCER_IDS: Route("allocate_producer_ids"),
    ApiKey.CONTROLLER_REGISTRATION: Route("controller_registration"),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Route("get_telemetry_subscriptions"),
    ApiKey.PUSH_TELEMETRY: Route("push_telemetry"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Route("assign_replicas_to_dirs"),
    ApiKey.LIST_CONFIG_RESOURCES: Route("list_config_resources"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Route("describe_topic_partitions"),
}

FORWARDED = frozenset(key for key, route in ROUTES.items() if route.forwarded)
PIPELINED = frozenset(key for key, route in ROUTES.items() if route.pipelined)


def served_apis(listener_type: str) -> dict[ApiKey, Api]:
    """Return the APIs that a listener of type "broker" or "controller" serves."""
    return {key: APIS[key] for key in ROUTES if listener_type in APIS[key].listeners}
