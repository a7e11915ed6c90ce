from __future__ import annotations

import socket

import pytest

from barnabas.testing import Cluster
from barnabas.testing._control import ControlClient, ControlRefusal, Unreachable, first_ready, path_of


def test_a_refusal_has_the_brokers_message(one: Cluster) -> None:
    with pytest.raises(ControlRefusal, match="there is no topic nowhere") as refusal:
        one.brokers[0].control.call("GET", path_of("topics", "nowhere"))
    assert refusal.value.status == 404


def test_a_client_without_the_token_is_refused(one: Cluster) -> None:
    stranger = ControlClient(f"http://:wrong@{one.brokers[0].control.address}")
    with pytest.raises(ControlRefusal, match="token"):
        stranger.call("GET", "/v1")


def test_a_broker_that_does_not_run_is_unreachable() -> None:
    with Cluster() as cluster:
        control = cluster.brokers[0].control
        cluster.brokers[0].kill()
        with pytest.raises(Unreachable, match=f"{control.address} does not answer"):
            control.call("GET", "/v1")


def test_of_several_waits_the_first_that_ends_is_returned(one: Cluster) -> None:
    topic, control = one.topic(), one.brokers[0].control
    bodies = [{"topic": topic.name, "after": {"0": after}, "timeout_ms": 60_000} for after in (5, 0)]
    waits = [control.begin("POST", path_of("wait", "records"), body) for body in bodies]
    assert first_ready(waits, 0.0) is None
    topic.produce(["a"])
    assert first_ready(waits, 60.0) is waits[1]
    assert waits[1].result()["met"]
    waits[0].cancel()


def test_names_in_paths_are_quoted() -> None:
    assert path_of("groups", "a/b c?", limit=3, after=None) == "/v1/groups/a%2Fb%20c%3F?limit=3"


def test_a_broker_that_does_not_answer_is_reported_after_a_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = ControlClient(f"http://:x@127.0.0.1:{silent.getsockname()[1]}", answer_s=0.01)
        with pytest.raises(Unreachable, match=f"{client.address} does not answer: timed out"):
            client.call("GET", "/v1")
        with pytest.raises(Unreachable, match="timed out"):
            client.call("POST", "/v1/wait/topic", {"timeout_ms": 10})


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found"])
def test_another_program_at_the_port_is_reported(status: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        client = ControlClient(f"http://:x@127.0.0.1:{other.getsockname()[1]}")
        call = client.begin("GET", "/v1")
        connection, _ = other.accept()
        with connection:
            connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\n<p/>".encode())
            with pytest.raises(Unreachable, match="is not the control API of a broker"):
                call.result()


@pytest.mark.parametrize(
    "url", ["", "http://127.0.0.1:1", "http://:x@", "http://:x@a:b", "http://:x@a:99999", "ftp://:x@a:1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"is not of the form|Invalid|Port"):
        ControlClient(url)
