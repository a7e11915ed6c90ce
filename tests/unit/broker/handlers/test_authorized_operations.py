"""Authorized operations as bits."""

from __future__ import annotations

from broker.handlers.authorized_operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    OPERATIONS_NOT_REQUESTED,
    TOPIC_OPERATIONS,
)


def test_bits_equal_apache_kafkas_without_authorizer() -> None:
    assert (CLUSTER_OPERATIONS, TOPIC_OPERATIONS, GROUP_OPERATIONS) == (8096, 3576, 3400)
    assert OPERATIONS_NOT_REQUESTED == -2147483648
