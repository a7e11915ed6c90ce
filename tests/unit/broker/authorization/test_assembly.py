"""The authorizer that settings define."""

from __future__ import annotations

import pytest

from tests.authorization.matrix import ADMIN
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.guarded_node import SETTINGS, GuardedNode


def test_without_the_setting_there_is_no_authorizer_and_no_guard(new_node: NewNode) -> None:
    node = new_node()
    node.start()
    assert node.broker.authorizer is None
    assert node.node.controller is not None
    assert node.node.controller.authorizer is None


def test_broker_and_controller_share_the_authorizer(guarded: GuardedNode) -> None:
    assert guarded.node.node.controller is not None
    assert guarded.node.node.controller.authorizer is guarded.authorizer


def test_the_start_logs_who_may_do_everything(new_node: NewNode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "broker")
    new_node(None, **SETTINGS | {"super_users": f"{ADMIN}; User:other"})
    start = "Requests are authorized by ACLs; super users:"
    assert f"{start} User:admin; User:other; resources without ACLs are for super users" in caplog.messages
    new_node(None, **SETTINGS | {"super_users": "", "allow_everyone_if_no_acl_found": "true"})
    assert f"{start} none; resources without ACLs are for everyone" in caplog.messages
