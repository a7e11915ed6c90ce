"""DescribeClientQuotas: the entities that match a filter."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.records.metadata import ClientQuotaRecord
from tests.unit.broker.node import Node

EXACT, DEFAULT, ANY = range(3)
Component: TypeAlias = tuple[str, int, str | None]


@pytest.fixture
def node(node: Node) -> Node:
    for number, entity in enumerate(
        [
            {"user": "alice"},
            {"user": None},
            {"client-id": "c"},
            {"user": "alice", "client-id": "c"},
            {"user": "alice", "client-id": None},
            {"ip": "10.0.0.1"},
        ]
    ):
        parts = [ClientQuotaRecord.Entity(entity_type=kind, entity_name=name) for kind, name in entity.items()]  # type: ignore[attr-defined]  # of a type that is known here
        node.commit(ClientQuotaRecord(entity=parts, key="some_rate", value=float(number), remove=False))
    return node


def query_unchanged(node: Node, components: list[Component], *, strict: bool, version: int) -> Any:
    requested = [
        DescribeClientQuotasRequest.Component(entity_type=kind, match_type=how, match=match)
        for kind, how, match in components
    ]
    return node.answer(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=requested, strict=strict)


def query(node: Node, components: list[Component], *, strict: bool, version: int = 1) -> list[int]:
    """Return the numbers of the entities found."""
    response = query_unchanged(node, components, strict=strict, version=version)
    assert all([value.key for value in entry.values] == ["some_rate"] for entry in response.entries)
    return [int(entry.values[0].value) for entry in response.entries]


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("components", "loosely", "strictly"),
    [
        ([], [0, 1, 2, 3, 4, 5], []),
        ([("user", EXACT, "alice")], [0, 3, 4], [0]),
        ([("user", EXACT, "bob")], [], []),
        ([("user", DEFAULT, None)], [1], [1]),
        ([("user", ANY, None)], [0, 1, 3, 4], [0, 1]),
        ([("user", EXACT, "alice"), ("client-id", DEFAULT, None)], [4], [4]),
        ([("client-id", ANY, None), ("user", ANY, None)], [3, 4], [3, 4]),
        ([("ip", ANY, None)], [5], [5]),
    ],
)
def test_filter_matches_entities(
    node: Node, version: int, components: list[Component], loosely: list[int], strictly: list[int]
) -> None:
    assert query(node, components, strict=False, version=version) == loosely
    assert query(node, components, strict=True, version=version) == strictly


def test_entity_components_are_sorted_by_type(node: Node) -> None:
    requested = [DescribeClientQuotasRequest.Component(entity_type="client-id", match_type=DEFAULT, match=None)]
    response = node.answer(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=requested, strict=False)
    [entry] = response.entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("client-id", None), ("user", "alice")]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "alice")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "alice")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_filter_is_refused(node: Node, components: list[Component], code: ErrorCode) -> None:
    response = query_unchanged(node, components, strict=False, version=1)
    assert (response.error_code, response.entries) == (code, None)
    assert response.error_message
