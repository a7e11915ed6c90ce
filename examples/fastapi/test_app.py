"""Tests of a FastAPI application, with its broker."""

import pytest
from app import app
from fastapi.testclient import TestClient


@pytest.fixture
def client(kafka, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap)
    with TestClient(app) as client:
        yield client


def test_an_order_is_written_to_the_topic(client, kafka):
    assert client.post("/orders/alice?item=tea").json() == {"offset": 0}
    (record,) = kafka.topic("orders", create=False).expect(1)
    assert (record.key, record.value) == (b"alice", b"tea")


def test_orders_of_the_test_before_are_gone(client):
    assert client.post("/orders/bob?item=coffee").json() == {"offset": 0}
