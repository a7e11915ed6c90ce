"""The transcript of a broker: what its clients requested and got, as JSON lines and as text."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from broker.control.transcript.decoding import described, line_of
from broker.control.transcript.exchange import Exchange
from broker.dispatch import encode_response
from protocol.api import ApiKey
from protocol.headers import RequestHeader, encode_request_header
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.record_batch import build_batch
from protocol.schema import Message
from tests.unit.broker.control.controlled_broker import ControlledBroker, document


async def transcript(broker: ControlledBroker, query: str = "") -> list[Any]:
    """Return the exchanges, which conform to the document."""
    schema = {"$ref": "#/components/schemas/Exchange", "components": document()["components"]}
    found = [json.loads(line) for line in (await broker.text(f"/v1/transcript?{query}")).splitlines()]
    for one in found:
        Draft202012Validator(schema).validate(one)
    return found


def read(broker: ControlledBroker, query: str = "") -> list[Any]:
    found: list[Any] = broker.wait(transcript(broker, query))
    return found


def topic_id(broker: ControlledBroker, topic: str) -> bytes:
    return broker.broker.image.topics_by_name()[topic].topic_id


def produce(broker: ControlledBroker, topic: str) -> None:
    batch = build_batch([(b"k", b"v"), (None, b"w")], timestamp_ms=1, producer_id=7, producer_epoch=0, base_sequence=0)
    rows = [ProduceRequest.Topic.Partition(index=0, records=bytes(batch))]
    topics = [ProduceRequest.Topic(name=topic, topic_id=topic_id(broker, topic), partition_data=rows)]
    broker.call(ApiKey.PRODUCE, 13, transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=topics)


def test_a_request_and_its_response_are_decoded(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    produce(broker, "t")
    [found] = read(broker)
    assert (found["number"], found["broker"], found["api"], found["version"]) == (1, 1, "Produce", 13)
    assert (found["client_id"], found["client_host"]) == ("test", "127.0.0.1")
    assert (found["fault"], found["closed"]) == (None, None)
    [topic] = found["request"]["topic_data"]
    assert topic["topic_id"] == broker.get("/v1/topics/t").content["topic_id"]
    batch = {"base_offset": 0, "records": 2, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    assert topic["partition_data"][0]["records"]["batches"] == [batch]
    [answered] = found["response"]["responses"]
    assert answered["topic_id"] == topic["topic_id"]
    assert "error_code" not in answered["partition_responses"][0]
    assert found["took_ms"] >= 0


def test_fetched_records_are_described_by_their_first_batch(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    produce(broker, "t")
    row = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic_id=topic_id(broker, "t"), partitions=[row])]
    broker.call(ApiKey.FETCH, 18, max_wait_ms=0, min_bytes=1, topics=topics)
    [found] = read(broker, "api=Fetch")
    [partition] = found["response"]["responses"][0]["partitions"]
    assert partition["records"]["batches"][0]["records"] == 2


def test_the_control_api_is_not_in_the_transcript(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    broker.post("/v1/topics/t/records", records=[{"value": "v"}])
    assert read(broker) == []
    assert broker.get("/v1").content["requests"] == 0


def test_errors_have_their_names_and_faults_their_rules(broker: ControlledBroker) -> None:
    broker.post("/v1/faults", api="FindCoordinator", action={"error": "COORDINATOR_NOT_AVAILABLE"})
    broker.call(ApiKey.FIND_COORDINATOR, 3, key="g")
    [found] = read(broker)
    assert found["request"] == {"key": "g"}
    assert found["response"]["error_code"] == "COORDINATOR_NOT_AVAILABLE"
    assert found["fault"] == 1


def test_a_lost_connection_has_its_reason(broker: ControlledBroker) -> None:
    for when in ("before", "after"):
        broker.post("/v1/faults", api="ListGroups", count=1, action={"disconnect": when})
        with pytest.raises(asyncio.IncompleteReadError):
            broker.call(ApiKey.LIST_GROUPS, 5)
    found = read(broker)
    assert [one["closed"] for one in found] == [
        f"closed: fault rule {rule_id} acts on ListGroups" for rule_id in ("1", "2")
    ]
    assert [one["response"] for one in found] == [None, None]


def test_exchanges_are_chosen_by_client_api_topic_and_number(broker: ControlledBroker) -> None:
    for topic in ("t", "u"):
        broker.post("/v1/topics", topic=topic)
        produce(broker, topic)
    broker.call(ApiKey.METADATA, 12, topics=[])
    assert [one["api"] for one in read(broker)] == ["Produce", "Produce", "Metadata"]
    assert [one["number"] for one in read(broker, "api=produce")] == [1, 2]
    assert [one["number"] for one in read(broker, "topic=u")] == [2]
    assert [one["number"] for one in read(broker, "after=1&limit=1")] == [3]
    assert read(broker, "limit=0") == []
    assert read(broker, "client_id=other") == []
    assert read(broker, "sender=brokers") == []
    assert len(read(broker, "client_id=test&sender=any")) == 3
    broker.reply("DELETE", "/v1/transcript")
    assert read(broker) == []
    assert broker.get("/v1").content["requests"] == 3


def test_a_line_of_text_has_request_and_response(broker: ControlledBroker) -> None:
    broker.call(ApiKey.FIND_COORDINATOR, 3, key="g")
    text = broker.wait(broker.text("/v1/transcript?format=text"))
    assert "#1 test: FindCoordinator v3 {key: g} -> " in text
    assert text.endswith(f"port: {broker.node.bootstrap.rpartition(':')[2]}}}\n")


def test_followed_exchanges_come_as_they_are_completed(broker: ControlledBroker) -> None:
    async def body() -> list[int]:
        await broker.query(ApiKey.LIST_GROUPS, 5)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(broker.control.url.rpartition(":")[2]))
        writer.write(
            f"GET /v1/transcript?follow=true HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {broker.control.token}\r\n\r\n".encode()
        )
        numbers: list[int] = []
        while len(numbers) < 3:
            line = await reader.readline()
            if line.startswith(b"{"):
                numbers.append(json.loads(line)["number"])
                await broker.query(ApiKey.LIST_GROUPS, 5)
        writer.close()
        return numbers

    assert broker.wait(body()) == [1, 2, 3]


def test_a_wait_that_is_not_met_shows_the_last_requests(broker: ControlledBroker) -> None:
    broker.call(ApiKey.FIND_COORDINATOR, 3, key="g")
    message = broker.post("/v1/wait/topic", topic="t", timeout_ms=20).content["message"]
    [_, line] = message.splitlines()
    assert "test: FindCoordinator v3 {key: g} -> " in line


def test_a_damaged_request_is_shown_as_undecodable(broker: ControlledBroker) -> None:
    async def body() -> None:
        host, _, port = broker.node.bootstrap.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\x00\x00\x00\x0d\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff\x00\x7f\x7f")
        await reader.read()
        writer.close()

    broker.wait(body())
    [found] = read(broker)
    assert "undecodable" in found["request"]
    assert found["closed"].startswith("closed: ")


def test_an_unknown_api_is_refused(broker: ControlledBroker) -> None:
    refused = broker.get("/v1/transcript?api=Prodce")
    assert refused.message == "api: this broker serves no API Prodce; did you mean Produce?"


SECRET = "top-secret"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="{SECRET}";'


def alteration(key: ApiKey, version: int, **values: str) -> tuple[ApiKey, int, dict[str, Any]]:
    """Return a request that alters settings of broker 1."""
    resource: Any = (AlterConfigsRequest if key is ApiKey.ALTER_CONFIGS else IncrementalAlterConfigsRequest).Resource
    operation = {} if key is ApiKey.ALTER_CONFIGS else {"config_operation": 0}
    configs = [resource.Config(name=name, value=value, **operation) for name, value in values.items()]
    resources = [resource(resource_type=4, resource_name="1", configs=configs)]
    return key, version, {"resources": resources, "validate_only": True}


def test_secrets_are_redacted_as_json_and_as_text(broker: ControlledBroker) -> None:
    secret = SECRET.encode()
    names = ("listener.name.plaintext.plain.sasl.jaas.config", "ssl.keystore.key", "own.plugin.password")
    scram = AlterUserScramCredentialsRequest.Upsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=secret
    )
    requests: list[tuple[ApiKey, int, dict[str, Any]]] = [
        alteration(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **dict.fromkeys(names, JAAS)),
        alteration(ApiKey.ALTER_CONFIGS, 2, **dict.fromkeys(names, JAAS)),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [scram]}),
        (ApiKey.RENEW_DELEGATION_TOKEN, 2, {"hmac": secret, "renew_period_ms": -1}),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, 2, {"hmac": secret, "expiry_time_period_ms": -1}),
        (ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": secret}),
    ]
    for key, version, fields in requests:
        with contextlib.suppress(asyncio.IncompleteReadError):  # a listener without SASL closes the connection
            broker.call(key, version, **fields)
    found = read(broker)
    assert len(found) == len(requests)
    texts = [json.dumps(found), broker.wait(broker.text("/v1/transcript?format=text"))]
    for text in texts:
        assert not {SECRET, secret.hex()} & {part for part in (SECRET, secret.hex()) if part in text}
        assert text.count("(redacted)") == 2 * len(names) + 4
    [altered] = found[0]["request"]["resources"]
    assert [config["name"] for config in altered["configs"]] == list(names)


def test_tokens_in_responses_and_requests_in_envelopes_are_redacted() -> None:
    secret = SECRET.encode()
    token = CreateDelegationTokenResponse(
        principal_type="User",
        principal_name="alice",
        issue_timestamp_ms=1,
        expiry_timestamp_ms=1,
        max_timestamp_ms=1,
        token_id="id",
        hmac=secret,
    )
    envelope = EnvelopeRequest(request_data=secret, request_principal=None, client_host_address=b"")
    pairs: list[tuple[ApiKey, int, Message, Message]] = [
        (ApiKey.CREATE_DELEGATION_TOKEN, 3, CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), token),
        (ApiKey.ENVELOPE, 0, envelope, EnvelopeResponse(response_data=secret)),
        (
            ApiKey.SASL_AUTHENTICATE,
            2,
            SaslAuthenticateRequest(auth_bytes=secret),
            SaslAuthenticateResponse(error_message=None, auth_bytes=secret),
        ),
    ]
    for key, version, request, response in pairs:
        header = RequestHeader(key, version, 1, "test")
        exchange = Exchange(1, header, "h", memoryview(encode_request_header(header) + request.encode(version)), 0)
        exchange.end(encode_response(header, response), 1.0)
        for shown in (json.dumps(described(exchange, 1)), line_of(exchange)):
            assert "undecodable" not in shown
            assert shown.count("(redacted)") == (1 if key is ApiKey.CREATE_DELEGATION_TOKEN else 2)
            assert secret.hex() not in shown


def test_values_of_other_settings_are_shown(broker: ControlledBroker) -> None:
    values = {"log.retention.ms": "1000", "listener.name.plaintext.max.connections": "7"}
    key, version, fields = alteration(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **values)
    broker.call(key, version, **fields)
    config = CreateTopicsRequest.Topic.Config(name="retention.ms", value="2000")
    topic = CreateTopicsRequest.Topic(
        name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[config]
    )
    broker.call(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=5_000, validate_only=True)
    altered, created = read(broker)
    assert [one["value"] for one in altered["request"]["resources"][0]["configs"]] == ["1000", "7"]
    assert created["request"]["topics"][0]["configs"] == [{"name": "retention.ms", "value": "2000"}]
