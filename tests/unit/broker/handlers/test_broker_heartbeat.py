"""BrokerHeartbeat, sent by a broker."""

from __future__ import annotations

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from tests.unit.broker.controllers import ask, epoch
from tests.unit.broker.whole_cluster import WholeCluster


def beat(
    three: WholeCluster,
    broker_id: int,
    broker_epoch: int,
    *,
    node: int | None = None,
    offset: int = 1 << 40,
    **fields: bool,
) -> BrokerHeartbeatResponse:
    said = {"want_fence": False, "want_shut_down": False, "offline_log_dirs": [], "cordoned_log_dirs": []}
    result: BrokerHeartbeatResponse = ask(
        three,
        ApiKey.BROKER_HEARTBEAT,
        2,
        node=node,
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        current_metadata_offset=offset,
        **{**said, **fields},
    )
    return result


def test_live_broker_is_caught_up_and_not_fenced(three: WholeCluster) -> None:
    answer = beat(three, 1, epoch(three, 1))
    assert (answer.error_code, answer.is_fenced, answer.is_caught_up) == (ErrorCode.NONE, False, True)


def test_want_fence_fences_the_broker(three: WholeCluster) -> None:
    follower = three.follower()
    assert beat(three, follower, epoch(three, follower), want_fence=True).is_fenced
    assert three.broker(three.active).image.brokers[follower].fenced


def test_heartbeat_with_stale_broker_epoch_is_refused(three: WholeCluster) -> None:
    assert beat(three, 1, epoch(three, 1) - 1).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_heartbeat_of_unregistered_broker_is_refused(three: WholeCluster) -> None:
    assert beat(three, 9, 1).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_inactive_controller_refuses_heartbeats(three: WholeCluster) -> None:
    assert beat(three, 1, epoch(three, 1), node=three.follower()).error_code == ErrorCode.NOT_CONTROLLER
