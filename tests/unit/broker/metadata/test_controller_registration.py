"""Controller registration, in a cluster of real nodes in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.metadata.controller_registration import ControllerRegistrationManager
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from simulation.cluster import CONTROLLER_PORT
from tests.unit.broker.node import VirtualLoop
from tests.unit.broker.whole_cluster import BROKER, CONTROLLER, WholeCluster

REQUEST = ControllerRegistrationRequest(
    controller_id=2, incarnation_id=b"i" * 16, zk_migration_ready=False, listeners=[], features=[]
)


@pytest.fixture
def apart() -> Iterator[WholeCluster]:
    cluster = WholeCluster(dict.fromkeys((1, 2, 3), CONTROLLER) | {4: BROKER})
    cluster.start()
    yield cluster
    cluster.close()


def known(cluster: WholeCluster, seen_by: int = 4) -> dict[int, str]:
    return {
        node: endpoint.host
        for node, controller in cluster.raft(seen_by).image.controllers.items()
        for endpoint in controller.endpoints.values()
    }


def test_all_nodes_know_endpoints_of_every_controller(apart: WholeCluster) -> None:
    apart.until(lambda: known(apart) == {1: "b1", 2: "b2", 3: "b3"})


def test_describe_cluster_lists_controllers_and_active_one(apart: WholeCluster) -> None:
    apart.until(lambda: len(known(apart)) == 3)
    fields = {"endpoint_type": 2, "include_cluster_authorized_operations": False}
    answer = apart.query(apart.active, ApiKey.DESCRIBE_CLUSTER, 1, port=CONTROLLER_PORT, **fields)
    assert [(node.broker_id, node.host, node.port) for node in answer.brokers] == [
        (node, f"b{node}", CONTROLLER_PORT) for node in (1, 2, 3)
    ]
    assert answer.controller_id == apart.active


def test_each_start_has_new_incarnation_id(apart: WholeCluster) -> None:
    node = next(node for node in (1, 2, 3) if node != apart.active)
    apart.until(lambda: node in apart.raft(4).image.controllers)
    before = apart.raft(4).image.controllers[node].incarnation_id
    apart.stop(node)
    apart.start(node)
    apart.until(lambda: apart.raft(4).image.controllers[node].incarnation_id != before)


class Alone:
    """A controller whose active controller returns scripted responses."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.image = SimpleNamespace(controllers={})
        self.changed = self.loop.create_future()
        self.answers: list[Any] = []
        self.requested = 0
        self.life = ControllerRegistrationManager(self, self.call, self.loop)  # type: ignore[arg-type]  # narrower than declared

    def leader_change(self) -> asyncio.Future[None]:
        return self.changed

    async def call(self, request: ControllerRegistrationRequest, _timeout_s: float) -> ControllerRegistrationResponse:
        assert request == REQUEST
        self.requested += 1
        code = self.answers.pop(0)
        if code is ErrorCode.REQUEST_TIMED_OUT:
            raise KafkaError(code, "no leader")
        if code is ErrorCode.NONE:
            self.image.controllers[2] = SimpleNamespace(incarnation_id=request.incarnation_id)
        return ControllerRegistrationResponse(error_code=code, error_message=None)

    def let_pass(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def alone() -> Iterator[Alone]:
    made = Alone()
    yield made
    made.loop.run_until_complete(made.life.stop())
    made.loop.close()


def test_registration_is_retried_until_metadata_has_it(alone: Alone) -> None:
    alone.answers = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    alone.life.begin(REQUEST)
    alone.let_pass(10)
    assert alone.requested == 3


def test_registration_is_sent_to_new_leader_immediately(alone: Alone) -> None:
    alone.answers = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    alone.life.begin(REQUEST)
    alone.let_pass(0.1)
    alone.changed.set_result(None)
    alone.let_pass(0.1)
    assert alone.requested == 2


def test_repeated_registration_error_is_logged_once(alone: Alone, caplog: pytest.LogCaptureFixture) -> None:
    alone.answers = [ErrorCode.UNKNOWN_SERVER_ERROR] * 3 + [ErrorCode.INVALID_REGISTRATION, ErrorCode.NONE]
    alone.life.begin(REQUEST)
    alone.let_pass(10)
    shown = "Registration of this controller failed: "
    assert caplog.messages == [f"{shown}UNKNOWN_SERVER_ERROR", f"{shown}INVALID_REGISTRATION"]
