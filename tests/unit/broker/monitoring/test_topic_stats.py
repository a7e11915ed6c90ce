from broker.monitoring.topic_stats import TopicStats


def test_partitions_of_a_topic_are_summed() -> None:
    topic_stats = TopicStats()
    topic_stats.of("a").messages_in += 2
    topic_stats.of("a").messages_in += 3
    topic_stats.of("b").messages_in += 10
    assert {topic: found.messages_in for topic, found in topic_stats.topics.items()} == {"a": 5, "b": 10}
    assert topic_stats.total().messages_in == 15


def test_counts_of_a_deleted_topic_stay_in_the_totals() -> None:
    topic_stats = TopicStats()
    topic_stats.of("a").bytes_out += 7
    topic_stats.forget("a")
    topic_stats.forget("unknown")
    assert topic_stats.topics == {}
    topic_stats.of("a").bytes_out += 1
    assert topic_stats.total().bytes_out == 8
