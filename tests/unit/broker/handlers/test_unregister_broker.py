"""UnregisterBroker, sent by a client."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.controller_node import ControllerNode


def test_broker_is_unregistered(controlled: ControllerNode) -> None:
    controlled.register(2)
    assert controlled.ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=2).error_code == ErrorCode.NONE
    assert list(controlled.image.brokers) == [1]


def test_unknown_broker_is_refused(controlled: ControllerNode) -> None:
    with pytest.raises(KafkaError) as refused:
        controlled.ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=2)
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
