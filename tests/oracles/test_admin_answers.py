"""Every admin response, in every version, equals the one that Apache Kafka sends to the same request.

Intended differences are not tested: two new topics of one request whose names collide are both rejected; an
election of an unknown type is rejected as a whole, and more partitions than one batch can hold with POLICY_VIOLATION;
features that are not implemented cannot be upgraded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from protocol.api import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_acls import DeleteAclsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.primitives import ZERO_UUID
from tests.oracles.both_admins import MISSING, NAMES, Both, assigned, counted

# Within this time, Apache Kafka's broker applies what its controller decided.
APPLIED_S = 30.0

NewTopic = CreateTopicsRequest.Topic
Quotas = AlterClientQuotasRequest.Entry


def every_version(key: ApiKey) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", APIS[key].versions)


@pytest.fixture(scope="module")
def both(bootstraps: tuple[str, str]) -> Iterator[Both]:
    brokers = Both(*bootstraps)
    yield brokers
    for client in brokers.clients:
        client.close()


class TestCreateTopics:
    def query(self, both: Both, version: int, *topics: NewTopic, validate_only: bool = False) -> Any:
        fields = {"topics": list(topics), "timeout_ms": 30_000, "validate_only": validate_only}
        return both.same(ApiKey.CREATE_TOPICS, version, **fields)["topics"]

    @every_version(ApiKey.CREATE_TOPICS)
    @pytest.mark.parametrize("validate_only", [False, True])
    def test_every_version(self, both: Both, version: int, validate_only: bool) -> None:
        name = f"t{next(NAMES)}"
        answers = self.query(
            both,
            version,
            counted(f"{name}-a", 3, retention_ms="1000", cleanup_policy="compact,delete"),
            counted(f"{name}-defaults", -1, -1),
            assigned(f"{name}-assigned", (1, [1]), (0, [1])),
            counted(f"{name}-twice"),
            counted(f"{name}-twice", 7),
            validate_only=validate_only,
        )
        assert sum(answer["error_code"] == ErrorCode.NONE for answer in answers) == 3

    @pytest.mark.parametrize(
        "topic",
        [
            counted("partitions", 0),
            counted("partitions", -2),
            counted("replicas", 1, 0),
            counted("replicas", 1, -2),
            counted("replicas", 1, 2),
            counted("", 1),
            counted(".", 1),
            counted("..", 1),
            counted("b@d", 1),
            counted("x" * 249, 1),
            counted("x" * 250, 1),
            counted("__cluster_metadata", 1),
            counted("configs", 1, nonsense="1"),
            counted("configs", 1, retention_ms="x"),
            counted("configs", 1, retention_ms="-2"),
            counted("configs", 1, retention_ms=None),
            counted("configs", 1, cleanup_policy="nonsense"),
            counted("configs", 1, min_compaction_lag_ms="9", max_compaction_lag_ms="8"),
            counted("configs", 1, remote_storage_enable="true"),
            assigned("empty", (0, [])),
            assigned("unknown", (0, [7])),
            assigned("double", (0, [1, 1])),
            assigned("gap", (1, [1])),
            assigned("negative", (-1, [1])),
            assigned("again", (0, [1]), (0, [1])),
            assigned("counts", (0, [1]), partitions=1),
            assigned("counts", (0, [1]), replicas=1),
        ],
        ids=lambda topic: f"{topic.name[:20]} {topic.num_partitions} {topic.replication_factor}",
    )
    def test_what_is_refused(self, both: Both, topic: NewTopic) -> None:
        for version in (4, 7):
            self.query(both, version, topic, validate_only=True)

    def test_existing_topic_names_are_rejected(self, both: Both) -> None:
        name = both.create()
        self.query(both, 7, counted(name))
        self.query(both, 7, counted("a.b_c", 1))
        self.query(both, 7, counted("a_b.c", 1))

    def test_nothing(self, both: Both) -> None:
        assert self.query(both, 7) == []


class TestDeleteTopics:
    def query(self, both: Both, version: int, *names: str | None, ids: tuple[str, ...] = ()) -> Any:
        def topics(side: int) -> list[DeleteTopicsRequest.Topic]:
            by_name = [DeleteTopicsRequest.Topic(name=name, topic_id=ZERO_UUID) for name in names]
            return by_name + [DeleteTopicsRequest.Topic(name=None, topic_id=both.ids[name][side]) for name in ids]

        if version < 6:
            return both.same(ApiKey.DELETE_TOPICS, version, topic_names=list(names), timeout_ms=30_000)
        return both.same(ApiKey.DELETE_TOPICS, version, topics=topics, timeout_ms=30_000)

    @every_version(ApiKey.DELETE_TOPICS)
    def test_by_name(self, both: Both, version: int) -> None:
        name, twice = both.create(), both.create()
        self.query(both, version, name, MISSING, twice, twice, "b@d", "")
        self.query(both, version, name)
        self.query(both, version)

    def test_by_id(self, both: Both) -> None:
        name, other, both_ways, twice = (both.create() for _ in range(4))
        self.query(both, 6, both_ways, None, ids=(name, MISSING, both_ways, twice, twice))
        self.query(both, 6, ids=(name, other))

    def test_by_both(self, both: Both) -> None:
        name = both.create()

        def topics(side: int) -> list[DeleteTopicsRequest.Topic]:
            return [DeleteTopicsRequest.Topic(name=name, topic_id=both.ids[name][side])]

        both.same(ApiKey.DELETE_TOPICS, 6, topics=topics, timeout_ms=30_000)


class TestCreatePartitions:
    def query(
        self, both: Both, version: int, *topics: tuple[str, int, list[list[int]] | None], validate_only: bool = False
    ) -> Any:
        Topic = CreatePartitionsRequest.Topic  # noqa: N806
        return both.same(
            ApiKey.CREATE_PARTITIONS,
            version,
            topics=[
                Topic(
                    name=name,
                    count=total,
                    assignments=assignments and [Topic.Assignment(broker_ids=brokers) for brokers in assignments],  # type: ignore[arg-type]  # only this comes here
                )
                for name, total, assignments in topics
            ],
            timeout_ms=30_000,
            validate_only=validate_only,
        )

    @every_version(ApiKey.CREATE_PARTITIONS)
    @pytest.mark.parametrize("validate_only", [False, True])
    def test_every_version(self, both: Both, version: int, validate_only: bool) -> None:
        name, other = both.create(), both.create()
        self.query(both, version, (name, 3, None), (other, 3, [[1], [1]]), validate_only=validate_only)
        self.query(both, version, (name, 4, None), (name, 5, None), (MISSING, 2, None), validate_only=validate_only)

    @pytest.mark.parametrize(
        ("total", "assignments"),
        [
            (2, None),
            (1, None),
            (0, None),
            (-1, None),
            (3, []),
            (3, [[]]),
            (3, [[7]]),
            (3, [[1, 1]]),
            (3, [[1], [1]]),
            (4, [[1]]),
        ],
    )
    def test_what_is_refused(self, both: Both, total: int, assignments: list[list[int]] | None) -> None:
        self.query(both, 3, (both.create(2), total, assignments), validate_only=True)


class TestLogDirs:
    @every_version(ApiKey.DESCRIBE_LOG_DIRS)
    def test_every_version(self, both: Both, version: int) -> None:
        name = both.create(2)
        both.produce(name)
        for indexes in ([0, 1, 9], []):
            topics = [DescribeLogDirsRequest.Topic(topic=topic, partitions=indexes) for topic in (name, MISSING)]
            both.same(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics)
        both.same(ApiKey.DESCRIBE_LOG_DIRS, version, topics=[])


class TestDirectoryMoves:
    """Both have one directory, so replicas can only stay where they are."""

    @every_version(ApiKey.ALTER_REPLICA_LOG_DIRS)
    def test_every_version(self, both: Both, version: int) -> None:
        name = both.create(2)
        homes = [client.call(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=None).results[0].log_dir for client in both.clients]
        topics = [
            AlterReplicaLogDirsRequest.Dir.Topic(name=topic, partitions=indexes)
            for topic, indexes in ((name, [0, 1, 9]), (MISSING, [0]), ("t" * 249, [0]), ("b@d", [0]), ("", [0]))
        ]
        for paths in (homes, ["/elsewhere"] * 2, [""] * 2):
            wanted = [[AlterReplicaLogDirsRequest.Dir(path=path, topics=topics)] for path in paths]
            both.same(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=wanted.__getitem__)
        both.same(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=[])


def test_producers(both: Both) -> None:
    name = both.create(2)
    both.produce(name, producer_id=7, producer_epoch=2, base_sequence=0)
    both.produce(name, producer_id=7, producer_epoch=2, base_sequence=1)
    both.produce(name, producer_id=8, producer_epoch=0, base_sequence=0)
    both.produce(name)
    topics = [
        DescribeProducersRequest.Topic(name=topic, partition_indexes=[0, 1, 7]) for topic in (name, MISSING, "b@d", "")
    ]
    both.same(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)


@every_version(ApiKey.ELECT_LEADERS)
def test_elections(both: Both, version: int) -> None:
    name = both.create(2)
    requested = [
        ElectLeadersRequest.Topic(topic=topic, partitions=indexes)
        for topic, indexes in ((name, [0, 0, 7]), (MISSING, [0]), (name, [1]))
    ]
    for election_type in (0, 1) if version else (0,):
        for topics in (requested, []):
            both.same(ApiKey.ELECT_LEADERS, version, election_type=election_type, topic_partitions=topics)


class TestReassignments:
    @every_version(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    @pytest.mark.parametrize("replicas", [[1], [], [7], [1, 1], [1, 7], [-1], None], ids=str)
    def test_every_version(self, both: Both, version: int, replicas: list[int] | None) -> None:
        Topic = AlterPartitionReassignmentsRequest.Topic  # noqa: N806
        partitions = [Topic.Partition(partition_index=index, replicas=replicas) for index in (0, 7, 0)]
        topics = [Topic(name=name, partitions=partitions) for name in (both.create(), MISSING)]
        both.same(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, topics=topics)
        if version >= 1:
            fixed = {"allow_replication_factor_change": False}
            both.same(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, topics=topics, **fixed)

    def test_list_reassignments_is_empty(self, both: Both) -> None:
        name = both.create()
        Topic = ListPartitionReassignmentsRequest.Topic  # noqa: N806
        for topics in (None, [], [Topic(name=topic, partition_indexes=[0, 7]) for topic in (name, MISSING)]):
            both.same(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=topics)


@every_version(ApiKey.DESCRIBE_QUORUM)
@pytest.mark.parametrize(
    "requested",
    [
        [("__cluster_metadata", [0])],
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [0, 1])],
        [("__cluster_metadata", [])],
        [("__cluster_metadata", [0]), (MISSING, [0])],
        [(MISSING, [0])],
        [],
    ],
    ids=str,
)
def test_the_quorum(both: Both, version: int, requested: list[tuple[str, list[int]]]) -> None:
    Topic = DescribeQuorumRequest.Topic  # noqa: N806
    topics = [
        Topic(topic_name=name, partitions=[Topic.Partition(partition_index=index) for index in indexes])
        for name, indexes in requested
    ]
    both.same(ApiKey.DESCRIBE_QUORUM, version, topics=topics)


def test_unregister_unknown_broker(both: Both) -> None:
    both.same(ApiKey.UNREGISTER_BROKER, 0, broker_id=7)


@every_version(ApiKey.UPDATE_FEATURES)
@pytest.mark.parametrize(
    "updates",
    [
        [("metadata.version", 30, 1)],
        [("metadata.version", 30, 2)],
        [("metadata.version", 30, 0)],
        [("metadata.version", 31, 1)],
        [("metadata.version", 29, 1)],
        [("metadata.version", 29, 2)],
        [("metadata.version", 29, 3)],
        [("metadata.version", -1, 1)],
        [("metadata.version", 30, 1), ("nonsense", 1, 1)],
        [("nonsense", 0, 1)],
        [("share.version", 9, 1)],
        [("eligible.leader.replicas.version", 1, 1)],
        [("eligible.leader.replicas.version", 2, 1)],
        [("eligible.leader.replicas.version", 0, 1)],
        [("", 1, 1)],
        [],
    ],
    ids=str,
)
def test_features(both: Both, version: int, updates: list[tuple[str, int, int]]) -> None:
    requested = [
        UpdateFeaturesRequest.Update(
            feature=name, max_version_level=level, **({"upgrade_type": kind} if version else {"allow_downgrade": False})
        )
        for name, level, kind in updates
    ]
    both.same(ApiKey.UPDATE_FEATURES, version, feature_updates=requested)


@every_version(ApiKey.DESCRIBE_ACLS)
def test_acls(both: Both, version: int) -> None:
    rule: dict[str, Any] = {"resource_type": 2, "principal": "User:me", "host": "*", "operation": 3}
    filters: dict[str, Any] = {"resource_type_filter": 1, "principal_filter": None, "host_filter": None}
    anything: dict[str, Any] = {"operation": 1, "permission_type": 1}
    both.same(ApiKey.DESCRIBE_ACLS, version, resource_name_filter=None, **filters, **anything)
    creations = [CreateAclsRequest.Creation(resource_name=name, permission_type=3, **rule) for name in "ab"]
    both.same(ApiKey.CREATE_ACLS, version, creations=creations)
    deletions = [DeleteAclsRequest.Filter(resource_name_filter=name, **filters, **anything) for name in "ab"]
    both.same(ApiKey.DELETE_ACLS, version, filters=deletions)


@pytest.mark.parametrize("users", [None, [], ["me"], ["me", "me", "you", ""]], ids=str)
def test_scram_credentials(both: Both, users: list[str] | None) -> None:
    requested = None if users is None else [DescribeUserScramCredentialsRequest.User(name=user) for user in users]
    both.same(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=requested)


@every_version(ApiKey.CREATE_DELEGATION_TOKEN)
def test_delegation_tokens(both: Both, version: int) -> None:
    Renewer = CreateDelegationTokenRequest.Renewer  # noqa: N806
    renewers = [Renewer(principal_type="User", principal_name="you")]
    owner = {"owner_principal_type": "User", "owner_principal_name": "me"}
    for whose in ({}, owner) if version >= 3 else ({},):
        both.same(ApiKey.CREATE_DELEGATION_TOKEN, version, renewers=renewers, max_lifetime_ms=-1, **whose)
    neither: tuple[None, list[Any]] = (None, [])
    for owners in neither:
        both.same(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, owners=owners)
    if version in APIS[ApiKey.RENEW_DELEGATION_TOKEN].versions:
        both.same(ApiKey.RENEW_DELEGATION_TOKEN, version, hmac=b"token", renew_period_ms=1)
        both.same(ApiKey.EXPIRE_DELEGATION_TOKEN, version, hmac=b"token", expiry_time_period_ms=1)


class TestClientQuotas:
    def alter(self, both: Both, version: int, *entries: Quotas, validate_only: bool = False) -> list[int]:
        requested = {"entries": list(entries), "validate_only": validate_only}
        return [
            answer["error_code"] for answer in both.same(ApiKey.ALTER_CLIENT_QUOTAS, version, **requested)["entries"]
        ]

    def described(self, both: Both, version: int, *components: tuple[str, int, str | None], strict: bool) -> int:
        """Return how many entities match, once Kafka's broker has applied its controller's decision."""
        wanted = [
            DescribeClientQuotasRequest.Component(entity_type=kind, match_type=how, match=match)
            for kind, how, match in components
        ]
        deadline = time.monotonic() + APPLIED_S
        while True:
            try:
                answer = both.same(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=wanted, strict=strict)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            else:
                return len(answer["entries"] or [])

    @every_version(ApiKey.DESCRIBE_CLIENT_QUOTAS)
    def test_quotas_that_are_set_and_removed_are_described(self, both: Both, version: int) -> None:
        kept = [
            quotas({"user": "u"}, producer_byte_rate=1000.0, request_percentage=12.5),
            quotas({"user": None}, consumer_byte_rate=5.0),
            quotas({"user": "u", "client-id": None}, controller_mutation_rate=0.5),
            quotas({"client-id": "c"}, consumer_byte_rate=7.0, producer_byte_rate=2.0**63),
            quotas({"ip": "10.0.0.1"}, connection_creation_rate=3.0),
        ]
        assert self.alter(both, version, *kept) == [ErrorCode.NONE] * 5
        assert self.described(both, version, strict=False) == 5
        for strict, found in ((False, 2), (True, 1)):
            assert self.described(both, version, ("user", 0, "u"), strict=strict) == found
        assert self.described(both, version, ("user", 1, None), strict=False) == 1
        assert self.described(both, version, ("user", 2, None), ("client-id", 2, None), strict=True) == 1
        assert self.described(both, version, ("ip", 2, None), strict=True) == 1
        none = [quotas({"user": "u"}, producer_byte_rate=None), quotas({"user": None}, consumer_byte_rate=1.0)]
        self.alter(both, version, *none, validate_only=True)
        gone = [Quotas(entity=entry.entity, ops=[removal(op.key) for op in entry.ops]) for entry in kept]
        assert self.described(both, version, strict=False) == 5
        assert self.alter(both, version, *gone) == [ErrorCode.NONE] * 5
        assert self.described(both, version, strict=False) == 0

    @pytest.mark.parametrize(
        "refused",
        [
            ({}, {"producer_byte_rate": 1.0}),
            ({"group": "g"}, {"producer_byte_rate": 1.0}),
            ({"user": ""}, {"producer_byte_rate": 1.0}),
            ({"user": "u", "ip": "::1"}, {"producer_byte_rate": 1.0}),
            ({"ip": "no host at all"}, {"connection_creation_rate": 1.0}),
            ({"user": "u"}, {"connection_creation_rate": 1.0}),
            ({"ip": "::1"}, {"producer_byte_rate": 1.0}),
            ({"user": "u"}, {"producer_byte_rate": 0.0}),
            ({"user": "u"}, {"producer_byte_rate": 2.0**64}),
            ({"user": "u"}, {"consumer_byte_rate": 1.5}),
            ({"ip": "::1"}, {"connection_creation_rate": 2.0**31}),
            ({"user": "u"}, {"no_such_rate": 1.0}),
        ],
        ids=repr,
    )
    def test_what_cannot_be_set(self, both: Both, refused: tuple[dict[str, str | None], dict[str, float]]) -> None:
        entity, values = refused
        assert self.alter(both, 1, quotas(entity, **values)) == [ErrorCode.INVALID_REQUEST]

    @pytest.mark.parametrize(
        "component",
        [("", 2, None), ("group", 2, None), ("user", 0, None), ("user", 1, "u"), ("user", 2, "u"), ("user", 3, None)],
        ids=repr,
    )
    def test_invalid_quota_filters_are_rejected(self, both: Both, component: tuple[str, int, str | None]) -> None:
        kind, how, match = component
        wanted = [DescribeClientQuotasRequest.Component(entity_type=kind, match_type=how, match=match)]
        answer = both.same(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=wanted, strict=False)
        assert answer["error_code"] in (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION)


def quotas(entity: dict[str, str | None], **values: float | None) -> Quotas:
    return Quotas(
        entity=[Quotas.Entity(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            removal(key) if value is None else Quotas.Op(key=key, value=value, remove=False)
            for key, value in values.items()
        ],
    )


def removal(key: str) -> Quotas.Op:
    return Quotas.Op(key=key, value=0.0, remove=True)


@pytest.mark.parametrize("version", range(3, 6))
@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(5, -1), (-1, 5)])
def test_a_producer_id_without_an_epoch(both: Both, version: int, producer_id: int, producer_epoch: int) -> None:
    answer = both.same(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=None,
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    assert answer["error_code"] == ErrorCode.INVALID_REQUEST
