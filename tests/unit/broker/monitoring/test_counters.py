from broker.monitoring.counters import Metrics


def test_counters_start_at_0_and_are_all_in_the_report() -> None:
    metrics = Metrics()
    metrics.requests += 2
    metrics.sent_bytes += 10
    assert str(metrics) == (
        "connections_accepted 0, connections_refused 0, handler_failures 0, received_bytes 0, requests 2, sent_bytes 10"
    )
