"""Envelope, sent by a broker that forwards a client's request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.handlers.envelope import handle
from broker.metadata.controller_channel import NOT_LEADER_ERRORS
from broker.network.connection import RequestContext
from controller.topic_names import CLUSTER_METADATA
from protocol.api import ApiKey, request_class
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from protocol.messages.metadata import MetadataRequest
from protocol.messages.vote import VoteRequest
from protocol.records.principal import ForwardedPrincipal, encode_principal
from protocol.schema import Message
from tests.typed import present
from tests.unit.broker.controllers import query
from tests.unit.broker.whole_cluster import WholeCluster

TOPIC = CreateTopicsRequest.Topic(name="t", num_partitions=1, replication_factor=3, assignments=[], configs=[])
CREATE = CreateTopicsRequest(topics=[TOPIC], timeout_ms=20_000)
CREATE_TOPICS = encode_request_header(RequestHeader(ApiKey.CREATE_TOPICS, 7, 5, "app")) + CREATE.encode(7)
ALICE = encode_principal(ForwardedPrincipal("User:alice"))


def embedded(request: Message, version: int) -> bytes:
    key = next(key for key in ApiKey if key == request.API_KEY)
    return encode_request_header(RequestHeader(key, version, 5, "app")) + request.encode(version)


def send(
    three: WholeCluster,
    data: bytes = CREATE_TOPICS,
    principal: bytes = ALICE,
    address: bytes = bytes([10, 0, 0, 9]),
    node: int | None = None,
) -> EnvelopeResponse:
    result: EnvelopeResponse = query(
        three,
        ApiKey.ENVELOPE,
        0,
        node=node,
        request_data=data,
        request_principal=principal,
        client_host_address=address,
    )
    return result


def test_embedded_response_has_its_own_header(three: WholeCluster) -> None:
    answer = send(three)
    assert answer.error_code == ErrorCode.NONE
    correlation_id, body_at = decode_response_header(ApiKey.CREATE_TOPICS, 7, present(answer.response_data))
    [topic] = CreateTopicsResponse.decode(present(answer.response_data), 7, body_at).topics
    assert (correlation_id, topic.name, topic.error_code) == (5, "t", ErrorCode.NONE)
    assert three.partition(three.active, "t") is not None


def test_error_of_the_embedded_request_is_in_the_embedded_response(three: WholeCluster) -> None:
    send(three)
    answer = send(three)
    _, body_at = decode_response_header(ApiKey.CREATE_TOPICS, 7, present(answer.response_data))
    [topic] = CreateTopicsResponse.decode(present(answer.response_data), 7, body_at).topics
    assert (answer.error_code, topic.error_code) == (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def test_inactive_controller_refuses_envelopes(three: WholeCluster) -> None:
    answer = send(three, node=three.follower())
    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)


def test_leader_only_request_is_refused_with_not_controller_if_the_leader_resigns(three: WholeCluster) -> None:
    controller = present(three.node(three.active).controller)
    topic = DescribeQuorumRequest.Topic
    describe = DescribeQuorumRequest(
        topics=[topic(topic_name=CLUSTER_METADATA, partitions=[topic.Partition(partition_index=0)])]
    )
    envelope = EnvelopeRequest(
        request_data=embedded(describe, 2), request_principal=ALICE, client_host_address=bytes([10, 0, 0, 9])
    )
    context = RequestContext(ApiKey.ENVELOPE, 0, 5, "b", 1, "CONTROLLER", "b9", "User:ANONYMOUS")

    async def handle_during_resignation() -> EnvelopeResponse:
        resigning = controller.loop.create_task(controller.raft.resign())
        await asyncio.sleep(0)
        assert controller.raft.leads
        answer = await handle(controller, context, envelope)
        await resigning
        return answer

    querying = controller.loop.create_task(handle_during_resignation())
    three.until(querying.done)
    assert querying.result().error_code in NOT_LEADER_ERRORS


@pytest.mark.parametrize(
    "bad",
    [
        {"data": b""},
        {"data": CREATE_TOPICS[:-1]},
        {"data": b"\x7f\xff" + CREATE_TOPICS[2:]},
        {"principal": b"\0\x09"},
        {"address": b"\x01\x02\x03"},
        {"data": embedded(MetadataRequest(topics=[]), 12)},
        {"data": embedded(VoteRequest(topics=[]), 2)},
    ],
    ids=["empty", "cut off", "unknown API", "principal", "address", "a broker's request", "a controller's request"],
)
def test_undecodable_or_not_forwardable_embedded_request_is_refused(three: WholeCluster, bad: dict[str, Any]) -> None:
    answer = send(three, **bad)
    assert (answer.error_code, answer.response_data) == (ErrorCode.INVALID_REQUEST, None)


def test_unsupported_version_of_the_embedded_request_is_refused(three: WholeCluster) -> None:
    header = encode_request_header(RequestHeader(ApiKey.CREATE_TOPICS, 7, 5, "app"))
    data = header[:2] + (99).to_bytes(2, "big") + header[4:] + CREATE.encode(7)
    assert send(three, data).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_envelope_in_an_envelope_is_refused(three: WholeCluster) -> None:
    inner = request_class(ApiKey.ENVELOPE)(
        request_data=CREATE_TOPICS, request_principal=ALICE, client_host_address=bytes(4)
    )
    assert send(three, embedded(inner, 0)).error_code == ErrorCode.INVALID_REQUEST
