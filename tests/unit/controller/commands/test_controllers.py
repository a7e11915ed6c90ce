"""Controller registration."""

from __future__ import annotations

from functools import partial

from controller.commands.controllers import register_controller
from protocol.messages.controller_registration import ControllerRegistrationRequest
from tests.unit.controller.cluster import Cluster


def new_controller(port: int = 9093) -> ControllerRegistrationRequest:
    Request = ControllerRegistrationRequest  # noqa: N806
    return Request(
        controller_id=7,
        incarnation_id=b"i" * 16,
        zk_migration_ready=False,
        listeners=[Request.Listener(name="C", host="h", port=port, security_protocol=0)],
        features=[Request.Feature(name="f", min_supported_version=0, max_supported_version=2)],
    )


def test_controller_registration_stores_the_request_fields() -> None:
    cluster = Cluster()
    answer = cluster.apply(partial(register_controller, request=new_controller()))
    assert (answer.error_code, answer.error_message) == (0, None)
    assert cluster.image.controllers == {7: (7, b"i" * 16, {"C": ("h", 9093, 0)}, {"f": (0, 2)})}


def test_identical_controller_registration_writes_no_record() -> None:
    cluster = Cluster()
    cluster.apply(partial(register_controller, request=new_controller()))
    cluster.apply(partial(register_controller, request=new_controller()))
    assert cluster.records == ()
    cluster.apply(partial(register_controller, request=new_controller(9094)))
    assert cluster.image.controllers[7].endpoints["C"].port == 9094
