"""Broker sessions against a model that derives each expiry from the log of all events."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.broker_heartbeat_manager import BrokerHeartbeatManager
from controller.commands.brokers import fence_brokers, unfence_broker
from tests.unit.controller.cluster import Cluster

SESSION, GRACE = 900, 30
BROKERS, CONNECTIONS = st.integers(1, 3), st.sampled_from("xyz")

STEPS = st.one_of(
    st.tuples(st.just("wait"), st.integers(1, 1000)),
    st.tuples(st.just("receive"), BROKERS, st.none() | CONNECTIONS),
    st.tuples(st.just("lose"), CONNECTIONS),
    st.tuples(st.just("restart"), BROKERS),
    st.tuples(st.just("lead")),
)


class Model:
    """The log of all events; every result is computed by reading it from its beginning."""

    def __init__(self) -> None:
        self.log: list[tuple[int, Any]] = []

    def note(self, now_ms: int, *event: object) -> None:
        self.log.append((now_ms, event))

    def ends_ms(self, broker_id: int) -> int:
        """Return the end of a broker's session without further heartbeats."""
        ends = 0
        connections: set[Any] = set()
        for at_ms, event in self.log:
            match event:
                case ("lead",):
                    ends, connections = at_ms + SESSION, set()
                case ("begin", begun) if begun == broker_id:
                    ends, connections = at_ms + SESSION, set()
                case ("receive", contacted, connection) if contacted == broker_id:
                    ends = at_ms + SESSION
                    connections |= {connection} - {None}
                case ("lose", connection) if connection in connections:
                    connections.remove(connection)
                    if not connections:
                        ends = min(ends, at_ms + GRACE)
        return ends


@given(st.lists(STEPS, max_size=40))
def test_sessions_expire_as_the_model_does(steps: list[tuple[Any, ...]]) -> None:
    cluster, model, now = Cluster(brokers=3), Model(), 0
    liveness = BrokerHeartbeatManager(SESSION, GRACE)

    def begin(broker_id: int) -> None:
        epoch = cluster.add_broker(broker_id)
        liveness.apply(cluster.image, now)
        model.note(now, "begin", broker_id)
        assert cluster.image.brokers[broker_id].epoch == epoch

    def fence_until(until_ms: int) -> int:
        """Run each expiry that is due; fenced brokers register again at once."""
        while True:
            living = {broker_id: model.ends_ms(broker_id) for broker_id in cluster.image.brokers}
            due_ms = min(living.values())
            assert liveness.due_ms == due_ms
            assert set(liveness.alive(now)) == set(living)
            if due_ms > until_ms:
                assert liveness.expired(until_ms) == {}
                return until_ms
            gone = liveness.expired(due_ms)
            assert set(gone) == {broker_id for broker_id, ends_ms in living.items() if ends_ms == due_ms}
            cluster.apply(lambda image, gone=gone: fence_brokers(image, gone, cluster.settings))  # type: ignore[misc]  # a lambda with a default has no inferred type
            liveness.apply(cluster.image, due_ms)
            assert not set(liveness.alive(due_ms)) & set(gone)
            for broker_id in gone:
                epoch = cluster.add_broker(broker_id, fenced=True)
                liveness.apply(cluster.image, due_ms)
                cluster.apply(lambda image, broker_id=broker_id, epoch=epoch: unfence_broker(image, broker_id, epoch))  # type: ignore[misc]  # a lambda with a default has no inferred type
                liveness.apply(cluster.image, due_ms)
                model.note(due_ms, "begin", broker_id)

    liveness.become_active(cluster.image, now)
    model.note(now, "lead")
    for step in steps:
        match step:
            case ("wait", duration_ms):
                now = fence_until(now + duration_ms)
            case ("receive", broker_id, connection):
                # A connection belongs to one broker.
                name = connection and f"{connection}{broker_id}"
                liveness.touch(broker_id, cluster.image.brokers[broker_id].epoch, 0, name, now)
                model.note(now, "receive", broker_id, name)
            case ("lose", connection):
                for broker_id in (1, 2, 3):
                    liveness.connection_lost(f"{connection}{broker_id}", now)
                    model.note(now, "lose", f"{connection}{broker_id}")
            case ("restart", broker_id):
                begin(broker_id)
            case ("lead",):
                liveness.become_active(cluster.image, now)
                model.note(now, "lead")
    fence_until(now)
