"""The delivery state of each partition, and its messages."""

import re

from barnabas.commands._deliveries import Deliveries


def test_error_message_has_the_cause_and_the_acknowledged_count() -> None:
    delivery = Deliveries().of("orders", 0)
    for _ in range(1200):
        delivery.send()
    delivery.refuse("KAFKA_STORAGE_ERROR", None, 1)
    assert str(delivery) == (
        "orders-0: KAFKA_STORAGE_ERROR for 0 s (disk full on broker 1?); 0 of 1,200 records acknowledged"
    )
    delivery.refuse("KAFKA_STORAGE_ERROR", "log directory /data is full", 1)
    assert "for 0 s (log directory /data is full); " in str(delivery)


def test_error_is_cleared_when_records_are_acknowledged() -> None:
    deliveries = Deliveries()
    delivery = deliveries.of("orders", 0)
    delivery.send()
    delivery.refuse("NOT_ENOUGH_REPLICAS", None, 1)
    assert re.match("orders-0: NOT_ENOUGH_REPLICAS", deliveries.refused())
    delivery.acknowledge()
    assert deliveries.refused() == ""
    assert str(delivery) == "orders-0: 1 of 1 record acknowledged"


def test_pending_records_are_neither_acknowledged_nor_expired() -> None:
    deliveries = Deliveries()
    one, two = deliveries.of("orders", 0), deliveries.of("orders", 1)
    for delivery in (one, one, two):
        delivery.send()
    assert deliveries.of("orders", 0) is one
    one.acknowledge()
    two.failed += 1
    assert (deliveries.waiting, deliveries.acknowledged) == (1, 1)
    assert (one.stalled_s() >= 0, two.stalled_s()) == (True, 0.0)
