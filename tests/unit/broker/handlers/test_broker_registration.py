"""BrokerRegistration, BrokerHeartbeat and UnregisterBroker."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.fields import fields_of
from protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from protocol.messages.broker_registration import BrokerRegistrationResponse
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.controllers import cluster_id, epoch, query
from tests.unit.broker.whole_cluster import WholeCluster
from tests.unit.controller.cluster import new_registration


def register(three: WholeCluster, broker_id: int, node: int | None = None, **fields: str) -> BrokerRegistrationResponse:
    shown = {"cluster_id": cluster_id(three), "incarnation_id": b"n" * 16, "endpoints": {}, "directories": [b"f" * 16]}
    request = new_registration(broker_id, **{**shown, **fields})  # type: ignore[arg-type]  # keywords of several types
    values = {field.name: getattr(request, field.name) for field in fields_of(type(request))}
    result: BrokerRegistrationResponse = query(three, ApiKey.BROKER_REGISTRATION, 4, node=node, **values)
    return result


def test_registered_broker_is_fenced_and_has_a_new_epoch(three: WholeCluster) -> None:
    answer = register(three, 9)
    broker = three.raft(three.active).image.brokers[9]
    assert (answer.error_code, answer.broker_epoch) == (ErrorCode.NONE, broker.epoch)
    assert broker.fenced


def test_id_of_a_live_broker_cannot_be_registered_again(three: WholeCluster) -> None:
    before = epoch(three, 3)
    assert register(three, 3).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert epoch(three, 3) == before


def test_a_broker_of_another_cluster_is_refused(three: WholeCluster) -> None:
    assert register(three, 9, cluster_id="other").error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_inactive_controller_refuses_registrations(three: WholeCluster) -> None:
    assert register(three, 9, node=three.follower()).error_code == ErrorCode.NOT_CONTROLLER


def beat(
    three: WholeCluster,
    broker_id: int,
    broker_epoch: int,
    *,
    node: int | None = None,
    offset: int = 1 << 40,
    **fields: bool,
) -> BrokerHeartbeatResponse:
    shown = {"want_fence": False, "want_shut_down": False, "offline_log_dirs": [], "cordoned_log_dirs": []}
    result: BrokerHeartbeatResponse = query(
        three,
        ApiKey.BROKER_HEARTBEAT,
        2,
        node=node,
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        current_metadata_offset=offset,
        **{**shown, **fields},
    )
    return result


def test_live_broker_is_caught_up_and_not_fenced(three: WholeCluster) -> None:
    answer = beat(three, 1, epoch(three, 1))
    assert (answer.error_code, answer.is_fenced, answer.is_caught_up) == (ErrorCode.NONE, False, True)


def test_want_fence_fences_the_broker(three: WholeCluster) -> None:
    follower = three.follower()
    assert beat(three, follower, epoch(three, follower), want_fence=True).is_fenced
    assert three.raft(three.active).image.brokers[follower].fenced


def test_heartbeat_with_stale_broker_epoch_is_refused(three: WholeCluster) -> None:
    assert beat(three, 1, epoch(three, 1) - 1).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_heartbeat_of_unregistered_broker_is_refused(three: WholeCluster) -> None:
    assert beat(three, 9, 1).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_inactive_controller_refuses_heartbeats(three: WholeCluster) -> None:
    assert beat(three, 1, epoch(three, 1), node=three.follower()).error_code == ErrorCode.NOT_CONTROLLER


def test_broker_is_unregistered(controlled: ControllerNode) -> None:
    controlled.register(2)
    assert controlled.query(ApiKey.UNREGISTER_BROKER, 0, broker_id=2).error_code == ErrorCode.NONE
    assert list(controlled.image.brokers) == [1]


def test_unknown_broker_is_refused(controlled: ControllerNode) -> None:
    with pytest.raises(KafkaError) as refused:
        controlled.query(ApiKey.UNREGISTER_BROKER, 0, broker_id=2)
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
