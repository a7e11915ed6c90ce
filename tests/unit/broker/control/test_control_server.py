"""The control API of a node, from its start to its stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.log_dirs.ownership import CannotStart
from tests.unit.broker.control.controlled_broker import ControlledBroker


def test_the_url_has_the_token_as_its_password(start: Callable[..., ControlledBroker]) -> None:
    broker = start(barnabas_control_token="secret")
    port = broker.control.url.rpartition(":")[2]
    assert broker.control.url == f"http://:secret@127.0.0.1:{port}"


def test_tokens_without_the_setting_differ(tmp_path: Path) -> None:
    tokens = set()
    for name in ("a", "b"):
        broker = ControlledBroker(str(tmp_path / name))
        broker.wait(broker.start())
        tokens.add(broker.control.token)
        broker.wait(broker.stop())
        broker.loop.close()
    assert len(tokens) == 2


def test_the_log_has_the_address_but_not_the_token(
    start: Callable[..., ControlledBroker], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker = start()
    assert f"The control API is at http://127.0.0.1:{broker.control.url.rpartition(':')[2]}" in caplog.text
    assert broker.control.token not in caplog.text


def test_without_the_setting_there_is_no_control(start: Callable[..., ControlledBroker]) -> None:
    broker = start(barnabas_control_listener="")
    assert broker.node.control is None


def test_a_port_in_use_refuses_the_start(start: Callable[..., ControlledBroker], tmp_path: Path) -> None:
    port = start().control.url.rpartition(":")[2]
    other = ControlledBroker(str(tmp_path / "other"), barnabas_control_listener=f"127.0.0.1:{port}")
    with pytest.raises(CannotStart, match=f"cannot listen on 127.0.0.1:{port} for the control API: address already"):
        other.wait(other.start())
    other.loop.close()


def test_a_stop_ends_the_requests_that_wait(start: Callable[..., ControlledBroker]) -> None:
    broker = start()

    async def stop_during_a_wait() -> Any:
        waiting = asyncio.ensure_future(broker.ask("POST", "/v1/wait/topic", topic="t", timeout_ms=600_000))
        await asyncio.wait((waiting,), timeout=0.05)
        await broker.node.stop()
        return await asyncio.gather(waiting, return_exceptions=True)

    [ended] = broker.wait(stop_during_a_wait())
    assert isinstance(ended, Exception)


def test_a_node_that_is_only_a_controller_has_no_topics(
    start: Callable[..., ControlledBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start()
    monkeypatch.setattr(broker.node, "broker", None)
    refused = broker.get("/v1/topics")
    monkeypatch.undo()
    assert refused == (409, {"message": "node 1 is only a controller, without topics and groups"})
