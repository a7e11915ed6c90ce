"""ControllerRegistration, sent by a controller."""

from __future__ import annotations

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.broker_registration import RegisteredListener
from protocol.messages.controller_registration import ControllerRegistrationResponse
from tests.unit.broker.controllers import query
from tests.unit.broker.whole_cluster import WholeCluster


def register(three: WholeCluster, node: int | None = None) -> ControllerRegistrationResponse:
    listener = RegisteredListener(name="CONTROLLER", host="b9", port=9, security_protocol=0)
    result: ControllerRegistrationResponse = query(
        three,
        ApiKey.CONTROLLER_REGISTRATION,
        0,
        node=node,
        controller_id=9,
        incarnation_id=b"i" * 16,
        zk_migration_ready=False,
        listeners=[listener],
        features=[],
    )
    return result


def test_registered_controller_has_its_endpoints(three: WholeCluster) -> None:
    assert register(three).error_code == ErrorCode.NONE
    known = three.raft(three.active).image.controllers[9]
    assert (known.endpoints["CONTROLLER"].host, known.endpoints["CONTROLLER"].port) == ("b9", 9)


def test_inactive_controller_refuses_registrations(three: WholeCluster) -> None:
    assert register(three, three.follower()).error_code == ErrorCode.NOT_CONTROLLER
