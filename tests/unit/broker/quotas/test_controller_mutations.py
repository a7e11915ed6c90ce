"""Quotas of controller mutations: the rules, and the requests of a client with a quota."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.monitoring.exposition import lines
from broker.monitoring.quota_tables import TABLES
from broker.monitoring.rate import SampleWindow
from broker.quotas.client_quotas import CONTROLLER_MUTATION
from broker.quotas.controller_mutations import (
    STRICT_FROM,
    ControllerMutationQuotaManager,
    MutationQuota,
    MutationUsage,
)
from controller.image import quota_entity
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.primitives import ZERO_UUID
from tests.unit.broker.whole_broker import WholeBroker

ANN = quota_entity([("user", "ann")])
EACH_CLIENT = quota_entity([("client-id", None)])


class Mutations:
    """A manager, and its clock."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.manager = ControllerMutationQuotaManager(SampleWindow(11, 1000), lambda: self.now_ms)

    def of(self, client_id: str = "app", *, strict: bool = True) -> MutationQuota:
        version = STRICT_FROM[ApiKey.CREATE_TOPICS] - (not strict)
        return self.manager.of_request(ApiKey.CREATE_TOPICS, version, "ann", client_id)


@pytest.fixture
def mutations() -> Mutations:
    return Mutations()


def test_new_client_may_come_while_usages_are_read(mutations: Mutations) -> None:
    mutations.manager.apply({EACH_CLIENT: {CONTROLLER_MUTATION: 1.0}})
    for client_id in ("one", "two"):
        mutations.of(client_id).record(2)
    usages = mutations.manager.usages()
    next(usages)
    mutations.of("three").record(2)
    assert [client_id for (_, client_id), *_ in usages] == ["two"]


@pytest.mark.parametrize(
    ("key", "first_strict"), [(ApiKey.CREATE_TOPICS, 6), (ApiKey.CREATE_PARTITIONS, 3), (ApiKey.DELETE_TOPICS, 5)]
)
def test_mutations_above_the_quota_are_refused_from_the_versions_of_kip_599_on(
    mutations: Mutations, key: ApiKey, first_strict: int
) -> None:
    mutations.manager.apply({ANN: {CONTROLLER_MUTATION: 1.0}})
    mutations.of().record(12)
    mutations.manager.of_request(key, first_strict - 1, "ann", "app").record(1)
    with pytest.raises(KafkaError) as refused:
        mutations.manager.of_request(key, first_strict, "ann", "app").record(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_strict_mutation_is_refused_until_the_debt_is_repaid(mutations: Mutations) -> None:
    mutations.manager.apply({ANN: {CONTROLLER_MUTATION: 1.0}})
    first = mutations.of()
    first.record(13)
    assert first.throttle_ms == 0
    mutations.now_ms = 500
    refused = mutations.of("other client of the user")
    with pytest.raises(KafkaError) as raised:
        refused.record(1)
    assert raised.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused.throttle_ms == 1500
    mutations.now_ms = 2000
    mutations.of().record(1)


def test_the_first_topic_above_the_quota_refuses_the_later_ones_of_a_request(mutations: Mutations) -> None:
    mutations.manager.apply({ANN: {CONTROLLER_MUTATION: 1.0}})
    quota = mutations.of()
    quota.record(6)
    quota.record(6)
    with pytest.raises(KafkaError):
        quota.record(1)
    assert quota.throttle_ms == 1000


def test_a_permissive_mutation_is_admitted_and_has_the_time_to_wait(mutations: Mutations) -> None:
    mutations.manager.apply({ANN: {CONTROLLER_MUTATION: 1.0}})
    quota = mutations.of(strict=False)
    quota.record(13)
    assert quota.throttle_ms == 2000
    quota.record(1)
    assert quota.throttle_ms == 3000


def test_another_quota_applies_to_the_debt_and_none_ends_it(mutations: Mutations) -> None:
    mutations.manager.apply({ANN: {CONTROLLER_MUTATION: 1.0}})
    mutations.of().record(13)
    mutations.manager.apply({ANN: {CONTROLLER_MUTATION: 0.5}})
    quota = mutations.of()
    with pytest.raises(KafkaError):
        quota.record(1)
    assert quota.throttle_ms == 4000
    mutations.manager.apply({})
    unlimited = mutations.of()
    unlimited.record(10**9)
    assert unlimited.throttle_ms == 0


def test_memory_is_bounded_by_the_clients_of_one_window(mutations: Mutations) -> None:
    mutations.manager.apply({EACH_CLIENT: {CONTROLLER_MUTATION: 1e9}})
    for number in range(5000):
        mutations.now_ms = 100.0 * number
        mutations.of(f"client-{number}").record(1)
    assert mutations.manager.clients <= 250


def test_usage_is_idle_once_its_debt_is_repaid_and_its_rate_is_0() -> None:
    usage = MutationUsage(SampleWindow(11, 1000), 1.0, now_ms=0.0)
    assert usage.is_idle(0)
    usage.mutations.record(1, 0)
    assert [usage.is_idle(now_ms) for now_ms in (0, 10_999, 11_000)] == [False, False, True]
    usage.bucket.record(20, 11_000)
    assert [usage.is_idle(now_ms) for now_ms in (11_000, 30_999, 31_000)] == [False, False, True]


def test_usage_has_its_mutations_and_throttle_times(mutations: Mutations) -> None:
    quotas = {ANN: {CONTROLLER_MUTATION: 1.0}}
    mutations.manager.apply(quotas)
    first = mutations.manager._quotas
    mutations.of(strict=False).record(13)
    mutations.manager.apply(quotas)
    assert mutations.manager._quotas is first
    [(_, usage, now_ms)] = mutations.manager.usages()
    assert (usage.mutations.total(now_ms), usage.throttle_times.average_ms(now_ms)) == (13, 2000)


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[WholeBroker]:
    running = WholeBroker(
        str(tmp_path / "data"),
        auto_create_topics_enable="true",
        controller_quota_window_num="1",
        controller_quota_window_size_seconds="5",
    )
    running.wait(running.start())
    yield running
    running.wait(running.stop())
    running.loop.close()


def limit(whole: WholeBroker, rate: float) -> None:
    entry = AlterClientQuotasRequest.Entry
    ops = [entry.Op(key=CONTROLLER_MUTATION, value=rate, remove=False)]
    entity = [entry.Entity(entity_type="client-id", entity_name="test")]
    whole.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry(entity=entity, ops=ops)], validate_only=False)


def create(whole: WholeBroker, version: int, partitions: int, *names: str) -> Any:
    topics = [
        CreateTopicsRequest.Topic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        for name in names
    ]
    return whole.call(ApiKey.CREATE_TOPICS, version, topics=topics, timeout_ms=30_000)


def grow(whole: WholeBroker, version: int, count: int) -> Any:
    topic = CreatePartitionsRequest.Topic(name="a", count=count, assignments=None)
    answer = whole.call(ApiKey.CREATE_PARTITIONS, version, topics=[topic], timeout_ms=30_000, validate_only=False)
    return answer.results[0].error_code, answer.throttle_time_ms


def delete(whole: WholeBroker, version: int, name: str) -> Any:
    topics = [DeleteTopicsRequest.Topic(name=name, topic_id=ZERO_UUID)] if version > 5 else []
    names = [] if topics else [name]
    answer = whole.call(ApiKey.DELETE_TOPICS, version, topics=topics, topic_names=names, timeout_ms=30_000)
    return answer.responses[0].error_code, answer.throttle_time_ms


def test_newer_versions_are_refused_above_the_quota_and_older_ones_only_throttled(whole: WholeBroker) -> None:
    limit(whole, 0.001)
    created = create(whole, 7, 1, "a", "b")
    assert [topic.error_code for topic in created.topics] == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert created.topics[1].error_message is None
    assert created.throttle_time_ms > 900_000
    assert create(whole, 7, 1, "a").topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS  # which needs no quota
    code, throttle_ms = grow(whole, 3, 2)
    assert (code, throttle_ms > 900_000) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)
    code, throttle_ms = delete(whole, 6, "a")
    assert (code, throttle_ms > 900_000) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)

    created = create(whole, 5, 1, "b")
    assert (created.topics[0].error_code, created.throttle_time_ms > 1_900_000) == (0, True)
    code, throttle_ms = grow(whole, 2, 3)
    assert (code, throttle_ms > 3_900_000) == (0, True)
    code, throttle_ms = delete(whole, 4, "a")
    assert (code, throttle_ms > 6_900_000) == (0, True)

    page = "".join(lines(TABLES, whole.node))
    assert 'kafka_server_controllermutation_tokens{user="",client_id="test"} -6.9' in page
    assert 'kafka_server_controllermutation_throttle_time{user="",client_id="test"} ' in page


def test_a_topic_that_metadata_may_not_create_now_is_unknown_until_a_later_request(whole: WholeBroker) -> None:
    limit(whole, 0.001)
    create(whole, 7, 1, "a")

    def error_of(name: str) -> int:
        topic = MetadataRequest.Topic(name=name)
        answer = whole.call(ApiKey.METADATA, 12, topics=[topic], allow_auto_topic_creation=True)
        return int(answer.topics[0].error_code)

    assert error_of("wanted") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    limit(whole, 1e9)  # repays the debt at once
    assert error_of("wanted") == 0
