from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from broker.handlers.describe_cluster import handle
from broker.network.connection import RequestContext
from controller.image import BrokerImage, ControllerImage, Endpoint, MetadataImage
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse


def node(broker_id: int, *, fenced: bool = False, listeners: tuple[str] = ("PLAINTEXT",)) -> BrokerImage:
    points = {name: Endpoint(f"{name.lower()}-{broker_id}", 9000 + broker_id) for name in listeners}
    return BrokerImage(broker_id, 1, bytes(16), points, {}, f"rack{broker_id}", fenced, False, ())


SERVER: Any = SimpleNamespace(
    node_id=1,
    cluster_id="cluster",
    settings=SimpleNamespace(controller_listeners={"CONTROLLER"}),
    endpoints={"CONTROLLER": Endpoint("controller-1", 9093)},
    raft=SimpleNamespace(leader_id=2),
    random=Random(1),
    image=MetadataImage(
        cluster_id="cluster",
        brokers={1: node(1), 2: node(2, fenced=True), 3: node(3, listeners=("OTHER",))},
        controllers={
            number: ControllerImage(number, bytes(16), {"CONTROLLER": Endpoint(f"controller-{number}", 9093)}, {})
            for number in (1, 2)
        },
    ),
)


def query(
    version: int = 2,
    *,
    listener: str = "PLAINTEXT",
    endpoint_type: int = 1,
    fenced: bool = False,
    operations: bool = False,
) -> DescribeClusterResponse:
    context = RequestContext(ApiKey.DESCRIBE_CLUSTER, version, 1, None, 1, listener, "127.0.0.1")
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=operations, endpoint_type=endpoint_type, include_fenced_brokers=fenced
    )
    return handle(SERVER, context, request)


def test_brokers_are_listed_with_endpoints_of_the_request_listener() -> None:
    response = query()
    assert (response.cluster_id, response.controller_id, response.endpoint_type) == ("cluster", 1, 1)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [(1, "plaintext-1", 9001, "rack1")]
    assert [broker.host for broker in query(listener="OTHER").brokers] == ["other-3"]


def test_fenced_brokers_are_listed_only_if_requested() -> None:
    assert [(broker.broker_id, broker.is_fenced) for broker in query(fenced=True).brokers] == [(1, False), (2, True)]


def test_a_controllers_listener_describes_controllers() -> None:
    response = query(listener="CONTROLLER", endpoint_type=2)
    assert response.endpoint_type == 2
    assert [(c.broker_id, c.host, c.port) for c in response.brokers] == [
        (1, "controller-1", 9093),
        (2, "controller-2", 9093),
    ]
    assert response.controller_id == 2


def test_controller_id_is_a_broker_reachable_on_the_request_listener() -> None:
    assert [query(listener=listener).controller_id for listener in ("PLAINTEXT", "OTHER", "NONE")] == [1, 3, -1]


@pytest.mark.parametrize(("listener", "wanted"), [("PLAINTEXT", 2), ("CONTROLLER", 1)])
def test_endpoint_type_of_the_other_listener_is_refused(listener: str, wanted: int) -> None:
    response = query(listener=listener, endpoint_type=wanted)
    assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert response.brokers == []


def test_an_unknown_type_of_endpoint_is_refused() -> None:
    assert query(endpoint_type=3).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_authorized_operations_are_returned_only_if_requested() -> None:
    assert query().cluster_authorized_operations == -(1 << 31)
    assert query(operations=True).cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize("version", range(3))
def test_response_encodes_in_every_version(version: int) -> None:
    assert query(version).encode(version)
