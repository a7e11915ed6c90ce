"""Registration requests that a node sends at start."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.metadata.registration_request import broker_registration, controller_registration
from controller.image import Endpoint
from protocol.messages.broker_registration import BrokerRegistrationRequest
from tests.unit.broker.whole_cluster import BOTH, node_settings

ENDPOINTS = {"PLAINTEXT": Endpoint("b1", 9092), "CONTROLLER": Endpoint("b1", 9093)}
SETTINGS = node_settings(1, {1: BOTH, 2: BOTH, 3: BOTH}, broker_rack="r1")


def closed(name: bytes, *, clean: bool = True, epoch: int = 5) -> SimpleNamespace:
    """Stands in for a log directory: whether its last stop was clean."""
    return SimpleNamespace(directory_id=name * 16, clean=clean, previous_broker_epoch=epoch)


def registration(*directories: SimpleNamespace) -> BrokerRegistrationRequest:
    return broker_registration(SETTINGS, "cluster", b"i" * 16, ENDPOINTS, directories)  # type: ignore[arg-type]  # stands in for it


def test_broker_registers_client_listeners_only() -> None:
    request = registration(closed(b"a"))
    assert [(one.name, one.host, one.port) for one in request.listeners] == [("PLAINTEXT", "b1", 9092)]
    assert (request.broker_id, request.cluster_id, request.rack) == (1, "cluster", "r1")


def test_broker_registers_features_and_log_dirs() -> None:
    request = registration(closed(b"b"), closed(b"a"))
    assert "metadata.version" in [feature.name for feature in request.features]
    assert request.log_dirs == [b"a" * 16, b"b" * 16]


@pytest.mark.parametrize(
    ("directories", "epoch"),
    [
        ([closed(b"a")], 5),
        ([closed(b"a"), closed(b"b")], 5),
        ([closed(b"a", clean=False)], -1),
        ([closed(b"a"), closed(b"b", clean=False)], -1),
        ([closed(b"a"), closed(b"b", epoch=4)], -1),
    ],
)
def test_previous_broker_epoch_is_sent_only_after_clean_stop_of_all_dirs(
    directories: list[SimpleNamespace], epoch: int
) -> None:
    assert registration(*directories).previous_broker_epoch == epoch


def test_controller_registers_controller_listeners() -> None:
    request = controller_registration(SETTINGS, b"i" * 16, ENDPOINTS)
    assert [(one.name, one.host, one.port) for one in request.listeners] == [("CONTROLLER", "b1", 9093)]
    assert (request.controller_id, request.zk_migration_ready) == (1, False)
    assert "metadata.version" in [feature.name for feature in request.features]
    assert type(request).decode(request.encode(0), 0) == request
