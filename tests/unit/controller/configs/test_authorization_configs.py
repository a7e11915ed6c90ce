"""Which authorizers and super users a broker can start with."""

from __future__ import annotations

import re

import pytest

from controller.configs.authorization_configs import STANDARD_AUTHORIZER, check_authorization
from controller.configs.definition import ConfigConflictError
from tests.unit.controller.cluster import Settings


def check(authorizer: str, super_users: str = "") -> None:
    check_authorization(Settings({"authorizer.class.name": authorizer, "super.users": super_users}).__getitem__)


def test_no_authorizer_and_kafkas_standard_one_are_accepted() -> None:
    check("")
    check(STANDARD_AUTHORIZER, "User:admin;User:CN=broker,O=acme")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "kafka.security.authorizer.AclAuthorizer",
            "authorizes with ZooKeeper, which Apache Kafka 4 does not do either",
        ),
        ("com.acme.OurAuthorizer", "is a Java class, which cannot be loaded"),
        ("StandardAuthorizer", "is a Java class, which cannot be loaded"),
    ],
)
def test_another_authorizer_is_refused_with_the_one_there_is(name: str, why: str) -> None:
    with pytest.raises(
        ConfigConflictError, match=re.escape(f"{name} {why}; the only authorizer is {STANDARD_AUTHORIZER}")
    ) as found:
        check(name)
    assert found.value.name == "authorizer.class.name"


def test_a_super_user_without_a_type_is_refused_with_the_right_form() -> None:
    with pytest.raises(
        ConfigConflictError, match=r"^the super user alice is not a principal: write it as type:name"
    ) as found:
        check(STANDARD_AUTHORIZER, "User:admin;alice")
    assert found.value.name == "super.users"
