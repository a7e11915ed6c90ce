from __future__ import annotations

from confluent_kafka import Producer

from barnabas.testing import Cluster


def test_requests_are_those_of_a_client_an_api_and_a_topic(three: Cluster) -> None:
    topics = [three.topic() for _ in range(2)]
    for client_id in ("mine", "other"):
        producer = Producer({"bootstrap.servers": three.bootstrap, "client.id": client_id, "log_level": 0})
        for topic in topics:
            producer.produce(topic.name, b"a")
        producer.flush()
    (request,) = three.requests(client_id="mine", api="Produce", topic=topics[1])
    assert request["broker"] == topics[1].leaders[0]
    assert request["request"]["acks"] == -1
    assert request["response"]["responses"][0]["name"] == topics[1].name
    text = three.transcript(client_id="mine", api="Produce", topic=topics[1])
    assert text.startswith(f"broker {topics[1].leaders[0]}: ")
    assert f"mine: Produce v{request['version']} {{acks: -1" in text
    assert len(three.requests(api="Produce", topic=topics[0])) == 2
    assert len(three.requests(client_id="mine", limit=1)) <= 3
