"""BrokerRegistration, sent by a starting broker."""

from __future__ import annotations

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.fields import fields_of
from protocol.messages.broker_registration import BrokerRegistrationResponse
from tests.unit.broker.controllers import ask, cluster_id, epoch
from tests.unit.broker.whole_cluster import WholeCluster
from tests.unit.controller.cluster import new_registration


def register(three: WholeCluster, broker_id: int, node: int | None = None, **fields: str) -> BrokerRegistrationResponse:
    said = {"cluster_id": cluster_id(three), "incarnation_id": b"n" * 16, "endpoints": {}, "directories": [b"f" * 16]}
    request = new_registration(broker_id, **{**said, **fields})  # type: ignore[arg-type]  # keywords of several types
    values = {field.name: getattr(request, field.name) for field in fields_of(type(request))}
    result: BrokerRegistrationResponse = ask(three, ApiKey.BROKER_REGISTRATION, 4, node=node, **values)
    return result


def test_registered_broker_is_fenced_and_has_a_new_epoch(three: WholeCluster) -> None:
    answer = register(three, 9)
    broker = three.broker(three.active).image.brokers[9]
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
