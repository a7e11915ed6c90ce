from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition


def records(bootstrap: str, topic: str) -> list:
    """Return all records of a topic's partition 0, as another client reads them."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        found: list = []
        while consumer.position(partition) < end:
            found += [record for polled in consumer.poll(500).values() for record in polled]
        return found
    finally:
        consumer.close()


def test_each_line_is_a_record_and_line_ends_are_not_part_of_it(barnabas, topic, shared_broker):
    assert barnabas("produce", topic, stdin=b"one\ntwo\r\n\nthree") == (0, "", "")
    assert [record.value for record in records(shared_broker.bootstrap, topic)] == [b"one", b"two", b"", b"three"]


def test_files_are_read_in_their_order(barnabas, topic, shared_broker, tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    assert barnabas("produce", topic, str(tmp_path / "b"), str(tmp_path / "a")).status == 0
    assert [r.value for r in records(shared_broker.bootstrap, topic)] == [b"b1", b"b2", b"a1", b"a2"]


def test_one_key_and_headers_for_all(barnabas, topic, shared_broker):
    barnabas("produce", topic, "-k", "K", "-H", "a=1", "-H", "a=2", stdin=b"v\n")
    (record,) = records(shared_broker.bootstrap, topic)
    assert (record.key, record.value) == (b"K", b"v")
    assert list(record.headers) == [("a", b"1"), ("a", b"2")]


def test_a_key_in_each_line(barnabas, topic, shared_broker):
    assert barnabas("produce", topic, "-K", "::", stdin=b"k1::v1\n::v2\nk3::\n").status == 0
    found = [(record.key, record.value) for record in records(shared_broker.bootstrap, topic)]
    assert found == [(b"k1", b"v1"), (b"", b"v2"), (b"k3", b"")]


def test_a_line_without_the_delimiter_is_named(barnabas, topic):
    assert barnabas("produce", topic, "-K", "::", stdin=b"k::v\nv\n") == (
        1,
        "",
        "barnabas produce: line 2 has no key delimiter '::'\n",
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(barnabas, topic, shared_broker, codec):
    assert barnabas("produce", topic, "-z", codec, stdin=b"value\n" * 100) == (0, "", "")
    assert [record.value for record in records(shared_broker.bootstrap, topic)] == [b"value"] * 100


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(barnabas, topic, shared_broker, acks):
    barnabas("topic", "create", topic)
    assert barnabas("produce", topic, "--acks", acks, stdin=b"value\n") == (0, "", "")
    assert [record.value for record in records(shared_broker.bootstrap, topic)] == [b"value"]


def test_records_that_the_broker_refuses_are_counted(barnabas, topic):
    barnabas("topic", "create", topic, "-c", "max.message.bytes=100")
    status, out, err = barnabas("produce", topic, stdin=b"x" * 200 + b"\n")
    assert (status, out) == (1, "")
    assert err.startswith("barnabas produce: 1 records were not acknowledged: ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["no such name"], "Topic name"),
        (["{topic}", "-p", "9"], "Unrecognized partition 9"),
        (["{topic}", "missing.txt"], "cannot read missing.txt: No such file or directory"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(barnabas, topic, arguments, complaint):
    barnabas("topic", "create", topic)
    status, out, err = barnabas("produce", *(argument.format(topic=topic) for argument in arguments), stdin=b"v\n")
    assert (status, out) == (1, "")
    assert err.startswith("barnabas produce: ")
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_a_header_needs_a_name(call):
    assert call("produce", "t", "-H", "x").status == 2
