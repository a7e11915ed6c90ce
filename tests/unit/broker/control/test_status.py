from __future__ import annotations

from tests.unit.broker.control.controlled_broker import ControlledBroker


def test_the_broker_describes_itself_and_its_cluster(broker: ControlledBroker) -> None:
    found = broker.get("/v1").content
    assert found["phase"] == "serving"
    assert found["bootstrap"] == broker.node.bootstrap
    assert found["node_id"] == found["controller"] == broker.broker.node_id
    assert found["brokers"][0]["endpoints"] == {"PLAINTEXT": broker.node.bootstrap}


def test_a_wait_for_brokers_is_met_by_those_that_are_active(broker: ControlledBroker) -> None:
    assert broker.post("/v1/wait/cluster", brokers=1).content["met"] is True


def test_a_wait_for_brokers_says_how_many_there_are(broker: ControlledBroker) -> None:
    waited = broker.post("/v1/wait/cluster", brokers=2, isr={"t": 1}, timeout_ms=20)
    assert waited.content["met"] is False
    assert waited.message == (
        "the cluster has 2 active brokers and replicas in sync: 1 of t: not within 0.02 s; 1 broker active; "
        "there is no topic t"
    )


def test_a_wait_for_replicas_in_sync_is_met_by_the_topics_isr(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    assert broker.post("/v1/wait/cluster", isr={"t": 1}).content["met"] is True
    assert broker.post("/v1/wait/cluster", isr={"t": 2}, timeout_ms=20).message.endswith("t-0 has the ISR [1]")
