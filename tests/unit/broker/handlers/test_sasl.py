from __future__ import annotations

import pytest

from protocol.api import APIS, ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.guarded_node import GuardedNode

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE


@pytest.mark.parametrize("listener_type", ["broker", "controller"])
def test_requests_of_sasl_that_no_authentication_expects_are_an_illegal_state(
    guarded: GuardedNode, listener_type: str
) -> None:
    for version in APIS[HANDSHAKE].versions:
        answer = guarded.ask(HANDSHAKE, version, listener_type=listener_type, mechanism="PLAIN")
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    for version in APIS[AUTHENTICATE].versions:
        refused = guarded.ask(AUTHENTICATE, version, listener_type=listener_type, auth_bytes=b"\0alice\0secret")
        assert (refused.error_code, refused.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
        assert refused.error_message == "SaslAuthenticate request received after successful authentication"
