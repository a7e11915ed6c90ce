"""The APIs of Apache Kafka 4.3: keys, version ranges, header versions and listeners (Kafka: `ApiKeys`); the features.

The table describes the protocol; the dispatcher determines which of these APIs the broker serves. A message that is not
declared has no module under `messages/`. Features: KIP-584.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from protocol.schema import Message


class ApiKey(IntEnum):
    """The API of a request."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class Api(NamedTuple):
    """One API: its versions, the first flexible one (KIP-482), and the listeners that serve it."""

    key: ApiKey
    min_version: int
    max_version: int
    flexible_from: int
    listeners: tuple[str, ...]

    @property
    def module(self) -> str:
        """Return the name of the API's module under `protocol.messages`."""
        return self.key.name.lower()

    @property
    def name(self) -> str:
        """Return Kafka's name of the API, such as `ListOffsets`."""
        return "".join(word.capitalize() for word in self.key.name.split("_"))

    @property
    def versions(self) -> range:
        """Return the versions in Kafka 4.3."""
        return range(self.min_version, self.max_version + 1)

    def is_flexible(self, version: int) -> bool:
        """Return whether this version has compact lengths, tagged fields and the newer headers (KIP-482)."""
        return version >= self.flexible_from


_NEVER = 1 << 15
_BROKER = ("broker",)
_CONTROLLER = ("controller",)
_BOTH = ("broker", "controller")

APIS: dict[ApiKey, Api] = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, 3, 13, 9, _BROKER),
        Api(ApiKey.FETCH, 4, 18, 12, _BOTH),
        Api(ApiKey.LIST_OFFSETS, 1, 11, 6, _BROKER),
        Api(ApiKey.METADATA, 0, 13, 9, _BROKER),
        Api(ApiKey.OFFSET_COMMIT, 2, 10, 8, _BROKER),
        Api(ApiKey.OFFSET_FETCH, 1, 10, 6, _BROKER),
        Api(ApiKey.FIND_COORDINATOR, 0, 6, 3, _BROKER),
        Api(ApiKey.JOIN_GROUP, 0, 9, 6, _BROKER),
        Api(ApiKey.HEARTBEAT, 0, 4, 4, _BROKER),
        Api(ApiKey.LEAVE_GROUP, 0, 5, 4, _BROKER),
        Api(ApiKey.SYNC_GROUP, 0, 5, 4, _BROKER),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 6, 5, _BROKER),
        Api(ApiKey.LIST_GROUPS, 0, 5, 3, _BROKER),
        Api(ApiKey.SASL_HANDSHAKE, 0, 1, _NEVER, _BOTH),
        Api(ApiKey.API_VERSIONS, 0, 4, 3, _BOTH),
        Api(ApiKey.CREATE_TOPICS, 2, 7, 5, _BOTH),
        Api(ApiKey.DELETE_TOPICS, 1, 6, 4, _BOTH),
        Api(ApiKey.DELETE_RECORDS, 0, 2, 2, _BROKER),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 5, 2, _BROKER),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, 4, _BROKER),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, 3, _BROKER),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, 3, _BROKER),
        Api(ApiKey.END_TXN, 0, 5, 3, _BROKER),
        Api(ApiKey.WRITE_TXN_MARKERS, 1, 2, 1, _BROKER),
        Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, 3, _BROKER),
        Api(ApiKey.DESCRIBE_ACLS, 1, 3, 2, _BOTH),
        Api(ApiKey.CREATE_ACLS, 1, 3, 2, _BOTH),
        Api(ApiKey.DELETE_ACLS, 1, 3, 2, _BOTH),
        Api(ApiKey.DESCRIBE_CONFIGS, 1, 4, 4, _BOTH),
        Api(ApiKey.ALTER_CONFIGS, 0, 2, 2, _BOTH),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, 2, _BROKER),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, 2, _BROKER),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 2, 2, _BOTH),
        Api(ApiKey.CREATE_PARTITIONS, 0, 3, 2, _BOTH),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, 2, _BOTH),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, 2, _BOTH),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, 2, _BOTH),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, 2, _BOTH),
        Api(ApiKey.DELETE_GROUPS, 0, 2, 2, _BROKER),
        Api(ApiKey.ELECT_LEADERS, 0, 2, 2, _BOTH),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1, _BOTH),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, 0, _BOTH),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0, _BOTH),
        Api(ApiKey.OFFSET_DELETE, 0, 0, _NEVER, _BROKER),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1, _BROKER),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, 1, _BOTH),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0, _BOTH),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0, _BOTH),
        Api(ApiKey.VOTE, 0, 2, 0, _CONTROLLER),
        Api(ApiKey.BEGIN_QUORUM_EPOCH, 0, 1, 1, _CONTROLLER),
        Api(ApiKey.END_QUORUM_EPOCH, 0, 1, 1, _CONTROLLER),
        Api(ApiKey.DESCRIBE_QUORUM, 0, 2, 0, _BOTH),
        Api(ApiKey.ALTER_PARTITION, 2, 3, 0, _CONTROLLER),
        Api(ApiKey.UPDATE_FEATURES, 0, 2, 0, _BOTH),
        Api(ApiKey.ENVELOPE, 0, 0, 0, _CONTROLLER),
        Api(ApiKey.FETCH_SNAPSHOT, 0, 1, 0, _CONTROLLER),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, 0, _BOTH),
        Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0, _BROKER),
        Api(ApiKey.BROKER_REGISTRATION, 0, 4, 0, _CONTROLLER),
        Api(ApiKey.BROKER_HEARTBEAT, 0, 2, 0, _CONTROLLER),
        Api(ApiKey.UNREGISTER_BROKER, 0, 0, 0, _BOTH),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, 0, _BROKER),
        Api(ApiKey.LIST_TRANSACTIONS, 0, 2, 0, _BROKER),
        Api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, 0, _CONTROLLER),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0, _BROKER),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, 0, _BROKER),
        Api(ApiKey.CONTROLLER_REGISTRATION, 0, 0, 0, _CONTROLLER),
        Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, 0, _BROKER),
        Api(ApiKey.PUSH_TELEMETRY, 0, 0, 0, _BROKER),
        Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0, 0, _CONTROLLER),
        Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, 0, _BROKER),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, 0, _BROKER),
        Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, 0, _BROKER),
        Api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, 0, _BROKER),
        Api(ApiKey.SHARE_FETCH, 1, 2, 0, _BROKER),
        Api(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, 0, _BROKER),
        Api(ApiKey.ADD_RAFT_VOTER, 0, 1, 0, _BOTH),
        Api(ApiKey.REMOVE_RAFT_VOTER, 0, 0, 0, _BOTH),
        Api(ApiKey.UPDATE_RAFT_VOTER, 0, 0, 0, _CONTROLLER),
        Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, 0, _BROKER),
        Api(ApiKey.READ_SHARE_GROUP_STATE, 0, 0, 0, _BROKER),
        Api(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, 0, _BROKER),
        Api(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, 0, _BROKER),
        Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1, 0, _BROKER),
        Api(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0, 0, _BROKER),
        Api(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0, 0, _BROKER),
        Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, 0, _BROKER),
        Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, 0, _BROKER),
        Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, 0, _BROKER),
    )
}


def request_class(key: ApiKey) -> type[Message]:
    """Return the class of the API's requests, importing its module; LookupError if it is not declared."""
    return _message_class(key, "Request")


def response_class(key: ApiKey) -> type[Message]:
    """Return the class of the API's responses, importing its module; LookupError if it is not declared."""
    return _message_class(key, "Response")


@cache
def _message_class(key: ApiKey, suffix: str) -> type[Message]:
    api = APIS[key]
    path = f"protocol.messages.{api.module}"
    try:
        module = import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise LookupError(f"{api.name} is not declared") from None
    found: type[Message] = getattr(module, api.name + suffix)
    return found


class Feature(NamedTuple):
    """The supported levels of a feature, and the level in a new cluster."""

    min_level: int
    max_level: int
    default_level: int


METADATA_VERSION = 30
METADATA_VERSION_NAME = "4.3-IV0"
# Its level is stored in control records of the metadata log, not in metadata records (KIP-853).
KRAFT_VERSION = "kraft.version"

FEATURES: dict[str, Feature] = {
    "metadata.version": Feature(METADATA_VERSION, METADATA_VERSION, METADATA_VERSION),
    KRAFT_VERSION: Feature(0, 1, 1),
    "transaction.version": Feature(0, 2, 2),
    "group.version": Feature(0, 0, 0),
    "share.version": Feature(0, 0, 0),
    "streams.version": Feature(0, 0, 0),
    "eligible.leader.replicas.version": Feature(0, 1, 1),
}
