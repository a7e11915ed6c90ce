"""SASL requests on a listener that needs no authentication."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.node import Node


@pytest.mark.parametrize("version", [0, 1])
def test_handshake_without_sasl_is_in_an_illegal_state(node: Node, version: int) -> None:
    answer = node.answer(ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_authentication_without_sasl_is_in_an_illegal_state(node: Node, version: int) -> None:
    answer = node.answer(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=b"")
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
