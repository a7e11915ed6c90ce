from __future__ import annotations

import pytest

from controller.scram import DECOY_KEY
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.records.metadata import UserScramCredentialRecord
from tests.unit.broker.node import Node


def describe(node: Node, users: list[str] | None) -> list[tuple[str, int]]:
    requested = None if users is None else [DescribeUserScramCredentialsRequest.User(name=user) for user in users]
    response = node.answer(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=requested)
    assert response.error_code == ErrorCode.NONE
    return [(result.user, result.error_code) for result in response.results]


def test_credentials_are_listed_without_salts_and_keys(node: Node) -> None:
    node.commit(
        *(
            UserScramCredentialRecord(
                name=name, mechanism=mechanism, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096 + mechanism
            )
            for name, mechanism in (("zoe", 2), ("zoe", 1), ("amy", 1))
        )
    )
    for users, expected in ((None, ["amy", "zoe"]), (["zoe"], ["zoe"])):
        requested = None if users is None else [DescribeUserScramCredentialsRequest.User(name=name) for name in users]
        response = node.answer(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=requested)
        assert [result.user for result in response.results] == expected
        found = response.results[-1].credential_infos
        assert [(one.mechanism, one.iterations) for one in found] == [(1, 4097), (2, 4098)]


def test_secret_of_decoys_is_not_listed(node: Node) -> None:
    upsertion = AlterUserScramCredentialsRequest.Upsertion(
        name="amy", mechanism=2, iterations=4096, salt=b"s", salted_password=b"p"
    )
    response = node.answer(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[upsertion])
    assert [(one.user, one.error_code) for one in response.results] == [("amy", ErrorCode.NONE)]
    assert DECOY_KEY in node.image.scram_credentials
    assert describe(node, None) == [("amy", ErrorCode.NONE)]
    assert describe(node, [""]) == [("", ErrorCode.RESOURCE_NOT_FOUND)]


@pytest.mark.parametrize("everybody", [None, []])
def test_no_user_has_credentials(node: Node, everybody: list[str] | None) -> None:
    assert describe(node, everybody) == []


def test_named_user_is_not_found(node: Node) -> None:
    assert describe(node, ["me"]) == [("me", ErrorCode.RESOURCE_NOT_FOUND)]


def test_a_user_named_twice_is_refused(node: Node) -> None:
    assert describe(node, ["me", "me", "you"]) == [
        ("me", ErrorCode.DUPLICATE_RESOURCE),
        ("you", ErrorCode.RESOURCE_NOT_FOUND),
    ]
