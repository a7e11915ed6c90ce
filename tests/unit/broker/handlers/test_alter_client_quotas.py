"""AlterClientQuotas, sent by a client."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from tests.unit.broker.controller_node import ControllerNode

Entry = AlterClientQuotasRequest.Entry


def set_rate(controlled: ControllerNode, version: int, kind: str, name: str | None, key: str) -> ErrorCode:
    entity = [Entry.Entity(entity_type=kind, entity_name=name)]
    entry = Entry(entity=entity, ops=[Entry.Op(key=key, value=7.0, remove=False)])
    response = controlled.query(ApiKey.ALTER_CLIENT_QUOTAS, version, entries=[entry], validate_only=False)
    [answer] = response.entries
    assert [(part.entity_type, part.entity_name) for part in answer.entity] == [(kind, name)]
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize("version", range(2))
def test_quota_is_stored(controlled: ControllerNode, version: int) -> None:
    assert set_rate(controlled, version, "client-id", None, "producer_byte_rate") is ErrorCode.NONE
    assert controlled.image.client_quotas == {(("client-id", None),): {"producer_byte_rate": 7.0}}


def test_quotas_survive_restart(controlled: ControllerNode) -> None:
    set_rate(controlled, 1, "user", "u", "consumer_byte_rate")
    controlled.node.reopen()
    assert controlled.image.client_quotas == {(("user", "u"),): {"consumer_byte_rate": 7.0}}


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("10.1.2.3", ErrorCode.NONE),
        ("::1", ErrorCode.NONE),
        ("localhost", ErrorCode.NONE),
        (None, ErrorCode.NONE),
        ("no host at all", ErrorCode.INVALID_REQUEST),
        ("." * 300, ErrorCode.INVALID_REQUEST),
    ],
)
def test_ip_entity_must_be_an_address_or_a_resolvable_host(
    controlled: ControllerNode, host: str | None, code: ErrorCode
) -> None:
    assert set_rate(controlled, 1, "ip", host, "connection_creation_rate") is code
