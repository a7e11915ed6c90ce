from pathlib import Path
from typing import Any

import pytest

from protocol.errors import DecodeError
from protocol.record import Record
from protocol.records.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.records.offsets import GroupMetadataKey, GroupMetadataValue, encode_key, encode_value
from storage.disk import OsDisk
from storage.inspection.decoders import decode, decoder_of, text_of
from storage.inspection.rows import DumpFilter, Row, rows
from tests.all_files import write_all_files


def test_topic_selects_the_record_decoder() -> None:
    assert decoder_of("__consumer_offsets") == "offsets"
    assert decoder_of("__transaction_state") == "transactions"
    assert decoder_of("__cluster_metadata") == "metadata"
    assert decoder_of("letters") == "raw"


def test_text_and_bytes_are_distinguished() -> None:
    assert [text_of(data) for data in (None, b"", b"caf\xc3\xa9", b"\xff")] == [None, "", "café", {"base64": "/w=="}]


@pytest.mark.parametrize("name", ["offsets", "transactions", "metadata"])
def test_record_of_another_kind_than_its_topic_is_rejected(name: str) -> None:
    for key, value in ((None, None), (b"\0", b"x"), (b"\0\0\0\x09g", b"\0\3")):
        with pytest.raises(DecodeError):
            decode(name, Record(0, 0, key, value), is_control=False)


def test_record_kind_of_a_later_kafka_is_shown_raw() -> None:
    record = Record(0, 0, b"\0\x21key", b"value")
    assert decode("offsets", record, is_control=False) == {"key": "\0!key", "value": "value"}


def group_value(subscription: bytes, assignment: bytes, protocol_type: str = "consumer") -> Record:
    member = GroupMetadataValue.MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=1,
        subscription=subscription,
        assignment=assignment,
    )
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=1, protocol="range", leader="m", members=[member]
    )
    return Record(0, 0, encode_key(GroupMetadataKey(group="g")), encode_value(value, 3))


def member_of(record: Record) -> dict[str, Any]:
    (member,) = decode("offsets", record, is_control=False)["value"]["data"]["members"]
    result: dict[str, Any] = member
    return result


def test_a_consumer_s_subscription_and_assignment_are_decoded() -> None:
    wanted = ConsumerProtocolSubscription(topics=["t"], user_data=b"\0\1")
    given = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0, 2])
    assignment = ConsumerProtocolAssignment(assigned_partitions=[given])
    member = member_of(group_value(b"\0\1" + wanted.encode(1), b"\0\0" + assignment.encode(0)))
    assert member["subscription"] == {
        "version": 1,
        "topics": ["t"],
        "userData": {"base64": "AAE="},
        "ownedPartitions": [],
    }
    assert member["assignment"] == {
        "version": 0,
        "assignedPartitions": [{"topic": "t", "partitions": [0, 2]}],
        "userData": None,
    }


def test_invalid_subscription_is_shown_raw() -> None:
    assert member_of(group_value(b"", b"\xff"))["subscription"] == ""
    assert member_of(group_value(b"", b"\xff"))["assignment"] == {"base64": "/w=="}
    assert member_of(group_value(b"\0\1text", b"", "connect"))["subscription"] == {"base64": "AAF0ZXh0"}


def test_internal_records_are_decoded_with_kafkas_field_names(tmp_path: Path) -> None:
    write_all_files(tmp_path)

    def records(directory: str) -> list[Row]:
        path = tmp_path / directory / f"{0:020d}.log"
        found = rows(OsDisk(), str(path), DumpFilter(decoder_of(directory.removesuffix("-0"))))
        return [record for row in found for record in row["records"]]

    commit, group = records("__consumer_offsets-0")
    assert commit["key"] == {"type": 1, "data": {"group": "g", "topic": "t0", "partition": 0}}
    assert (commit["value"]["version"], commit["value"]["data"]["offset"]) == (3, 5)
    assert (group["key"]["type"], group["value"]["data"]["protocolType"]) == (2, "consumer")
    (transaction,) = records("__transaction_state-0")
    assert transaction["key"]["data"] == {"transactionalId": "mover"}
    state = transaction["value"]["data"]
    assert (state["transactionTimeoutMs"], state["transactionStatus"], state["transactionState"]) == (
        60_000,
        4,
        "CompleteCommit",
    )
    metadata = records("__cluster_metadata-0")[0]["value"]
    assert metadata["type"] == "TOPIC_RECORD"
    assert metadata["data"] == {"name": "topic-0", "topicId": "AQEBAQEBAQEBAQEBAQEBAQ"}
    markers = [record["key"]["type"] for record in records("t0-0") if isinstance(record["key"], dict)]
    assert markers == ["COMMIT", "ABORT"]
