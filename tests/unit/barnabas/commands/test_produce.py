from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command


def records(bootstrap: str, topic: str) -> list[Any]:
    """Return all records of partition 0, read by kafka-python."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        found: list[Any] = []
        while consumer.position(partition) < end:
            found += [record for polled in consumer.poll(500).values() for record in polled]
        return found
    finally:
        consumer.close()


def test_each_line_is_a_record_with_every_byte(barnabas: Command, topic: str, shared_broker: BrokerProcess) -> None:
    assert barnabas("produce", topic, stdin=b"one\ntwo\r\n\nthree") == (0, "", "")
    assert [record.value for record in records(shared_broker.bootstrap, topic)] == [b"one", b"two\r", b"", b"three"]


def test_each_file_or_each_line_of_it_is_a_record(
    barnabas: Command, topic: str, shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    files = (str(tmp_path / "b"), str(tmp_path / "a"))
    assert barnabas("produce", topic, *files).status == 0
    assert barnabas("produce", topic, "-p", "0", "-l", *files).status == 0
    found = [record.value for record in records(shared_broker.bootstrap, topic)]
    assert found == [b"b1\nb2\n", b"a1\na2\n", b"b1", b"b2", b"a1", b"a2"]


def test_key_and_headers_apply_to_all_records(barnabas: Command, topic: str, shared_broker: BrokerProcess) -> None:
    barnabas("produce", topic, "-k", "K", "-H", "a=1", "-H", "a=2", stdin=b"v\n")
    (record,) = records(shared_broker.bootstrap, topic)
    assert (record.key, record.value) == (b"K", b"v")
    assert list(record.headers) == [("a", b"1"), ("a", b"2")]


def test_key_is_read_from_each_line(barnabas: Command, topic: str, shared_broker: BrokerProcess) -> None:
    assert barnabas("produce", topic, "-K", "::", stdin=b"k1::v1\n::v2\nk3::\n").status == 0
    found = [(record.key, record.value) for record in records(shared_broker.bootstrap, topic)]
    assert found == [(b"k1", b"v1"), (b"", b"v2"), (b"k3", b"")]


def test_a_line_without_the_delimiter_has_the_key_of_all_or_none(
    barnabas: Command, topic: str, shared_broker: BrokerProcess
) -> None:
    barnabas("produce", topic, "-K", "::", stdin=b"k::v\nv\n")
    barnabas("produce", topic, "-K", "::", "-k", "all", stdin=b"k::v\nv\n")
    assert [record.key for record in records(shared_broker.bootstrap, topic)] == [b"k", None, b"k", b"all"]


def test_record_delimiter_can_be_chosen(barnabas: Command, topic: str, shared_broker: BrokerProcess) -> None:
    barnabas("produce", topic, "-D", r"\0", "-K", r"\t", stdin=b"k\tone\n\0two")
    found = [(record.key, record.value) for record in records(shared_broker.bootstrap, topic)]
    assert found == [(b"k", b"one\n"), (None, b"two")]


def test_empty_values_become_null_on_request(barnabas: Command, topic: str, shared_broker: BrokerProcess) -> None:
    barnabas("produce", topic, "-K", ":", "-Z", stdin=b"k:\n:v\n:\n")
    found = [(record.key, record.value) for record in records(shared_broker.bootstrap, topic)]
    assert found == [(b"k", None), (None, b"v"), (None, None)]


def test_tee_prints_the_sent_records(barnabas: Command, topic: str) -> None:
    assert barnabas("produce", topic, "-T", "-K", ":", stdin=b"a:1\nb:2\n").out == "a:1\nb:2\n"


def test_produce_stops_after_the_requested_number_of_records(
    barnabas: Command, topic: str, shared_broker: BrokerProcess
) -> None:
    barnabas("produce", topic, "-c", "2", stdin=b"a\nb\nc\n")
    assert [record.value for record in records(shared_broker.bootstrap, topic)] == [b"a", b"b"]


def test_json_records_go_to_their_own_topic_unless_overridden(
    barnabas: Command, topic: str, shared_broker: BrokerProcess
) -> None:
    barnabas("topic", "create", f"{topic}:2", f"{topic}-other:2", "-c", "retention.ms=-1")
    line = f'{{"topic": "{topic}", "partition": 1, "value": "v", "timestamp": 5}}\n'.encode()
    assert barnabas("produce", "--json", stdin=line) == (0, "", "")
    assert barnabas("consume", topic, "-e", "-f", "%p %T %v").out == "1 5 v"
    assert barnabas("produce", f"{topic}-other", "--json", "-p", "0", "-k", "k", "-H", "a=1", stdin=line).status == 0
    assert barnabas("consume", f"{topic}-other", "-e", "-f", "%p %T %k %v %h").out == "0 5 k v a=1"


def test_json_is_read_from_a_file_without_a_topic(barnabas: Command, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(f'{{"topic": "{topic}", "value": "v"}}\n')
    assert barnabas("produce", "--json", str(file)) == (0, "", "")
    assert barnabas("consume", topic, "-e").out == "v\n"
    missing = str(tmp_path / "missing.jsonl")
    assert barnabas("produce", "--json", missing).err == (
        f"barnabas produce: cannot read {missing}: No such file or directory\n"
    )


def test_a_topic_that_has_the_name_of_a_file_is_followed_by_standard_input(
    barnabas: Command, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / topic).write_text("not JSON")
    assert barnabas("produce", "--json", topic, "-", stdin=b'{"value": "v"}\n') == (0, "", "")
    assert barnabas("consume", topic, "-e").out == "v\n"


def test_ambiguous_topic_or_file_name_is_refused_with_standard_input(
    call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").write_text('{"topic": "other", "value": "not meant"}')
    assert call("produce", "orders", "--json", stdin=b'{"value": "v"}\n') == (
        2,
        "",
        "barnabas produce: orders is also a file: write `orders -` for the topic, ./orders for the file\n",
    )


def test_on_a_terminal_an_existing_file_name_is_a_file(
    barnabas: Command, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.chdir(tmp_path)
    (tmp_path / "records.jsonl").write_text(f'{{"topic": "{topic}", "value": "v"}}\n')
    with monkeypatch.context() as patch:
        patch.setattr(io, "TextIOWrapper", Terminal)
        assert barnabas("produce", "--json", "records.jsonl") == (0, "", "")
    assert barnabas("consume", topic, "-e").out == "v\n"


def test_invalid_line_is_numbered_and_earlier_records_are_sent(
    barnabas: Command, topic: str, shared_broker: BrokerProcess
) -> None:
    status, out, err = barnabas("produce", topic, "--json", stdin=b'{"value": "a"}\n{"value": 1}\n')
    assert (status, out) == (1, "")
    assert err.startswith("barnabas produce: record 2 of standard input: value: write null, a string or")
    assert [record.value for record in records(shared_broker.bootstrap, topic)] == [b"a"]
    status, _, err = barnabas("produce", "--json", stdin=b'{"value": "a"}\n')
    assert "no topic in the record or on the command line" in err


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(barnabas: Command, topic: str, shared_broker: BrokerProcess, codec: str) -> None:
    assert barnabas("produce", topic, "-z", codec, stdin=b"value\n" * 100) == (0, "", "")
    assert [record.value for record in records(shared_broker.bootstrap, topic)] == [b"value"] * 100


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(barnabas: Command, topic: str, shared_broker: BrokerProcess, acks: str) -> None:
    barnabas("topic", "create", topic)
    assert barnabas("produce", topic, "--acks", acks, stdin=b"value\n") == (0, "", "")
    assert [record.value for record in records(shared_broker.bootstrap, topic)] == [b"value"]


def test_records_that_the_broker_refuses_are_counted(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic, "-c", "max.message.bytes=100")
    status, out, err = barnabas("produce", topic, stdin=b"x" * 200 + b"\n")
    assert (status, out) == (1, "")
    assert err.startswith("barnabas produce: 1 record was not acknowledged: ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["no such name"], "Topic name"),
        (["{topic}", "-p", "9"], "Unrecognized partition 9"),
        (["{topic}", "missing.txt"], "cannot read missing.txt: No such file or directory"),
    ],
)
def test_write_error_is_reported_in_one_line(
    barnabas: Command, topic: str, arguments: list[str], complaint: str
) -> None:
    barnabas("topic", "create", topic)
    status, out, err = barnabas("produce", *(argument.format(topic=topic) for argument in arguments), stdin=b"v\n")
    assert (status, out) == (1, "")
    assert err.startswith("barnabas produce: ")
    assert complaint in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "TOPIC is missing; only with --json"),
        (["t", "-p", "-2"], "there is no such partition"),
        (["t", "-K", ""], "--key-delimiter: a delimiter has at least one byte"),
        (["t", "-D", ""], " --delimiter: a delimiter has at least one byte"),
        (["t", "-D", r"\q"], r"argument -D/--delimiter: \q is not an escape; use \n"),
        (["t", "-K", r"\q"], r"argument -K/--key-delimiter: \q is not an escape; use \n"),
        (["t", "-z", "rar"], "'rar': write one of none, gzip, snappy, lz4, zstd"),
    ],
)
def test_wrong_call_is_reported_without_a_connection(call: Command, arguments: list[str], complaint: str) -> None:
    status, out, err = call("produce", *arguments)
    assert (status, out) == (2, "")
    assert complaint in err


def test_a_header_needs_a_name(call: Command) -> None:
    assert call("produce", "t", "-H", "x").status == 2


def test_failed_topic_creation_is_reported_with_its_reason(call: Command, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, {"default.replication.factor": 3}) as broker:
        status, _, err = call("produce", "auto", "-b", broker.bootstrap, stdin=b"hi\n")
    assert (status, err) == (
        1,
        "barnabas produce: 1 record was not acknowledged: auto: Replication-factor is invalid. "
        "(fewer live brokers than default.replication.factor?)\n",
    )


def test_number_of_written_records_is_printed(barnabas: Command, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert barnabas("produce", topic, stdin=b"1\n2\n") == (0, "", "barnabas produce: 2 records written\n")
    assert barnabas("produce", topic, "--quiet", stdin=b"3\n") == (0, "", "")


def test_too_large_record_names_the_setting_as_the_user_wrote_it(barnabas: Command, topic: str) -> None:
    shown = barnabas("produce", topic, "-X", "message.max.bytes=100", stdin=b"x" * 500 + b"\n")
    assert shown.status == 1
    assert "larger than the 100 bytes of -X message.max.bytes" in shown.err


def test_no_transactions_are_written(barnabas: Command, topic: str) -> None:
    shown = barnabas("produce", topic, "-X", "transactional.id=a", stdin=b"x\n")
    assert (shown.status, shown.err) == (2, "barnabas produce: -X transactional.id: no command writes transactions\n")


def test_a_partition_is_a_number(barnabas: Command, topic: str) -> None:
    shown = barnabas("produce", topic, "-p", "x")
    assert shown.status == 2
    assert shown.err.endswith("'x' is not a whole number\n")


def test_records_for_an_internal_topic_are_refused(barnabas: Command, transaction_state: str) -> None:
    held = "the producer ids and the open transactions of all transactional ids"
    why = f"{transaction_state} is an internal topic with {held}: only brokers write to it"
    assert barnabas("produce", transaction_state, stdin=b"x\n") == (1, "", f"barnabas produce: {why}\n")
    record = json.dumps({"topic": transaction_state, "value": "x"}).encode() + b"\n"
    shown = barnabas("produce", "--json", stdin=record)
    assert shown == (1, "", f"barnabas produce: record 1 of standard input: {why}\n")
