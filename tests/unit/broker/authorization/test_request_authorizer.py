"""Decisions about the client of a request, by the current metadata."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.authorization.audit_log import AuditLog
from broker.authorization.request_authorizer import RequestAuthorizer, authorization_error
from broker.network.connection import RequestContext
from controller.acls.acl import AUTHORIZATION_ERRORS, AclOperation, AclResourceType
from controller.acls.authorizer import StandardAuthorizer
from controller.image import MetadataImage
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from tests.unit.controller.acls.entries import image_of

READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
ALICE = RequestContext(ApiKey.FETCH, 12, 1, "app", 1, "PLAINTEXT", "10.0.0.1", "User:alice")
ROOT = ALICE._replace(principal="User:root")


class Rig:
    """An authorizer, and the metadata that the test changes."""

    def __init__(self) -> None:
        self.metadata: Any = SimpleNamespace(image=MetadataImage(cluster_id="c"))
        rules = StandardAuthorizer(["User:root"], allow_if_no_acl=True)
        self.authorizer = RequestAuthorizer(rules, self.metadata, AuditLog(lambda: 0.0))

    def load(self, *lines: str) -> None:
        self.metadata.image = MetadataImage(cluster_id="c", offset=1, acls=image_of(*lines))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_before_the_metadata_is_loaded_only_super_users_are_served(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """An entry that denies may be in what is not loaded yet. The refusal is logged: nodes may wait for it in vain."""
    with pytest.raises(KafkaError, match=r"The ACLs are not loaded yet\.") as raised:
        rig.authorizer.authorize(ALICE, READ, TOPIC, "t")
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert [message.startswith('Refused: principal="User:alice"') for message in caplog.messages] == [True]
    with pytest.raises(KafkaError):
        rig.authorizer.may_on_any(ALICE, READ, TOPIC)
    assert rig.authorizer.authorize(ROOT, READ, TOPIC, "t")
    rig.load("deny User:alice READ TOPIC:t")
    assert not rig.authorizer.authorize(ALICE, READ, TOPIC, "t")
    assert rig.authorizer.authorize(ALICE, READ, TOPIC, "u")


def test_decisions_follow_the_image(rig: Rig) -> None:
    rig.load("deny User:alice READ TOPIC:t")
    assert not rig.authorizer.may(ALICE, READ, TOPIC, "t")
    rig.load("allow User:alice READ TOPIC:t", "deny User:bob READ TOPIC:*")
    assert rig.authorizer.may(ALICE, READ, TOPIC, "t")
    assert rig.authorizer.acl_count == 2


def test_only_refusals_of_what_was_asked_for_are_counted_and_logged(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.load("deny User:alice ALL TOPIC:*", "deny User:alice ALL CLUSTER:kafka-cluster")
    rig.authorizer.may(ALICE, READ, TOPIC, "t")
    rig.authorizer.may_on_cluster(ALICE, DESCRIBE)
    rig.authorizer.may_on_any(ALICE, READ, TOPIC)
    rig.authorizer.operations(ALICE, TOPIC, "t")
    assert (rig.authorizer.refusals, caplog.messages) == (0, [])
    assert rig.authorizer.unauthorized(ALICE, READ, TOPIC, ["b", "a", "b"]) == {"a", "b"}
    with pytest.raises(KafkaError, match="Cluster authorization failed: the request needs DESCRIBE permission"):
        rig.authorizer.require(ALICE, DESCRIBE)
    assert rig.authorizer.refusals == 3
    assert caplog.messages == [
        'Refused: principal="User:alice" host="10.0.0.1" operation=READ resource=TOPIC:"a" api=Fetch client="app"'
        " and 1 more refusals of this kind",
        'Refused: principal="User:alice" host="10.0.0.1" operation=DESCRIBE resource=CLUSTER:"kafka-cluster" api=Fetch'
        ' client="app"',
    ]


def test_operations_are_the_bits_of_what_the_resource_has(rig: Rig) -> None:
    rig.load("allow User:alice ALL TOPIC:t", "allow User:alice ALL CLUSTER:kafka-cluster")
    assert rig.authorizer.operations(ALICE, TOPIC, "t") == sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
    assert rig.authorizer.cluster_operations(ALICE) == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
    rig.load("allow User:alice CREATE CLUSTER:kafka-cluster")
    assert rig.authorizer.cluster_operations(ALICE) == 0


@pytest.mark.parametrize("resource_type", AUTHORIZATION_ERRORS)
def test_each_type_of_resource_has_its_error(resource_type: AclResourceType) -> None:
    error = authorization_error(resource_type)
    assert error.code is AUTHORIZATION_ERRORS[resource_type]
    assert error.message.endswith(" authorization failed.")


def test_tokens_are_requested_for_oneself_and_with_create_tokens_for_others(rig: Rig) -> None:
    rig.load("allow User:alice CREATE_TOKENS USER:User:bob", "deny User:* CREATE_TOKENS USER:User:carol")
    owners = ("User:alice", "User:bob", "User:carol")
    assert [rig.authorizer.may_request_tokens_for(ALICE, owner) for owner in owners] == [True, True, False]
    assert rig.authorizer.refusals == 1
