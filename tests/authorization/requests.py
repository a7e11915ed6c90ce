"""A request of each API that has requirements: it names what the clients are allowed, and what they are not.

A request changes nothing that a later one depends on, also if its client is allowed to send it: it only validates,
names what does not exist, or fails in another way than by authorization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from protocol.api import ApiKey, request_class
from protocol.fields import fields_of
from protocol.primitives import ZERO_UUID
from protocol.record_batch import build_batch
from protocol.schema import Message

PREFIX = "allowed"
PREFIXES = {"USER": f"User:{PREFIX}"}
"""The prefixes of types whose names begin otherwise."""
TOPIC, OTHER_TOPIC = "allowed-topic", "other-topic"
MISSING_TOPIC, OTHER_MISSING_TOPIC = "allowed-missing", "other-missing"
GROUP, OTHER_GROUP = "allowed-group", "other-group"
TRANSACTIONAL_ID, OTHER_ID = "allowed-id", "other-id"
SECOND_OTHER_TOPIC = "other-topic-2"
EXISTING = (TOPIC, OTHER_TOPIC, SECOND_OTHER_TOPIC)
TOPICS = (TOPIC, OTHER_TOPIC, MISSING_TOPIC, OTHER_MISSING_TOPIC)

OWNER = "allowed-owner"
HOLDER, OTHER_HOLDER = "allowed-holder", "other-holder"
"""The owners of the tokens that exist."""

ALLOWED = {
    "TOPIC": (TOPIC, MISSING_TOPIC),
    "GROUP": (GROUP,),
    "TRANSACTIONAL_ID": (TRANSACTIONAL_ID,),
    "USER": (f"User:{OWNER}", f"User:{HOLDER}"),
    # The ids of tokens are random.
    "DELEGATION_TOKEN": ("*",),
}
"""The resources that a client of the matrix is allowed, by type."""

UNKNOWN_ID = b"?" * 16
NO_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
BROKER = 99

_NOW_MS = 1_700_000_000_000
_OWNER_FROM_VERSION = 3


class Target(NamedTuple):
    """What a request depends on besides its version."""

    ids: Mapping[str, bytes]
    """The ids of the topics that exist."""
    listener_type: str
    may_delete: bool
    """Whether the client is allowed to delete topics that it is not allowed by name."""


Request = Callable[[int, Target], dict[str, Any]]


def build(key: ApiKey, fields: Mapping[str, Any]) -> Message:
    """Return the request with these fields, and defaults for others; structs are written as dictionaries."""
    built: Message = _struct(request_class(key), fields)
    return built


def _struct(kind: Any, fields: Mapping[str, Any]) -> Any:
    structs = {field.name: field.struct for field in fields_of(kind) if field.struct is not None}
    given = {name: _value(structs.get(name), value) for name, value in fields.items()}
    return kind(**{field.name: field.default for field in fields_of(kind) if field.required} | given)


def _value(struct: Any, value: Any) -> Any:
    if struct is None or value is None:
        return value
    return [_struct(struct, one) for one in value] if isinstance(value, list) else _struct(struct, value)


def _batch(transactional: bool = False) -> bytes:
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    return bytes(build_batch([(None, b"v")], timestamp_ms=_NOW_MS, is_transactional=transactional, **producer))


def _by_name(make: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    return [make(name) for name in TOPICS]


def _named(version: int, from_version: int, target: Target, name: str) -> dict[str, Any]:
    """Return the fields that name a topic: by id from `from_version` on; None if it has no id."""
    if version < from_version:
        return {"name": name}
    return {"topic_id": target.ids.get(name, UNKNOWN_ID)}


def _produce(version: int, target: Target) -> dict[str, Any]:
    topics = TOPICS if version < 13 else (TOPIC, OTHER_TOPIC, MISSING_TOPIC)
    return {
        "transactional_id": TRANSACTIONAL_ID,
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [
            {
                **_named(version, 13, target, name),
                "partition_data": [{"index": 5, "records": _batch(transactional=True)}],
            }
            for name in topics
        ],
    }


def _fetch(version: int, target: Target) -> dict[str, Any]:
    if target.listener_type == "controller":
        topic = {"topic_id": b"\0" * 15 + b"\1"} if version >= 13 else {"topic": "__cluster_metadata"}
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
        return {
            "cluster_id": NO_CLUSTER if version >= 12 else None,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "topics": [{**topic, "partitions": [partition]}],
        }
    names = TOPICS if version < 13 else (TOPIC, OTHER_TOPIC, MISSING_TOPIC)
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "topics": [
            {
                **({"topic": name} if version < 13 else _named(version, 13, target, name)),
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}],
            }
            for name in names
        ],
    }


def _metadata(version: int, target: Target) -> dict[str, Any]:
    fields: dict[str, Any] = {"topics": [{"name": name} for name in TOPICS]}
    if version >= 4:
        fields["allow_auto_topic_creation"] = False
    if version >= 8:
        fields["include_topic_authorized_operations"] = True
    if 8 <= version <= 10:
        fields["include_cluster_authorized_operations"] = True
    return fields


def _offset_commit(version: int, target: Target) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "member_id": "unknown",
        "generation_id_or_member_epoch": 7,
        "topics": [
            {
                **_named(version, 10, target, name),
                "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}],
            }
            for name in (TOPICS if version < 10 else TOPICS[:3])
        ],
    }


def _offset_fetch(version: int, target: Target) -> dict[str, Any]:
    if version < 8:
        return {"group_id": GROUP, "topics": [{"name": name, "partition_indexes": [0]} for name in TOPICS]}
    names = TOPICS if version < 10 else TOPICS[:3]
    topics = [{**_named(version, 10, target, name), "partition_indexes": [0]} for name in names]
    return {
        "groups": [
            {"group_id": GROUP, "topics": topics},
            {"group_id": OTHER_GROUP, "topics": topics[:1]},
        ]
    }


def _find_coordinator(version: int, target: Target) -> dict[str, Any]:
    return {"key": GROUP} if version < 4 else {"key_type": 0, "coordinator_keys": [GROUP, OTHER_GROUP]}


def _delete_topics(version: int, target: Target) -> dict[str, Any]:
    # They must stay for the clients that follow.
    names = [MISSING_TOPIC, OTHER_MISSING_TOPIC] + ([] if target.may_delete else [OTHER_TOPIC])
    if version < 6:
        return {"topic_names": names, "timeout_ms": 5000}
    by_id = [UNKNOWN_ID] + ([] if target.may_delete else [target.ids[SECOND_OTHER_TOPIC]])
    return {
        "topics": [{"name": name, "topic_id": ZERO_UUID} for name in names]
        + [{"name": None, "topic_id": topic_id} for topic_id in by_id],
        "timeout_ms": 5000,
    }


def _create_topics(version: int, target: Target) -> dict[str, Any]:
    return {
        "topics": [
            {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            for name in TOPICS
        ],
        "timeout_ms": 5000,
        "validate_only": True,
    }


def _add_partitions(version: int, target: Target) -> dict[str, Any]:
    topics = [{"name": name, "partitions": [0]} for name in TOPICS]
    if version < 4:
        return {
            "v3_and_below_transactional_id": TRANSACTIONAL_ID,
            "v3_and_below_producer_id": 7,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": topics,
        }
    transaction = {"transactional_id": TRANSACTIONAL_ID, "producer_id": 7, "producer_epoch": 0, "topics": topics}
    return {"transactions": [transaction]}


def _txn_offset_commit(version: int, target: Target) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    return {
        "transactional_id": TRANSACTIONAL_ID,
        "group_id": GROUP,
        "producer_id": 7,
        "producer_epoch": 0,
        "topics": [
            {"name": name, "partitions": partitions} for name in (OTHER_TOPIC, OTHER_MISSING_TOPIC, MISSING_TOPIC)
        ],
    }


def _resources(version: int, target: Target) -> list[tuple[int, str]]:
    node = "1"
    return [*((2, name) for name in TOPICS), (32, GROUP), (32, OTHER_GROUP), (4, node), (16, "metrics")]


def _describe_configs(version: int, target: Target) -> dict[str, Any]:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": ["no.such.config"]}
            for kind, name in [*_resources(version, target), (8, "1")]
        ]
    }


def _alter_configs(version: int, target: Target) -> dict[str, Any]:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configs": []} for kind, name in _resources(version, target)
        ],
        "validate_only": True,
    }


def _raft(**partition: Any) -> Request:
    def request(version: int, target: Target) -> dict[str, Any]:
        return {
            "cluster_id": NO_CLUSTER,
            "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0, **partition}]}],
        }

    return request


def token_owner(name: str) -> dict[str, Any]:
    """Return the fields of CreateDelegationToken that name the owner."""
    return {"owner_principal_type": "User", "owner_principal_name": name}


def _fixed(**fields: Any) -> Request:
    return lambda version, target: fields


def _one_group(**fields: Any) -> Request:
    return _fixed(group_id=GROUP, **fields)


REQUESTS: Mapping[ApiKey, Request] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _fixed(
        replica_id=-1,
        topics=_by_name(lambda name: {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}),
    ),
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _one_group(
        session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}]
    ),
    ApiKey.HEARTBEAT: _one_group(generation_id=1, member_id="unknown"),
    ApiKey.LEAVE_GROUP: lambda version, target: (
        {"group_id": GROUP, "member_id": "unknown"}
        if version < 3
        else {"group_id": GROUP, "members": [{"member_id": "unknown"}]}
    ),
    ApiKey.SYNC_GROUP: _one_group(
        generation_id=1, member_id="unknown", protocol_type="consumer", protocol_name="range", assignments=[]
    ),
    ApiKey.DESCRIBE_GROUPS: lambda version, target: (
        {"groups": [GROUP, OTHER_GROUP]} | ({"include_authorized_operations": True} if version >= 3 else {})
    ),
    ApiKey.LIST_GROUPS: _fixed(),
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _fixed(
        timeout_ms=5000,
        topics=_by_name(lambda name: {"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}),
    ),
    ApiKey.INIT_PRODUCER_ID: _fixed(transactional_id=None, transaction_timeout_ms=5000),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _fixed(
        topics=_by_name(lambda name: {"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]})
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _fixed(
        transactional_id=TRANSACTIONAL_ID, producer_id=7, producer_epoch=0, group_id=GROUP
    ),
    ApiKey.END_TXN: _fixed(transactional_id=TRANSACTIONAL_ID, producer_id=7, producer_epoch=0, committed=True),
    ApiKey.WRITE_TXN_MARKERS: _fixed(
        markers=[
            {
                "producer_id": 7,
                "producer_epoch": 0,
                "transaction_result": True,
                "coordinator_epoch": 0,
                "topics": [{"name": MISSING_TOPIC, "partition_indexes": [0]}],
            }
        ]
    ),
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: _fixed(
        resource_type_filter=2,
        resource_name_filter="no-acls",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    ),
    ApiKey.CREATE_ACLS: _fixed(
        creations=[
            {
                "resource_type": 4,
                "resource_name": "no-cluster",
                "principal": "User:a",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
        ]
    ),
    ApiKey.DELETE_ACLS: _fixed(
        filters=[
            {
                "resource_type_filter": 2,
                "resource_name_filter": "no-acls",
                "principal_filter": None,
                "host_filter": None,
                "operation": 1,
                "permission_type": 1,
            }
        ]
    ),
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _fixed(
        dirs=[{"path": "/no/such/directory", "topics": [{"name": TOPIC, "partitions": [0]}]}]
    ),
    ApiKey.DESCRIBE_LOG_DIRS: _fixed(topics=[{"topic": TOPIC, "partitions": [0]}]),
    ApiKey.CREATE_PARTITIONS: _fixed(
        topics=_by_name(lambda name: {"name": name, "count": 3, "assignments": None}),
        timeout_ms=5000,
        validate_only=True,
    ),
    ApiKey.DELETE_GROUPS: _fixed(groups_names=[GROUP, OTHER_GROUP]),
    ApiKey.ELECT_LEADERS: _fixed(topic_partitions=[{"topic": MISSING_TOPIC, "partitions": [0]}], timeout_ms=5000),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _fixed(
        timeout_ms=5000, topics=[{"name": MISSING_TOPIC, "partitions": [{"partition_index": 0, "replicas": [1]}]}]
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _fixed(timeout_ms=5000, topics=None),
    ApiKey.OFFSET_DELETE: _one_group(
        topics=_by_name(lambda name: {"name": name, "partitions": [{"partition_index": 0}]})
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _fixed(
        components=[{"entity_type": "user", "match_type": 0, "match": "no-such-user"}], strict=False
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: _fixed(
        entries=[
            {
                "entity": [{"entity_type": "user", "entity_name": "u"}],
                "ops": [{"key": "no.such", "value": 1.0, "remove": False}],
            }
        ],
        validate_only=True,
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: lambda version, _target: (
        {"max_lifetime_ms": 1} | (token_owner(OWNER) if version >= _OWNER_FROM_VERSION else {})
    ),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _fixed(
        owners=[{"principal_type": "User", "principal_name": name} for name in (HOLDER, OTHER_HOLDER)]
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _fixed(users=[{"name": "no-such-user"}]),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _fixed(deletions=[{"name": "no-such-user", "mechanism": 1}], upsertions=[]),
    ApiKey.VOTE: _raft(replica_epoch=0, replica_id=BROKER, last_offset_epoch=0, last_offset=0),
    ApiKey.BEGIN_QUORUM_EPOCH: _raft(leader_id=BROKER, leader_epoch=0),
    ApiKey.END_QUORUM_EPOCH: _raft(leader_id=BROKER, leader_epoch=0),
    ApiKey.DESCRIBE_QUORUM: _fixed(topics=[{"topic_name": "no-quorum", "partitions": [{"partition_index": 0}]}]),
    ApiKey.ALTER_PARTITION: lambda version, _target: {
        "broker_id": BROKER,
        "broker_epoch": 7,
        "topics": [
            {
                "topic_id": UNKNOWN_ID,
                "partitions": [
                    {"partition_index": 0, "leader_epoch": 0, "leader_recovery_state": 0, "partition_epoch": 0}
                    | ({"new_isr": [BROKER]} if version < 3 else {"new_isr_with_epochs": [{"broker_id": BROKER}]})
                ],
            }
        ],
    },
    ApiKey.UPDATE_FEATURES: lambda version, target: (
        {"feature_updates": [{"feature": "no.such.feature", "max_version_level": 1}]}
        | ({"validate_only": True} if version else {})
    ),
    ApiKey.FETCH_SNAPSHOT: _fixed(
        cluster_id=NO_CLUSTER,
        topics=[
            {
                "name": "__cluster_metadata",
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": 0,
                        "snapshot_id": {"end_offset": 1, "epoch": 1},
                        "position": 0,
                    }
                ],
            }
        ],
    ),
    ApiKey.DESCRIBE_CLUSTER: lambda version, target: (
        {"include_cluster_authorized_operations": True}
        | ({"endpoint_type": 2 if target.listener_type == "controller" else 1} if version else {})
    ),
    ApiKey.DESCRIBE_PRODUCERS: _fixed(topics=_by_name(lambda name: {"name": name, "partition_indexes": [0]})),
    ApiKey.BROKER_REGISTRATION: _fixed(
        broker_id=BROKER, cluster_id=NO_CLUSTER, incarnation_id=UNKNOWN_ID, listeners=[], features=[], rack=None
    ),
    ApiKey.BROKER_HEARTBEAT: _fixed(
        broker_id=BROKER, broker_epoch=7, current_metadata_offset=0, want_fence=False, want_shut_down=False
    ),
    ApiKey.UNREGISTER_BROKER: _fixed(broker_id=BROKER),
    ApiKey.DESCRIBE_TRANSACTIONS: _fixed(transactional_ids=[TRANSACTIONAL_ID, OTHER_ID]),
    ApiKey.LIST_TRANSACTIONS: _fixed(state_filters=[], producer_id_filters=[]),
    ApiKey.ALLOCATE_PRODUCER_IDS: _fixed(broker_id=BROKER, broker_epoch=7),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _fixed(broker_id=BROKER, broker_epoch=7, directories=[]),
    ApiKey.LIST_CONFIG_RESOURCES: lambda version, target: {"resource_types": [64]} if version else {},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _fixed(
        topics=[{"name": name} for name in sorted(TOPICS)], response_partition_limit=100, cursor=None
    ),
}
"""Not here: ControllerRegistration and Envelope, which change the metadata or contain another request."""
