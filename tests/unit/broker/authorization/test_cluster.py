"""DescribeCluster: brokers are for everyone, controllers are not; the operations that it returns are the client's."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.authorization.matrix import ADMIN
from tests.unit.broker.guarded_node import GuardedNode


@pytest.mark.parametrize("listener_type", ["broker", "controller"])
def test_operations_are_those_of_the_client(guarded: GuardedNode, listener_type: str) -> None:
    endpoint_type = 1 if listener_type == "broker" else 2

    def operations(principal: str, *, wanted: bool = True) -> int:
        response = guarded.ask(
            ApiKey.DESCRIBE_CLUSTER,
            1,
            principal=principal,
            listener_type=listener_type,
            include_cluster_authorized_operations=wanted,
            endpoint_type=endpoint_type,
        )
        assert response.brokers
        return int(response.cluster_authorized_operations)

    if listener_type == "broker":
        assert operations("User:alice") == 0
    guarded.add("allow User:alice ALTER CLUSTER:kafka-cluster")
    assert operations("User:alice") == 1 << 7 | 1 << 8
    assert operations("User:alice", wanted=False) == -(1 << 31)
    assert operations(ADMIN) == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


def test_controllers_are_described_to_those_who_may_alter_the_cluster(guarded: GuardedNode) -> None:
    guarded.add("allow User:alice ALL CLUSTER:kafka-cluster", "deny User:alice ALTER CLUSTER:kafka-cluster")
    response = guarded.ask(ApiKey.DESCRIBE_CLUSTER, 1, listener_type="controller", endpoint_type=2)
    assert (response.error_code, response.brokers) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


def test_a_refused_endpoint_type_has_no_operations(guarded: GuardedNode) -> None:
    response = guarded.ask(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True, endpoint_type=2)
    assert response.error_code
    assert response.cluster_authorized_operations == -(1 << 31)
