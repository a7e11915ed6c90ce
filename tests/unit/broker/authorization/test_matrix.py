"""Every API in every version, from clients with every kind of permissions, answers as Apache Kafka does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from broker.routes import ROUTES
from protocol.api import ApiKey
from tests.authorization.matrix import GOLDEN, Outcomes, apis, clients, prepare, run
from tests.authorization.requests import REQUESTS
from tests.unit.broker.guarded_node import SETTINGS, GuardedNode
from tests.unit.broker.node import Node

OPEN = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}
"""The APIs that every client may use; those of tokens need the token's HMAC, of its owner or a renewer."""

ELSEWHERE = {ApiKey.ENVELOPE, ApiKey.CONTROLLER_REGISTRATION}
"""Tested in `test_guards.py`: a request in the other one, or a change of the metadata."""

DIFFERENT = {"DESCRIBE_USER_SCRAM_CREDENTIALS controller", "DESCRIBE_DELEGATION_TOKEN controller"}
"""Apache Kafka lists these APIs for its controllers, but fails to handle them: UNKNOWN_SERVER_ERROR for all."""


@pytest.fixture(scope="module")
def kafkas() -> Outcomes:
    outcomes: Outcomes = json.loads(GOLDEN.read_text())
    return outcomes


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    node = Node(str(tmp_path_factory.mktemp("matrix")), None, **SETTINGS)
    node.start()
    guarded = GuardedNode(node)
    ids = prepare(guarded.send, [acl for key, kind in apis() for client in clients(key, kind) for acl in client.acls])
    yield run(guarded.send, ids)
    node.stop()


def test_every_api_is_in_the_matrix_or_open_to_all_clients() -> None:
    assert ROUTES.keys() == REQUESTS.keys() | OPEN | ELSEWHERE
    assert {key for key, route in ROUTES.items() if not route.requires and not route.guard} == OPEN


@pytest.mark.parametrize(("key", "listener_type"), list(apis()), ids=lambda value: getattr(value, "name", value))
def test_each_client_gets_what_it_gets_from_kafka(
    ours: Outcomes, kafkas: Outcomes, key: ApiKey, listener_type: str
) -> None:
    name = f"{key.name} {listener_type}"
    assert (ours[name] == kafkas[name]) is (name not in DIFFERENT), ours[name]


def test_a_client_without_entries_is_refused_everything_that_needs_any(ours: Outcomes) -> None:
    for key, listener_type in apis():
        if key in (ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN):
            continue  # every client that authenticates has tokens of its own
        by_client = ours[f"{key.name} {listener_type}"]
        assert by_client["anonymous"] == by_client["nobody"]
