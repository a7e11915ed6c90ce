from broker.monitoring.topic_stats import TopicStats


def test_partitions_of_a_topic_are_summed() -> None:
    traffic = TopicStats()
    traffic.of("a").messages_in += 2
    traffic.of("a").messages_in += 3
    traffic.of("b").messages_in += 10
    assert {topic: found.messages_in for topic, found in traffic.topics.items()} == {"a": 5, "b": 10}
    assert traffic.total().messages_in == 15


def test_counts_of_a_deleted_topic_stay_in_the_totals() -> None:
    traffic = TopicStats()
    traffic.of("a").bytes_out += 7
    traffic.forget("a")
    traffic.forget("unknown")
    assert traffic.topics == {}
    traffic.of("a").bytes_out += 1
    assert traffic.total().bytes_out == 8
