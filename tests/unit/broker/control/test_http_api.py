"""HTTP of the control API: authentication, connections, invalid requests."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode

import pytest

from broker.control.http_api import MAX_BODY_BYTES
from tests.unit.broker.control.controlled_broker import ControlledBroker


def head(line: str, *headers: str) -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def bearer(broker: ControlledBroker) -> str:
    return f"Authorization: Bearer {broker.control.token}"


@pytest.mark.parametrize(
    "header", ["X: y", "Authorization: Bearer wrong", "Authorization: Basic !", "Authorization: x"]
)
def test_a_request_without_the_token_is_refused_before_its_body(broker: ControlledBroker, header: str) -> None:
    answer = broker.wait(broker.http(head("POST /v1/sweep", header, "Content-Length: 1000000")))
    assert status_of(answer) == 401
    assert b"WWW-Authenticate: Bearer" in answer
    assert b"the request needs the token" in answer


def test_the_token_is_taken_as_the_password_of_basic_authentication(broker: ControlledBroker) -> None:
    credentials = b64encode(f":{broker.control.token}".encode()).decode()
    answer = broker.wait(broker.http(head("GET /v1", f"Authorization: Basic {credentials}", "Connection: close")))
    assert status_of(answer) == 200


def test_a_connection_serves_several_requests(broker: ControlledBroker) -> None:
    request = head("GET /v1", bearer(broker))
    answer = broker.wait(broker.http(request + request + head("GET /v1", bearer(broker), "Connection: close")))
    assert answer.count(b"HTTP/1.1 200") == 3


def test_a_body_that_is_not_json_is_refused_and_the_connection_goes_on(broker: ControlledBroker) -> None:
    first = head("POST /v1/sweep", bearer(broker), "Content-Length: 1") + b"{"
    answer = broker.wait(broker.http(first + head("GET /v1", bearer(broker), "Connection: close")))
    assert b"HTTP/1.1 400" in answer
    assert b"the body is not JSON" in answer
    assert b"HTTP/1.1 200" in answer


def test_a_body_that_is_no_object_is_refused(broker: ControlledBroker) -> None:
    answer = broker.wait(
        broker.http(head("POST /v1/sweep", bearer(broker), "Content-Length: 2", "Connection: close") + b"[]")
    )
    assert b'{"message": "the body must be a JSON object"}' in answer


def test_what_is_not_http_is_answered_with_400(broker: ControlledBroker) -> None:
    assert status_of(broker.wait(broker.http(b"\x00\x00\x00\x01 hello\r\n\r\n"))) == 400


def test_a_head_that_is_too_long_is_refused(broker: ControlledBroker) -> None:
    assert status_of(broker.wait(broker.http(head("GET /v1", f"X: {'x' * 100_000}")))) == 431


def test_a_body_that_is_too_long_is_refused(broker: ControlledBroker) -> None:
    size = MAX_BODY_BYTES + 1
    answer = broker.wait(broker.http(head("POST /v1/sweep", bearer(broker), f"Content-Length: {size}") + bytes(size)))
    assert status_of(answer) == 413


def test_a_head_request_has_no_body(broker: ControlledBroker) -> None:
    answer = broker.wait(broker.http(head("HEAD /v1", bearer(broker), "Connection: close")))
    assert status_of(answer) == 200
    assert answer.endswith(b"\r\n\r\n")


def test_a_wait_ends_when_its_client_goes_away(broker: ControlledBroker) -> None:
    async def leave_a_wait() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(broker.control.url.rpartition(":")[2]))
        body = json.dumps({"topic": "t", "timeout_ms": 600_000}).encode()
        writer.write(head("POST /v1/wait/topic", bearer(broker), f"Content-Length: {len(body)}") + body)
        while not subscribers():  # noqa: ASYNC110 - nothing signals that the other side has read the request
            await asyncio.sleep(0)
        writer.close()
        while subscribers():  # noqa: ASYNC110 - nor that it has seen the end
            await asyncio.sleep(0)
        assert await reader.read() == b""

    def subscribers() -> int:
        return len(broker.broker.raft._metadata._subscribers) - before

    before = len(broker.broker.raft._metadata._subscribers)
    broker.wait(leave_a_wait())


def test_a_failure_of_the_api_is_answered_and_logged(
    broker: ControlledBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker.node, "shared", None)
    status, content = broker.get("/v1")
    monkeypatch.undo()
    assert status == 500
    assert content["message"].startswith("AttributeError: ")
    assert "GET /v1 failed" in caplog.text
