"""Twenty tests of what can go wrong between a program and its brokers."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition


def produced(cluster, topic, *values, **settings):
    """Send values to partition 0; return the error of each, None for those that were acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "retry.backoff.ms": 10, **settings})
    errors = []
    for value in values:
        producer.produce(topic.name, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    return [error and error.name() for error in errors]


@pytest.fixture
def consumer(kafka):
    """Return a function that makes consumers, which are closed after the test."""
    made = []

    def make(group, *topics, **settings):
        beginning = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        one = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group.name, **beginning, **settings})
        made.append(one)
        if topics:
            one.subscribe([topic.name for topic in topics])
        return one

    yield make
    for one in made:
        one.close()


@pytest.fixture
def transactional(kafka):
    def make(transactional_id):
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": transactional_id})
        producer.init_transactions(30)
        producer.begin_transaction()
        return producer

    return make


def values(records):
    return [record.value for record in records]


def test_a_killed_broker_keeps_what_it_has_acknowledged(kafka):
    topic = kafka.topic()
    assert produced(kafka, topic, b"a") == [None]
    kafka.brokers[0].kill()
    kafka.brokers[0].start()
    assert values(topic.expect(1)) == [b"a"]


def test_a_producer_outlives_a_restart(kafka):
    topic = kafka.topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "reconnect.backoff.ms": 10})
    producer.produce(topic.name, b"before")
    producer.flush(30)
    kafka.brokers[0].restart()
    producer.produce(topic.name, b"after")
    assert producer.flush(30) == 0
    assert values(topic.expect(2)) == [b"before", b"after"]


def test_a_paused_broker_delays_a_producer(kafka):
    topic = kafka.topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    kafka.brokers[0].pause()
    producer.produce(topic.name, b"a")
    assert producer.flush(0.1) == 1
    kafka.brokers[0].resume()
    assert producer.flush(30) == 0
    assert values(topic.expect(1)) == [b"a"]


def test_an_error_is_retried(kafka):
    topic = kafka.topic()
    with kafka.fault("Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", count=2) as fault:
        assert produced(kafka, topic, b"a") == [None]
        assert fault.hits == 2
    assert values(topic.expect(1)) == [b"a"]


def test_a_fatal_error_is_not_retried(kafka):
    topic = kafka.topic()
    with kafka.fault("Produce", topic=topic, error="MESSAGE_TOO_LARGE") as fault:
        assert produced(kafka, topic, b"a") == ["MSG_SIZE_TOO_LARGE"]
        assert fault.hits == 1
    assert topic.records() == []


def test_a_lost_acknowledgement_is_a_duplicate(kafka):
    topic = kafka.topic()
    with kafka.fault("Produce", topic=topic, disconnect="after", count=1):
        assert produced(kafka, topic, b"a") == [None]
    assert len(topic.records()) >= 2  # librdkafka may repeat it more than once


def test_a_lost_acknowledgement_is_no_duplicate_of_an_idempotent_producer(kafka):
    topic = kafka.topic()
    with kafka.fault("Produce", topic=topic, disconnect="after", count=1):
        assert produced(kafka, topic, b"a", **{"enable.idempotence": True}) == [None]
    assert values(topic.expect(1)) == [b"a"]


def test_a_lost_request_is_sent_again(kafka):
    topic = kafka.topic()
    with kafka.fault("Produce", topic=topic, disconnect="before", count=1):
        assert produced(kafka, topic, b"a") == [None]
    assert values(topic.expect(1)) == [b"a"]


def test_records_keep_their_order_over_an_error(kafka):
    topic = kafka.topic()
    with kafka.fault("Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", count=1):
        assert produced(kafka, topic, b"a", b"b", b"c", **{"enable.idempotence": True}) == [None] * 3
    assert values(topic.expect(3)) == [b"a", b"b", b"c"]


def test_a_full_disk_is_waited_for(kafka):
    topic = kafka.topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "retry.backoff.ms": 10})
    with kafka.brokers[0].disk.full():
        producer.produce(topic.name, b"a")
        assert producer.flush(0.1) == 1
    assert producer.flush(30) == 0
    assert values(topic.expect(1)) == [b"a"]


def test_a_network_that_is_cut_delays_a_producer(kafka):
    topic = kafka.topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    with kafka.brokers[0].network.cut_off():
        producer.produce(topic.name, b"a")
        assert producer.flush(0.1) == 1
    assert producer.flush(30) == 0
    assert values(topic.expect(1)) == [b"a"]


def test_a_group_reads_everything_once(kafka, consumer):
    topic, group = kafka.topic(), kafka.group()
    topic.produce(["a", "b"])
    one = consumer(group, topic)
    assert [message.value() for message in one.consume(2, timeout=30)] == [b"a", b"b"]
    one.commit(asynchronous=False)
    group.expect_lag(0)


def test_what_is_not_committed_is_read_again(kafka, consumer):
    topic, group = kafka.topic(), kafka.group()
    topic.produce(["a"])
    first = consumer(group, topic)
    assert first.poll(30).value() == b"a"
    first.close()
    group.wait_empty()
    assert consumer(group, topic).poll(30).value() == b"a"


def test_a_refused_commit_is_reported(kafka, consumer):
    topic, group = kafka.topic(), kafka.group()
    topic.produce(["a"])
    one = consumer(group, topic)
    assert one.poll(30).value() == b"a"
    with (
        kafka.fault("OffsetCommit", group=group, error="ILLEGAL_GENERATION", count=1),
        pytest.raises(KafkaException, match="ILLEGAL_GENERATION"),
    ):
        one.commit(asynchronous=False)


def test_an_expired_member_is_gone(kafka, consumer):
    topic, group = kafka.topic(), kafka.group()
    topic.produce(["a"])
    assert consumer(group, topic).poll(30).value() == b"a"
    with kafka.fault(["Heartbeat", "JoinGroup"], group=group, hold="before"):
        assert len(group.expire()) == 1
        group.wait_empty()


def test_old_records_expire(kafka):
    topic = kafka.topic(config={"retention.ms": 24 * 3600 * 1000})
    topic.produce(["old"])
    kafka.clock.advance(hours=25)
    topic.produce(["new"])
    assert values(topic.records()) == [b"new"]


def test_a_transaction_is_visible_when_it_is_committed(kafka, transactional):
    topic = kafka.topic()
    producer = transactional("committed")
    producer.produce(topic.name, b"a")
    producer.flush(30)
    assert topic.records() == []
    producer.commit_transaction(30)
    assert values(topic.expect(1)) == [b"a"]


def test_an_old_transaction_is_aborted(kafka, transactional):
    topic = kafka.topic()
    producer = transactional("old")
    producer.produce(topic.name, b"a")
    producer.flush(30)
    kafka.clock.advance(minutes=2)
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    assert topic.expect(0) == []


def test_a_fenced_producer_commits_nothing(kafka, transactional):
    topic = kafka.topic()
    producer = transactional("fenced")
    producer.produce(topic.name, b"a")
    producer.flush(30)
    kafka.fence_producer("fenced")
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    assert topic.expect(0) == []


def test_a_reader_begins_again_where_the_log_starts(kafka, consumer):
    topic, group = kafka.topic(config={"retention.ms": 24 * 3600 * 1000}), kafka.group()
    topic.produce(["old"])
    kafka.clock.advance(hours=25)
    topic.produce(["new"])
    one = consumer(group)
    one.assign([TopicPartition(topic.name, 0, 0)])
    assert one.poll(30).value() == b"new"
