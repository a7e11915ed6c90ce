"""Every client with an admin part creates, describes, alters and deletes a topic."""

import json

import pytest

from tests.broker_process import BrokerProcess
from tests.clients.clients import CLIENTS, Client
from tests.setups import run


@pytest.mark.parametrize("client", [client for client in CLIENTS if client.has_admin], ids=str)
def test_admin_operations_of_client_take_effect_at_once(client: Client, broker: BrokerProcess, topic: str) -> None:
    seen = json.loads(run(*client.admin(broker.bootstrap, topic), timeout_s=60))
    assert seen == {
        "refused": True,
        "listed": True,
        "partitions": 2,
        "retention_created": "86400000",
        "partitions_added": 3,
        "retention_altered": "604800000",
        "listed_deleted": False,
    }
