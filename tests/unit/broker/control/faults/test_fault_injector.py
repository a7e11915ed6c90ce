"""Rules act on the requests of clients: each action, before the request has its effect and after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.primitives import ZERO_UUID
from protocol.record_batch import build_batch, crc_matches, iter_batches, iter_records, read_header
from tests.unit.broker.control.controlled_broker import ControlledBroker

FAILED = ErrorCode.NOT_LEADER_OR_FOLLOWER
NONE = ErrorCode.NONE


@pytest.fixture
def broker(start: Callable[..., ControlledBroker]) -> ControlledBroker:
    """Start a broker with the topics t, of two partitions, and u."""
    found = start()
    found.post("/v1/topics", topic="t", partitions=2)
    found.post("/v1/topics", topic="u")
    return found


def fail(broker: ControlledBroker, api: str, /, *, when: str = "before", **condition: Any) -> int:
    """Let requests fail with `FAILED`; return the rule's id."""
    created = broker.post("/v1/faults", api=api, action={"error": FAILED.name, "when": when}, **condition)
    assert created.status == 201, created
    rule_id: int = created.content["id"]
    return rule_id


def act(broker: ControlledBroker, api: str, action: dict[str, Any], /, **condition: Any) -> int:
    created = broker.post("/v1/faults", api=api, action=action, **condition)
    assert created.status == 201, created
    rule_id: int = created.content["id"]
    return rule_id


def topic_id(broker: ControlledBroker, topic: str) -> bytes:
    return broker.broker.image.topics_by_name()[topic].topic_id


def produce_fields(broker: ControlledBroker, version: int, acks: int, *partitions: tuple[str, int]) -> dict[str, Any]:
    """Return the fields of a Produce of one record for each partition."""
    by_topic: dict[str, list[Any]] = {}
    for topic, index in partitions:
        row = ProduceRequest.Topic.Partition(index=index, records=bytes(build_batch([(None, b"v")], timestamp_ms=1)))
        by_topic.setdefault(topic, []).append(row)
    topics = [
        ProduceRequest.Topic(name=topic, topic_id=topic_id(broker, topic), partition_data=rows)
        for topic, rows in by_topic.items()
    ]
    return {"transactional_id": None, "acks": acks, "timeout_ms": 5_000, "topic_data": topics}


def produce(broker: ControlledBroker, *partitions: tuple[str, int], version: int = 13, acks: int = -1) -> Any:
    """Produce one record to each partition; return the error codes by partition."""
    response = broker.call(ApiKey.PRODUCE, version, **produce_fields(broker, version, acks, *partitions))
    return produced(broker, response)


def produced(broker: ControlledBroker, response: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (name_of(broker, topic.name, topic.topic_id), row.index): ErrorCode(row.error_code)
        for topic in response.responses
        for row in topic.partition_responses
    }


def name_of(broker: ControlledBroker, name: str, topic_id: bytes) -> str:
    found = None if name or topic_id == ZERO_UUID else broker.broker.image.topic_by_id(topic_id)
    return name if found is None else found.name


def ends(broker: ControlledBroker) -> dict[str, int]:
    """Return the log ends of all partitions of t and u."""
    return {
        f"{topic}-{one['partition']}": one["offsets"]["log_end"]
        for topic in ("t", "u")
        for one in broker.get(f"/v1/topics/{topic}").content["partitions"]
    }


EVERYTHING = (("t", 0), ("t", 1), ("u", 0))


# Errors.


@pytest.mark.parametrize("version", [3, 8, 12, 13])
@pytest.mark.parametrize("acks", [1, -1])
def test_an_error_is_that_of_the_partition_that_the_rule_names(
    broker: ControlledBroker, version: int, acks: int
) -> None:
    fail(broker, "Produce", topic="t", partition=1)
    codes = produce(broker, *EVERYTHING, version=version, acks=acks)
    assert codes == {("t", 0): NONE, ("u", 0): NONE, ("t", 1): FAILED}
    assert ends(broker) == {"t-0": 1, "t-1": 0, "u-0": 1}


def test_an_error_after_the_append_leaves_the_record(broker: ControlledBroker) -> None:
    fail(broker, "Produce", topic="t", partition=1, when="after")
    assert produce(broker, *EVERYTHING) == {("t", 0): NONE, ("t", 1): FAILED, ("u", 0): NONE}
    assert ends(broker) == {"t-0": 1, "t-1": 1, "u-0": 1}


def test_a_rule_without_a_topic_fails_the_whole_request(broker: ControlledBroker) -> None:
    fail(broker, "Produce")
    assert produce(broker, *EVERYTHING) == dict.fromkeys(EVERYTHING, FAILED)
    assert ends(broker) == {"t-0": 0, "t-1": 0, "u-0": 0}


def test_a_failed_partition_has_no_offset(broker: ControlledBroker) -> None:
    fail(broker, "Produce", topic="u")
    response = broker.call(ApiKey.PRODUCE, 13, **produce_fields(broker, 13, -1, ("u", 0)))
    [row] = response.responses[0].partition_responses
    assert (row.base_offset, row.error_message) == (-1, "injected by a fault rule of the control API")


def test_the_fast_path_of_one_plain_partition_is_subject_to_rules(broker: ControlledBroker) -> None:
    rule_id = fail(broker, "Produce", topic="t", count=1)
    assert produce(broker, ("t", 0)) == {("t", 0): FAILED}
    assert produce(broker, ("t", 0)) == {("t", 0): NONE}
    assert broker.get(f"/v1/faults/{rule_id}").content["hits"] == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_error_closes_the_connection_of_a_producer_that_reads_no_response(
    broker: ControlledBroker, when: str
) -> None:
    fail(broker, "Produce", topic="t", when=when)
    with pytest.raises(asyncio.IncompleteReadError):
        produce(broker, ("t", 0), acks=0)
    assert ends(broker)["t-0"] == (when == "after")


def fetch(broker: ControlledBroker, version: int, *partitions: tuple[str, int], **fields: Any) -> Any:
    """Fetch from offset 0; return the response."""
    by_topic: dict[str, list[Any]] = {}
    for topic, index in partitions:
        row = FetchRequest.Topic.Partition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        by_topic.setdefault(topic, []).append(row)
    topics = [
        FetchRequest.Topic(topic=topic, topic_id=topic_id(broker, topic), partitions=rows)
        for topic, rows in by_topic.items()
    ]
    named = {"max_wait_ms": 60_000, "min_bytes": 1, "topics": topics} | fields
    return broker.call(ApiKey.FETCH, version, **named)


def fetched(broker: ControlledBroker, response: Any) -> dict[tuple[str, int], Any]:
    """Return the error, or the number of records, by partition."""
    found: dict[tuple[str, int], Any] = {}
    for topic in response.responses:
        for row in topic.partitions:
            data = bytes(row.records or b"")
            batches = [data[at : at + header.size_bytes] for at, header in iter_batches(data)]
            count = sum(len(list(iter_records(batch))) for batch in batches)
            found[name_of(broker, topic.topic, topic.topic_id), row.partition_index] = (
                ErrorCode(row.error_code) if row.error_code else count
            )
    return found


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_a_fetch_has_the_error_of_one_partition_and_the_records_of_the_others(
    broker: ControlledBroker, version: int
) -> None:
    produce(broker, *EVERYTHING)
    fail(broker, "Fetch", topic="t", partition=1)
    assert fetched(broker, fetch(broker, version, *EVERYTHING)) == {("t", 0): 1, ("u", 0): 1, ("t", 1): FAILED}


def test_a_fetch_that_would_wait_for_records_has_its_error_at_once(broker: ControlledBroker) -> None:
    fail(broker, "Fetch", topic="t", partition=1)
    assert fetched(broker, fetch(broker, 18, ("t", 0), ("t", 1), max_wait_ms=600_000)) == {
        ("t", 0): 0,
        ("t", 1): FAILED,
    }


def test_a_fetch_in_a_session_has_the_error_of_a_partition_that_it_does_not_name(broker: ControlledBroker) -> None:
    produce(broker, *EVERYTHING)
    first = fetch(broker, 18, *EVERYTHING, session_epoch=0)
    assert first.session_id
    fail(broker, "Fetch", topic="t", partition=1, count=1)
    second = fetch(broker, 18, session_id=first.session_id, session_epoch=1)
    assert fetched(broker, second) == {("t", 0): 1, ("t", 1): FAILED, ("u", 0): 1}
    third = fetch(broker, 18, session_id=first.session_id, session_epoch=2)
    assert fetched(broker, third)["t", 1] == 1, "the records that the error replaced are sent later"


def test_a_partition_that_left_the_session_has_no_error(broker: ControlledBroker) -> None:
    produce(broker, *EVERYTHING)
    first = fetch(broker, 18, *EVERYTHING, session_epoch=0)
    forgotten = FetchRequest.ForgottenTopic(topic_id=topic_id(broker, "t"), partitions=[1])
    rule_id = fail(broker, "Fetch", topic="t", partition=1)
    response = fetch(
        broker, 18, session_id=first.session_id, session_epoch=1, forgotten_topics_data=[forgotten], max_wait_ms=0
    )
    assert ("t", 1) not in fetched(broker, response)
    assert broker.get(f"/v1/faults/{rule_id}").content["matches"] == 0


def test_an_error_of_a_whole_fetch_is_that_of_the_response(broker: ControlledBroker) -> None:
    fail(broker, "Fetch")
    assert fetch(broker, 18, ("t", 0)).error_code == FAILED


def test_metadata_has_the_error_of_a_topic_in_requests_for_all_topics_too(broker: ControlledBroker) -> None:
    fail(broker, "Metadata", topic="t")
    named = [MetadataRequest.Topic(name=name, topic_id=ZERO_UUID) for name in ("t", "u")]
    for topics in (None, named):
        response = broker.call(ApiKey.METADATA, 12, topics=topics)
        codes = {topic.name: topic.error_code for topic in response.topics if not topic.is_internal}
        assert codes == {"t": FAILED, "u": NONE}
        [works] = [topic for topic in response.topics if topic.name == "u"]
        assert [one.leader_id for one in works.partitions] == [1]


@pytest.mark.parametrize("version", [1, 7, 11])
def test_list_offsets_has_the_error_of_one_partition(broker: ControlledBroker, version: int) -> None:
    fail(broker, "ListOffsets", topic="t", partition=0)
    rows = [ListOffsetsRequest.Topic.Partition(partition_index=index, timestamp=-1) for index in (0, 1)]
    response = broker.call(
        ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[ListOffsetsRequest.Topic(name="t", partitions=rows)]
    )
    [topic] = response.topics
    assert {row.partition_index: row.error_code for row in topic.partitions} == {0: FAILED, 1: NONE}


@pytest.mark.parametrize("version", [2, 8, 9])
def test_a_commit_fails_for_one_partition(broker: ControlledBroker, version: int) -> None:
    broker.call(ApiKey.FIND_COORDINATOR, 3, key="g")
    fail(broker, "OffsetCommit", topic="t", partition=0, group="g")
    fail(broker, "OffsetFetch", group="h")
    rows = [
        OffsetCommitRequest.Topic.Partition(partition_index=index, committed_offset=7, committed_metadata=None)
        for index in (0, 1)
    ]
    topics = [OffsetCommitRequest.Topic(name="t", partitions=rows)]
    response = broker.call(ApiKey.OFFSET_COMMIT, version, group_id="g", member_id="", topics=topics)
    assert {row.partition_index: row.error_code for row in response.topics[0].partitions} == {0: FAILED, 1: NONE}
    wanted = [OffsetFetchRequest.Topic(name="t", partition_indexes=[0, 1])]
    stored = broker.call(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=wanted)
    assert {row.partition_index: row.committed_offset for row in stored.topics[0].partitions} == {0: -1, 1: 7}


@pytest.mark.parametrize("version", [5, 8, 9])
def test_fetched_offsets_have_the_error_of_one_partition(broker: ControlledBroker, version: int) -> None:
    broker.call(ApiKey.FIND_COORDINATOR, 3, key="g")
    fail(broker, "OffsetFetch", topic="t", partition=0)
    if version < 8:
        wanted: Any = {"group_id": "g", "topics": [OffsetFetchRequest.Topic(name="t", partition_indexes=[0, 1])]}
    else:
        topics = [OffsetFetchRequest.Group.Topic(name="t", partition_indexes=[0, 1])]
        wanted = {"groups": [OffsetFetchRequest.Group(group_id="g", topics=topics)]}
    response = broker.call(ApiKey.OFFSET_FETCH, version, **wanted)
    topic = response.topics[0] if version < 8 else response.groups[0].topics[0]
    assert {row.partition_index: row.error_code for row in topic.partitions} == {0: FAILED, 1: NONE}


def test_a_created_topic_fails_beside_another(broker: ControlledBroker) -> None:
    fail(broker, "CreateTopics", topic="bad*")
    wanted = [
        CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in ("bad1", "good")
    ]
    response = broker.call(ApiKey.CREATE_TOPICS, 7, topics=wanted)
    assert {topic.name: topic.error_code for topic in response.topics} == {"bad1": FAILED, "good": NONE}
    assert broker.broker.image.topic("bad1") is None


@pytest.mark.parametrize("version", [5, 6])
def test_a_deleted_topic_fails_beside_another(broker: ControlledBroker, version: int) -> None:
    fail(broker, "DeleteTopics", topic="t")
    wanted = [DeleteTopicsRequest.Topic(name=name, topic_id=ZERO_UUID) for name in ("t", "u")]
    fields = {"topics": wanted} if version == 6 else {"topic_names": ["t", "u"]}
    response = broker.call(ApiKey.DELETE_TOPICS, version, timeout_ms=5_000, **fields)
    assert {topic.name: topic.error_code for topic in response.responses} == {"t": FAILED, "u": NONE}
    assert broker.broker.image.topic("t") is not None


def test_a_partition_is_not_added_to_a_transaction(broker: ControlledBroker) -> None:
    broker.call(ApiKey.FIND_COORDINATOR, 3, key="x", key_type=1)
    producer = broker.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id="x", transaction_timeout_ms=60_000)
    fail(broker, "AddPartitionsToTxn", transactional_id="x", topic="t", partition=1)
    response = broker.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name="t", partitions=[0, 1])],
    )
    [topic] = response.results_by_topic_v3_and_below
    codes = {row.partition_index: row.partition_error_code for row in topic.results_by_partition}
    assert codes == {0: NONE, 1: FAILED}


def test_an_error_without_topics_is_that_of_the_api(broker: ControlledBroker) -> None:
    fail(broker, "FindCoordinator", group="g")
    assert broker.call(ApiKey.FIND_COORDINATOR, 3, key="g").error_code == FAILED
    assert broker.call(ApiKey.FIND_COORDINATOR, 3, key="h").error_code == NONE
    [found] = broker.call(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=["g"]).coordinators
    assert (found.key, found.error_code) == ("g", FAILED)


# Lost connections.


def test_a_connection_is_lost_before_the_append(broker: ControlledBroker) -> None:
    act(broker, "Produce", {"disconnect": "before"})
    with pytest.raises(asyncio.IncompleteReadError):
        produce(broker, ("t", 0))
    assert ends(broker)["t-0"] == 0


@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledgement_is_lost_after_the_append(broker: ControlledBroker, acks: int) -> None:
    act(broker, "Produce", {"disconnect": "after"})
    with pytest.raises(asyncio.IncompleteReadError):
        produce(broker, ("t", 0), acks=acks)
    assert ends(broker)["t-0"] == 1


def test_a_fetch_that_waits_is_lost_when_it_would_be_answered(broker: ControlledBroker) -> None:
    act(broker, "Fetch", {"disconnect": "after"})

    async def body() -> Any:
        topics = [
            FetchRequest.Topic(
                topic_id=topic_id(broker, "t"),
                partitions=[FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=100)],
            )
        ]
        fetching = asyncio.ensure_future(broker.query(ApiKey.FETCH, 18, max_wait_ms=60_000, min_bytes=1, topics=topics))
        await broker.ask("POST", "/v1/faults/1/wait", hits=1)
        await broker.ask("POST", "/v1/topics/t/records", records=[{"partition": 0, "value": "v"}])
        return await asyncio.gather(fetching, return_exceptions=True)

    [lost] = broker.wait(body())
    assert isinstance(lost, asyncio.IncompleteReadError)


# Delays and holds.


def test_a_held_request_has_its_effect_when_it_is_released(broker: ControlledBroker) -> None:
    rule_id = act(broker, "Produce", {"hold": "before"})

    async def body() -> Any:
        producing = asyncio.ensure_future(broker.query(ApiKey.PRODUCE, 13, **produce_fields(broker, 13, -1, ("t", 0))))
        assert (await broker.ask("POST", f"/v1/faults/{rule_id}/wait", hits=1)).content["seen"]["held"] == 1
        before = await broker.ask("GET", "/v1/topics/t")
        released = await broker.ask("POST", f"/v1/faults/{rule_id}/release")
        return before.content["partitions"][0]["offsets"]["log_end"], released.content, await producing

    end, released, response = broker.wait(body())
    assert (end, released) == (0, {"released": 1})
    assert produced(broker, response) == {("t", 0): NONE}
    assert ends(broker)["t-0"] == 1


def test_a_held_response_comes_after_the_effect(broker: ControlledBroker) -> None:
    rule_id = act(broker, "Produce", {"hold": "after"})

    async def body() -> Any:
        producing = asyncio.ensure_future(broker.query(ApiKey.PRODUCE, 13, **produce_fields(broker, 13, -1, ("t", 0))))
        await broker.ask("POST", "/v1/wait/log-end", topic="t", partition=0, offset=1)
        assert not producing.done()
        await broker.ask("DELETE", f"/v1/faults/{rule_id}")
        return await producing

    assert produced(broker, broker.wait(body())) == {("t", 0): NONE}


def test_requests_behind_a_held_one_keep_their_order(broker: ControlledBroker) -> None:
    """The second request of the connection is not subject to the rule, and is appended after the first."""
    rule_id = act(broker, "Produce", {"hold": "before"}, count=1)

    async def body() -> Any:
        first = produce_fields(broker, 13, -1, ("t", 0))
        second = produce_fields(broker, 13, 1, ("t", 0))
        pipelined = asyncio.ensure_future(broker.queries((ApiKey.PRODUCE, 13, first), (ApiKey.PRODUCE, 13, second)))
        await broker.ask("POST", f"/v1/faults/{rule_id}/wait", hits=1)
        await broker.ask("POST", f"/v1/faults/{rule_id}/release")
        return await pipelined

    offsets = [response.responses[0].partition_responses[0].base_offset for response in broker.wait(body())]
    assert offsets == [0, 1]


def test_a_held_request_of_a_closed_connection_has_no_effect(broker: ControlledBroker) -> None:
    rule_id = act(broker, "Produce", {"hold": "before"})

    async def body() -> None:
        producing = asyncio.ensure_future(broker.query(ApiKey.PRODUCE, 13, **produce_fields(broker, 13, -1, ("t", 0))))
        await broker.ask("POST", f"/v1/faults/{rule_id}/wait", hits=1)
        [client] = broker.node.shared.server.connections
        client.abort()
        await asyncio.gather(producing, return_exceptions=True)
        await broker.ask("POST", f"/v1/faults/{rule_id}/release")
        await broker.ask("POST", "/v1/topics/t/records", records=[{"partition": 0, "value": "v"}])

    broker.wait(body())
    assert ends(broker)["t-0"] == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_delay_takes_its_time(broker: ControlledBroker, when: str) -> None:
    act(broker, "Produce", {"delay_ms": 60, "when": when})
    begun = broker.loop.time()
    assert produce(broker, ("t", 0)) == {("t", 0): NONE}
    assert broker.loop.time() - begun >= 0.059


# Throttling and damage.


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        (ApiKey.API_VERSIONS, 2, {}),
        (ApiKey.METADATA, 12, {"topics": []}),
        (ApiKey.LIST_GROUPS, 5, {}),
        (ApiKey.FIND_COORDINATOR, 3, {"key": "g"}),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else None,
)
def test_a_throttled_response_has_the_time(
    broker: ControlledBroker, api: ApiKey, version: int, fields: dict[str, Any]
) -> None:
    act(broker, api.name.replace("_", ""), {"throttle_ms": 1})
    assert broker.call(api, version, **fields).throttle_time_ms == 1


def test_throttled_responses_of_the_fast_paths_have_the_time_and_their_records(broker: ControlledBroker) -> None:
    broker.post("/v1/faults", action={"throttle_ms": 1})
    response = broker.call(ApiKey.PRODUCE, 13, **produce_fields(broker, 13, -1, ("t", 0)))
    assert (response.throttle_time_ms, produced(broker, response)) == (1, {("t", 0): NONE})
    response = fetch(broker, 18, ("t", 0))
    assert (response.throttle_time_ms, fetched(broker, response)) == (1, {("t", 0): 1})


def test_a_throttled_connection_waits_and_another_does_not(broker: ControlledBroker) -> None:
    act(broker, "Metadata", {"throttle_ms": 60_000})

    async def body() -> bool:
        request: Any = (ApiKey.METADATA, 12, {"topics": []})
        muted = asyncio.ensure_future(broker.queries(request, (ApiKey.LIST_GROUPS, 5, {})))
        await broker.ask("POST", "/v1/faults/1/wait", hits=1)
        await broker.query(ApiKey.LIST_GROUPS, 5)
        done = muted.done()
        muted.cancel()
        return done

    assert broker.wait(body()) is False


def test_a_throttled_connection_goes_on_after_its_time(broker: ControlledBroker) -> None:
    act(broker, "Metadata", {"throttle_ms": 50}, count=1)
    begun = broker.loop.time()
    request: Any = (ApiKey.METADATA, 12, {"topics": []})
    first, second = broker.wait(broker.queries(request, request))
    assert broker.loop.time() - begun >= 0.049
    assert (first.throttle_time_ms, second.throttle_time_ms) == (50, 0)


@pytest.mark.parametrize("action", [{"throttle_ms": 600_000}, {"delay_ms": 600_000}, {"hold": "before"}], ids=str)
def test_without_rules_no_request_waits_any_longer(broker: ControlledBroker, action: dict[str, Any]) -> None:
    act(broker, "Metadata", action)

    async def body() -> list[Any]:
        request: Any = (ApiKey.METADATA, 12, {"topics": []})
        waiting = asyncio.ensure_future(broker.queries(request, request))
        await broker.ask("POST", "/v1/faults/1/wait", hits=1)
        await broker.ask("GET", "/v1")
        await broker.ask("DELETE", "/v1/faults")
        return await waiting

    assert len(broker.wait(body())) == 2


def test_damaged_records_do_not_fit_their_crc(broker: ControlledBroker) -> None:
    produce(broker, ("t", 0), ("u", 0))
    act(broker, "Fetch", {"corrupt": "records"})
    response = fetch(broker, 18, ("t", 0), ("u", 0))
    rows = {name_of(broker, "", topic.topic_id): bytes(topic.partitions[0].records) for topic in response.responses}
    assert [crc_matches(rows[topic], read_header(rows[topic])) for topic in ("t", "u")] == [False, True]


@pytest.mark.parametrize("what", ["body", "correlation_id", "truncate"])
def test_a_damaged_response_differs_from_the_right_one(broker: ControlledBroker, what: str) -> None:
    right = broker.wait(broker.frame(ApiKey.METADATA, 12, topics=None))
    act(broker, "Metadata", {"corrupt": what})
    if what == "truncate":
        with pytest.raises(asyncio.IncompleteReadError) as ended:
            broker.wait(broker.frame(ApiKey.METADATA, 12, topics=None))
        assert right.startswith(ended.value.partial)
        return
    damaged = broker.wait(broker.frame(ApiKey.METADATA, 12, topics=None))
    differing = [at for at, pair in enumerate(zip(right, damaged, strict=True)) if pair[0] != pair[1]]
    assert len(differing) == 1
    assert (differing[0] < 4) is (what == "correlation_id")


# Which requests.


def test_requests_that_no_rule_matches_are_handled_as_usual(broker: ControlledBroker) -> None:
    rule_id = fail(broker, "Produce", client_id="other", nth=1)
    assert produce(broker, ("t", 0)) == {("t", 0): NONE}
    assert broker.get(f"/v1/faults/{rule_id}").content["matches"] == 0


def test_the_nth_match_is_the_first_hit(broker: ControlledBroker) -> None:
    fail(broker, "Produce", nth=2, count=1)
    assert [produce(broker, ("t", 0))["t", 0] for _ in range(3)] == [NONE, FAILED, NONE]


def test_a_rule_of_another_broker_matches_nothing_here(broker: ControlledBroker) -> None:
    fail(broker, "Produce", broker=2)
    assert produce(broker, ("t", 0)) == {("t", 0): NONE}
    fail(broker, "Produce", broker=[1, 2])
    assert produce(broker, ("t", 0)) == {("t", 0): FAILED}


def test_a_damaged_request_still_closes_its_connection(broker: ControlledBroker) -> None:
    fail(broker, "Metadata", topic="t")

    async def body() -> bytes:
        host, _, port = broker.node.bootstrap.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\x00\x00\x00\x0d\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff\x00\x7f\x7f")
        answer = await reader.read()
        writer.close()
        return answer

    assert broker.wait(body()) == b""


def test_errors_of_rules_are_in_the_metrics(start: Callable[..., ControlledBroker]) -> None:
    broker = start(barnabas_metrics_listener="127.0.0.1:0")
    broker.post("/v1/topics", topic="t")
    fail(broker, "Produce", topic="t")
    produce(broker, ("t", 0))
    monitor: Any = broker.node.monitor
    assert monitor.errors.codes[ApiKey.PRODUCE, FAILED] == 1
