from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.monitoring.exposition import lines
from broker.monitoring.quota_tables import TABLES
from broker.monitoring.rate import SampleWindow
from broker.quotas.client_quotas import FETCH, PRODUCE, REQUEST
from broker.quotas.quota_manager import QuotaManager
from broker.quotas.replication_quota import ReplicationQuota
from controller.image import quota_entity

ANN, APP = quota_entity([("user", "ann")]), quota_entity([("client-id", "app")])


def samples(manager: QuotaManager | None, now_s: float, broker: object = None) -> list[str]:
    """Return the samples of a node with that manager."""
    shared: Any = SimpleNamespace(loop=SimpleNamespace(time=lambda: now_s))
    node: Any = SimpleNamespace(shared=shared, controller=None, quotas=manager, broker=broker)
    return [line.strip() for line in lines(TABLES, node) if not line.startswith("#")]


def test_clients_with_a_quota_have_their_rate_and_average_throttle_time() -> None:
    manager = QuotaManager(SampleWindow(11, 1000))
    manager.apply({ANN: {PRODUCE: 100.0, REQUEST: 1e6}, APP: {FETCH: 1e9}})
    for size in (500, 1000, 1000):
        manager.record(PRODUCE, "ann", "app", size, 0)
    manager.record(FETCH, "bob", "app", 50, 0)
    manager.record(REQUEST, "ann", "app", 20, 0)
    manager.record(PRODUCE, "bob", "app", 1e9, 0)  # which has no quota
    assert samples(manager, 0) == [
        'kafka_server_produce_byte_rate{user="ann",client_id=""} 250.0',
        'kafka_server_produce_throttle_time{user="ann",client_id=""} 10000.0',
        'kafka_server_fetch_byte_rate{user="",client_id="app"} 5.0',
        'kafka_server_fetch_throttle_time{user="",client_id="app"} 0.0',
        'kafka_server_request_request_time{user="ann",client_id=""} 2.0',
        'kafka_server_request_throttle_time{user="ann",client_id=""} 0.0',
    ]


def test_what_was_used_before_the_window_and_a_node_without_quotas_have_no_samples() -> None:
    manager = QuotaManager(SampleWindow(11, 1000))
    manager.apply({ANN: {PRODUCE: 100.0}})
    manager.record(PRODUCE, "ann", "app", 500, 0)
    assert samples(manager, 11) == []
    assert samples(None, 0) == []


def test_a_broker_has_the_rates_of_throttled_replicas_and_of_moves() -> None:
    window = SampleWindow(11, 1000)
    leader, follower, moves = (ReplicationQuota(window, lambda: None) for _ in range(3))
    leader.record(1000, 0)
    follower.record(500, 0)
    moves.record(200, 0)
    names = ("leaderreplication", "followerreplication", "alterlogdirsreplication")
    for moving, expected in ((moves, [250.0, 125.0, 50.0]), (None, [250.0, 125.0, 0.0])):
        broker = SimpleNamespace(leader_replication_quota=leader, follower_replication_quota=follower, moves=moving)
        assert samples(None, 4, broker) == [
            f"kafka_server_{name}_byte_rate {rate}" for name, rate in zip(names, expected, strict=True)
        ]
