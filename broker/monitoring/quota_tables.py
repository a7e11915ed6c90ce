"""Metrics of the clients with quotas: what they use, and for how long they are throttled; and of replication's quotas.

The names are those of Apache Kafka's MBeans `Produce`, `Fetch`, `Request` and `ControllerMutation`, and
`LeaderReplication`, `FollowerReplication` and `AlterLogDirsReplication`. As there, a client
has a row while it uses a quota, with the user and client id that share it. Rates are measured over the quotas' windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.monitoring.exposition import Table, gauge, labels, table
from broker.quotas.client_quotas import FETCH, PRODUCE, REQUEST

if TYPE_CHECKING:
    from broker.monitoring.monitored import MonitoredNode

_LABELS = "user client_id"


def _usages(kind: str, node: MonitoredNode) -> Iterator[tuple[str, Any]]:
    """Yield the rate and the average throttle time of the usages of one kind of quota."""
    if node.quotas is None:
        return
    now_ms = 1000 * node.shared.loop.time()
    for (user, client_id), usage in node.quotas.usages(kind, now_ms):
        found = (usage.rate.per_second(now_ms), usage.throttle_times.average_ms(now_ms))
        yield labels(user=user, client_id=client_id), found


def _mutations(node: MonitoredNode) -> Iterator[tuple[str, Any]]:
    """Yield the tokens, the rate and the average throttle time of the usages of controller mutations."""
    manager = None if node.controller is None else node.controller.mutation_quotas
    if manager is None:
        return
    for (user, client_id), usage, now_ms in manager.usages():
        found = (
            usage.bucket.tokens(now_ms),
            usage.mutations.per_second(now_ms),
            usage.throttle_times.average_ms(now_ms),
        )
        yield labels(user=user, client_id=client_id), found


def _replication(node: MonitoredNode) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the rates of throttled replicas as leader and as follower, and of moves between directories."""
    broker = node.broker
    if broker is None:
        return
    now_ms = 1000 * node.shared.loop.time()
    moved = 0.0 if broker.moves is None else broker.moves.rate.per_second(now_ms)
    quotas = (broker.leader_replication_quota, broker.follower_replication_quota)
    yield "", (*(quota.rate.per_second(now_ms) for quota in quotas), moved)


def _item(number: int) -> Callable[[tuple[float, ...]], float]:
    return lambda found: round(found[number], 3)


def _of_kind(kind: str, name: str, rate: str, text: str) -> Table:
    return table(
        partial(_usages, kind),
        gauge(f"kafka_server_{name}_{rate}", text, _item(0)),
        gauge(
            f"kafka_server_{name}_throttle_time",
            "Milliseconds for which a throttled response lets the client wait, on average over the quota's window.",
            _item(1),
        ),
        by=_LABELS,
    )


TABLES = (
    table(
        _replication,
        gauge(
            "kafka_server_leaderreplication_byte_rate",
            "Bytes per second that followers fetch from throttled replicas.",
            _item(0),
        ),
        gauge(
            "kafka_server_followerreplication_byte_rate",
            "Bytes per second that throttled replicas fetch from their leaders.",
            _item(1),
        ),
        gauge(
            "kafka_server_alterlogdirsreplication_byte_rate",
            "Bytes per second that are copied to other data directories.",
            _item(2),
        ),
    ),
    _of_kind(PRODUCE, "produce", "byte_rate", "Bytes of Produce requests per second, of clients with a quota."),
    _of_kind(FETCH, "fetch", "byte_rate", "Bytes of Fetch responses per second, of clients with a quota."),
    _of_kind(REQUEST, "request", "request_time", "Percentage of the event loop's time, of clients with a quota."),
    table(
        _mutations,
        gauge(
            "kafka_server_controllermutation_tokens",
            "Partitions that a client may create or delete at once; negative while it is throttled.",
            _item(0),
        ),
        gauge("kafka_server_controllermutation_mutation_rate", "Partitions created and deleted per second.", _item(1)),
        gauge(
            "kafka_server_controllermutation_throttle_time",
            "Milliseconds for which a throttled response lets the client wait, on average over the quota's window.",
            _item(2),
        ),
        by=_LABELS,
    ),
)
