from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.authorization.audit_log import AuditLog
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.dispatch import encode_response
from broker.monitoring.rate import MAX_THROTTLE_MS, SampleWindow
from broker.network.connection import Connection
from broker.network.connection_protocol import DeferredResponse
from broker.quotas.client_quotas import FETCH, PRODUCE, REQUEST
from broker.quotas.quota_manager import QuotaManager
from broker.quotas.throttling_dispatcher import ThrottlingDispatcher, with_throttle_time
from broker.routes import ROUTES
from broker.runtime.deferred import Deferred
from controller.acls.acls_image import AclsImage
from controller.acls.authorizer import StandardAuthorizer
from controller.image import MetadataImage, quota_entity
from protocol.api import APIS, ApiKey, response_class
from protocol.errors import DecodeError
from protocol.fields import fields_of
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from protocol.primitives import Part, read_parts
from protocol.schema import Message
from tests.unit.broker.node import VirtualLoop
from tests.unit.broker.whole_broker import WholeBroker
from tests.unit.controller.acls.entries import acl, acl_id

APP = quota_entity([("client-id", "app")])


class Metadata(NamedTuple):
    image: MetadataImage


class Throttled:
    """A throttling dispatcher, the connection of a client, and what the listener's own dispatcher returns."""

    def __init__(self, loop: VirtualLoop, quotas: dict[str, float]) -> None:
        self.loop = loop
        self.outcome: Any = None
        self.handling_s = 0.0
        self.now_s = 0.0
        image = MetadataImage(cluster_id="", client_quotas={APP: quotas} if quotas else None)
        self._parts = (self._handle, QuotaManager(SampleWindow(11, 1000)), Metadata(image), loop, lambda: self.now_s)
        self._dispatcher = ThrottlingDispatcher(*self._parts)
        self.connection = Connection(1, "PLAINTEXT", "127.0.0.1")

    def authorize(self, *lines: str) -> None:
        """Have an authorizer with these entries, written as by `tests.unit.controller.acls.entries`."""
        builder = AclsImage().change()
        for number, line in enumerate(lines, 1):
            builder.add(acl_id(number), acl(line))
        metadata = Metadata(MetadataImage(cluster_id="", acls=builder.build(), offset=1))
        standard = StandardAuthorizer((), allow_if_no_acl=False)
        authorizer = RequestAuthorizer(standard, metadata, AuditLog(self.loop.time))
        self._dispatcher = ThrottlingDispatcher(*self._parts, authorizer)

    def _handle(self, _frame: memoryview, _connection: Connection) -> Any:
        self.now_s += self.handling_s
        return self.outcome

    def send(self, key: ApiKey, version: int, request: Message, client_id: str | None = "app") -> Any:
        header = RequestHeader(key, version, 7, client_id)
        return self._dispatcher(
            memoryview(bytearray(encode_request_header(header) + request.encode(version))), self.connection
        )

    def send_frame(self, frame: bytes) -> Any:
        return self._dispatcher(memoryview(bytearray(frame)), self.connection)


ClientWith = Callable[..., Throttled]
"""Type of fixture `client_with`: takes the client's quotas by kind."""


@pytest.fixture
def client_with() -> Iterator[ClientWith]:
    loop = VirtualLoop()
    yield lambda **quotas: Throttled(loop, quotas)
    loop.close()


def response(key: ApiKey, version: int, message: Message) -> list[Part]:
    return encode_response(RequestHeader(key, version, 7, "app"), message)


def decoded(key: ApiKey, version: int, parts: list[Part]) -> Any:
    frame = memoryview(bytearray(read_parts(parts)))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, body_at = decode_response_header(key, version, frame[4:])
    assert correlation_id == 7
    return response_class(key).decode(frame, version, 4 + body_at)


def produce(size: int, acks: int = -1) -> ProduceRequest:
    partition = ProduceRequest.Topic.Partition(index=0, records=memoryview(bytes(size)))
    topic = ProduceRequest.Topic(name="t", partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def fetch(version: int, replica_id: int = -1) -> FetchRequest:
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    if version >= 15:
        request.replica_state = FetchRequest.ReplicaState(replica_id=replica_id)
    else:
        request.replica_id = replica_id
    return request


def test_a_produce_above_the_quota_is_answered_at_once_and_mutes_its_connection(client_with: ClientWith) -> None:
    client = client_with(**{PRODUCE: 100.0})
    client.outcome = response(ApiKey.PRODUCE, 9, ProduceResponse(responses=[]))
    answer = decoded(ApiKey.PRODUCE, 9, client.send(ApiKey.PRODUCE, 9, produce(2000)))
    assert 10_000 < answer.throttle_time_ms < 12_000
    assert client.connection.muted_until == answer.throttle_time_ms / 1000
    assert not client.connection.may_handle


def test_a_produce_without_a_response_mutes_its_connection(client_with: ClientWith) -> None:
    client = client_with(**{PRODUCE: 100.0})
    assert client.send(ApiKey.PRODUCE, 9, produce(2000, acks=0)) is None
    assert client.connection.muted_until > 10


def test_a_produce_far_above_the_quota_is_answered(client_with: ClientWith) -> None:
    client = client_with(**{PRODUCE: 1.0})
    client.outcome = response(ApiKey.PRODUCE, 9, ProduceResponse(responses=[]))
    answer = decoded(ApiKey.PRODUCE, 9, client.send(ApiKey.PRODUCE, 9, produce(4_000_000)))
    assert answer.throttle_time_ms == MAX_THROTTLE_MS
    assert not client.connection.may_handle


def test_a_client_within_its_quota_or_without_one_is_not_throttled(client_with: ClientWith) -> None:
    client = client_with(**{PRODUCE: 1000.0})
    client.outcome = response(ApiKey.PRODUCE, 9, ProduceResponse(responses=[]))
    assert client.send(ApiKey.PRODUCE, 9, produce(2000)) is client.outcome
    assert client.send(ApiKey.PRODUCE, 9, produce(20_000), client_id="other") is client.outcome
    assert client.connection.may_handle


def test_without_quotas_the_outcome_is_that_of_the_listener(client_with: ClientWith) -> None:
    client = client_with()
    client.outcome = DeferredResponse(ApiKey.PRODUCE, Deferred(client.loop))
    assert client.send(ApiKey.PRODUCE, 9, produce(2000)) is client.outcome


@pytest.mark.parametrize("version", [4, 12, 17])
def test_the_bytes_of_a_fetch_response_are_counted_and_sent(client_with: ClientWith, version: int) -> None:
    client = client_with(**{FETCH: 100.0})
    partition = FetchResponse.Topic.Partition(
        partition_index=0, high_watermark=1, aborted_transactions=None, records=memoryview(bytes(2000))
    )
    topic = FetchResponse.Topic(topic="t", topic_id=bytes(16), partitions=[partition])
    client.outcome = response(ApiKey.FETCH, version, FetchResponse(responses=[topic]))
    answer = decoded(ApiKey.FETCH, version, client.send(ApiKey.FETCH, version, fetch(version)))
    assert answer.throttle_time_ms > 10_000
    assert len(answer.responses[0].partitions[0].records) == 2000
    assert not client.connection.may_handle


def test_the_controllers_throttle_time_mutes_the_connection_of_a_mutation(client_with: ClientWith) -> None:
    client = client_with(**{REQUEST: 1000.0})
    request = CreateTopicsRequest(topics=[], timeout_ms=1000)
    client.outcome = response(ApiKey.CREATE_TOPICS, 7, CreateTopicsResponse(throttle_time_ms=1500, topics=[]))
    answer = decoded(ApiKey.CREATE_TOPICS, 7, client.send(ApiKey.CREATE_TOPICS, 7, request))
    assert answer.throttle_time_ms == 1500
    assert client.connection.muted_until == 1.5


@pytest.mark.parametrize("version", [12, 15])
def test_the_follower_with_id_0_is_not_throttled(client_with: ClientWith, version: int) -> None:
    client = client_with(**{FETCH: 1.0})
    client.outcome = response(ApiKey.FETCH, version, FetchResponse(responses=[]))
    for _ in range(10):
        assert client.send(ApiKey.FETCH, version, fetch(version, replica_id=0)) is client.outcome
    assert client.connection.may_handle


def test_requests_that_need_no_permission_count_for_the_request_quota(client_with: ClientWith) -> None:
    client = client_with(**{REQUEST: 1.0})
    client.handling_s = 5.0
    client.outcome = response(ApiKey.API_VERSIONS, 3, ApiVersionsResponse(api_keys=[]))
    request = ApiVersionsRequest(client_software_name="app", client_software_version="1")
    client.send(ApiKey.API_VERSIONS, 3, request)
    assert not client.connection.may_handle


@pytest.mark.parametrize("version", [4, 12, 14, 15, 17])
def test_a_follower_is_not_throttled(client_with: ClientWith, version: int) -> None:
    client = client_with(**{FETCH: 1.0, REQUEST: 1.0})
    client.handling_s = 5.0
    client.outcome = response(ApiKey.FETCH, version, FetchResponse(responses=[]))
    assert client.send(ApiKey.FETCH, version, fetch(version, replica_id=2)) is client.outcome
    assert client.connection.may_handle
    client.send(ApiKey.FETCH, version, fetch(version))
    assert not client.connection.may_handle


def test_a_request_that_clients_and_brokers_send_is_throttled(client_with: ClientWith) -> None:
    client = client_with(**{REQUEST: 1.0})
    client.handling_s = 5.0
    client.outcome = response(
        ApiKey.ADD_PARTITIONS_TO_TXN, 3, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[])
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[],
    )
    client.send(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
    assert not client.connection.may_handle


@pytest.mark.parametrize(
    "frame",
    [
        encode_request_header(RequestHeader(ApiKey.FETCH, 17, 7, "app")) + b"\xff",
        encode_request_header(RequestHeader(ApiKey.FETCH, 12, 7, "app")),
        encode_request_header(RequestHeader(ApiKey.FETCH, 4, 7, "app")) + b"\0\0\0",
        encode_request_header(RequestHeader(ApiKey.SHARE_FETCH, 1, 7, "app")),
    ],
    ids=["damaged", "empty", "short", "without a route"],
)
def test_a_request_that_cannot_be_read_is_handed_on_and_throttled(client_with: ClientWith, frame: bytes) -> None:
    client = client_with(**{REQUEST: 1.0})
    client.handling_s = 5.0
    assert client.send_frame(frame) is None
    assert not client.connection.may_handle


@pytest.mark.parametrize(("handling_s", "is_throttled"), [(0.0995, False), (0.1005, True)])
def test_time_of_the_event_loop_is_a_percentage_of_the_window(
    client_with: ClientWith, handling_s: float, is_throttled: bool
) -> None:
    client = client_with(**{REQUEST: 1.0})
    client.handling_s = handling_s
    client.send(ApiKey.PRODUCE, 9, produce(1))
    assert client.connection.may_handle != is_throttled


def test_a_client_without_an_id_and_a_mutation_without_a_response_are_handled(client_with: ClientWith) -> None:
    client = client_with(**{PRODUCE: 1.0})
    assert client.send(ApiKey.PRODUCE, 9, produce(2000), client_id=None) is None
    request = CreateTopicsRequest(topics=[], timeout_ms=1000)
    assert client.send(ApiKey.CREATE_TOPICS, 7, request, client_id=None) is None
    assert client.connection.may_handle


def test_a_request_of_another_broker_is_not_throttled(client_with: ClientWith) -> None:
    client = client_with(**{REQUEST: 1.0})
    client.handling_s = 5.0
    client.outcome = response(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersResponse(markers=[]))
    assert client.send(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[])) is client.outcome
    assert client.connection.may_handle


@pytest.mark.parametrize("acl", [[], ["allow User:ANONYMOUS CLUSTER_ACTION CLUSTER:kafka-cluster"]])
def test_a_client_that_may_not_act_as_a_broker_is_throttled_when_it_claims_to_be_one(
    client_with: ClientWith, acl: list[str]
) -> None:
    client = client_with(**{FETCH: 1.0, REQUEST: 1.0})
    client.authorize(*acl)
    client.handling_s = 5.0
    client.outcome = response(ApiKey.FETCH, 17, FetchResponse(responses=[]))
    client.send(ApiKey.FETCH, 17, fetch(17, replica_id=2))
    fetched = client.connection.may_handle
    client.connection.unmute()
    client.outcome = response(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersResponse(markers=[]))
    client.send(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[]))
    assert (fetched, client.connection.may_handle) == (bool(acl), bool(acl))


def test_time_of_the_event_loop_throttles_for_one_sample_at_most(client_with: ClientWith) -> None:
    client = client_with(**{REQUEST: 1.0})
    client.outcome = response(ApiKey.LIST_OFFSETS, 7, ListOffsetsResponse(topics=[]))
    request = ListOffsetsRequest(replica_id=-1, topics=[])
    client.handling_s = 0.09  # 9 % of a second, of a quota of 1 % over 10 s
    assert client.send(ApiKey.LIST_OFFSETS, 7, request) is client.outcome
    client.handling_s = 5.0
    answer = decoded(ApiKey.LIST_OFFSETS, 7, client.send(ApiKey.LIST_OFFSETS, 7, request))
    assert answer.throttle_time_ms == 1000


@pytest.mark.parametrize("kind", ["deferred", "future"])
def test_a_response_that_comes_later_is_throttled_then(client_with: ClientWith, kind: str) -> None:
    client = client_with(**{PRODUCE: 100.0})
    later: Any = Deferred(client.loop) if kind == "deferred" else client.loop.create_future()
    client.outcome = DeferredResponse(ApiKey.PRODUCE, later)
    outcome = client.send(ApiKey.PRODUCE, 9, produce(2000))
    assert client.connection.may_handle
    parts = response(ApiKey.PRODUCE, 9, ProduceResponse(responses=[]))
    (later.answer if kind == "deferred" else later.set_result)(parts)
    client.loop.run_until_complete(asyncio.sleep(0))
    assert decoded(ApiKey.PRODUCE, 9, outcome.response.result()).throttle_time_ms > 10_000
    assert not client.connection.may_handle


def test_a_request_that_fails_later_fails_and_one_that_is_cancelled_cancels_the_wait(client_with: ClientWith) -> None:
    client = client_with(**{FETCH: 100.0})
    for ended in (True, False):
        later: Deferred[Any] = Deferred(client.loop)
        client.outcome = DeferredResponse(ApiKey.FETCH, later)
        outcome = client.send(ApiKey.FETCH, 12, fetch(12))
        if ended:
            later.answer(RuntimeError("lost"))
            assert str(outcome.response.exception()) == "lost"
        else:
            outcome.response.cancel()
            assert later.cancelled()
    assert client.connection.may_handle


def test_a_future_that_fails_or_is_cancelled_ends_the_response_alike(client_with: ClientWith) -> None:
    client = client_with(**{PRODUCE: 1.0})
    failed, cancelled = client.loop.create_future(), client.loop.create_future()
    outcomes = []
    for future in (failed, cancelled):
        client.outcome = DeferredResponse(ApiKey.PRODUCE, future)
        outcomes.append(client.send(ApiKey.PRODUCE, 9, produce(2000)).response)
    failed.set_exception(RuntimeError("lost"))
    cancelled.cancel()
    client.loop.run_until_complete(asyncio.sleep(0))
    assert str(outcomes[0].exception()) == "lost"
    assert outcomes[1].cancelled()
    assert client.connection.may_handle


def test_parts_after_the_throttle_time_are_not_read(client_with: ClientWith) -> None:
    header = RequestHeader(ApiKey.FETCH, 12, 7, "app")
    parts: list[Part] = [*response(ApiKey.FETCH, 12, FetchResponse(responses=[])), memoryview(b"of a file")]
    assert with_throttle_time(header, parts, 5)[1:] == parts[1:]


def test_a_damaged_request_is_reported_as_by_the_listener(client_with: ClientWith) -> None:
    client = client_with(**{FETCH: 100.0})
    with pytest.raises(DecodeError):
        client.send_frame(b"\0\1")
    client.outcome = [b"as it is"]
    header = encode_request_header(RequestHeader(ApiKey.FETCH, 17, 7, "app"))
    client.send_frame(header + b"\xff")
    assert client.connection.may_handle


def test_every_response_with_a_throttle_time_gets_it_in_its_place() -> None:
    changed = 0
    for key, version in [(api, version) for api in ROUTES for version in APIS[api].versions]:
        fields = fields_of(response_class(key))
        message: Any = object.__new__(response_class(key))
        for field in fields:
            setattr(message, field.name, [] if field.is_list else field.default)
        try:
            parts = response(key, version, message)
        except (TypeError, AttributeError):  # a struct without a default
            continue
        has = any(field.name == "throttle_time_ms" and field.is_plain_at(version) for field in fields)
        answer = decoded(key, version, with_throttle_time(RequestHeader(key, version, 7, "app"), parts, 1234))
        assert getattr(answer, "throttle_time_ms", 0) == (1234 if has else 0), (key, version)
        changed += has
    assert changed > 150


def test_answer_to_an_unknown_version_stays_as_it_is() -> None:
    parts: list[Part] = [b"in version 0"]
    assert with_throttle_time(RequestHeader(ApiKey.API_VERSIONS, 99, 7, "app"), parts, 1234) is parts


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[WholeBroker]:
    running = WholeBroker(str(tmp_path / "data"), auto_create_topics_enable="true")
    running.wait(running.start())
    yield running
    running.wait(running.stop())
    running.loop.close()


def test_a_quota_has_its_effect_from_when_it_is_set_until_it_is_removed(whole: WholeBroker) -> None:
    def set_quota(value: float, *, remove: bool = False) -> None:
        entry = AlterClientQuotasRequest.Entry
        op = entry.Op(key=FETCH, value=value, remove=remove)
        entity = entry.Entity(entity_type="client-id", entity_name="test")
        altered = whole.call(
            ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry(entity=[entity], ops=[op])], validate_only=False
        )
        assert [one.error_code for one in altered.entries] == [0]

    def throttle_time_ms() -> int:
        answer = whole.call(ApiKey.FETCH, 12, max_wait_ms=0, min_bytes=0, topics=[])
        assert answer.error_code == 0
        return int(answer.throttle_time_ms)

    assert throttle_time_ms() == 0
    set_quota(1)
    assert throttle_time_ms() > 0
    whole.wait(whole.stop())
    whole.wait(whole.start())
    assert throttle_time_ms() > 0
    set_quota(0.0, remove=True)
    assert throttle_time_ms() == 0


def test_quotas_of_addresses_do_not_slow_requests(whole: WholeBroker) -> None:
    def alter(kind: str, name: str, key: str) -> None:
        entry = AlterClientQuotasRequest.Entry
        op = entry.Op(key=key, value=1e6, remove=False)
        entity = entry.Entity(entity_type=kind, entity_name=name)
        altered = whole.call(
            ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry(entity=[entity], ops=[op])], validate_only=False
        )
        assert [one.error_code for one in altered.entries] == [0]

    alter("ip", "127.0.0.1", "connection_creation_rate")
    assert whole.node.quotas is None  # no listener has a dispatcher that throttles
    alter("user", "ann", FETCH)
    assert whole.node.quotas is not None
