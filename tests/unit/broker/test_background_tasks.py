"""Which background tasks a node has, in virtual time."""

from __future__ import annotations

import asyncio
import os

import pytest

from broker.background_tasks import BackgroundTasks
from controller.image import ResourceType
from protocol.records.metadata import ConfigRecord
from tests.certificates import Certificates
from tests.typed import present
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.node import Node


@pytest.fixture
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def inline_key(certificates: Certificates) -> dict[str, str]:
    """Return the settings of a key store without a file."""
    pem = certificates.broker.read_text()
    return {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": pem,
        "ssl_keystore_certificate_chain": pem,
        "ssl_truststore_type": "PEM",
    }


def begin(node: Node) -> BackgroundTasks:
    tasks = BackgroundTasks(node.node.shared, node.broker)
    tasks.begin()
    return tasks


def test_store_file_that_is_set_at_run_time_is_read_again_when_it_changes(
    new_node: NewNode, certificates: Certificates
) -> None:
    node = new_node(None, listeners="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", **inline_key(certificates))
    node.start()
    tls = present(node.node.shared.security.tls_of("SSL"))
    tasks = begin(node)
    first = tls.context
    name = "listener.name.ssl.ssl.truststore.location"
    trusted = str(certificates.trusted)
    node.commit(ConfigRecord(resource_type=ResourceType.BROKER, resource_name="1", name=name, value=trusted))
    altered = tls.context
    assert altered is not first
    node.pass_time(10)
    assert tls.context is altered
    os.utime(trusted, (1, 1))
    node.pass_time(5)
    assert tls.context is not altered
    node.wait(tasks.stop())


def test_node_without_security_has_no_tasks_for_it(new_node: NewNode, certificates: Certificates) -> None:
    """They reload store files, and close connections that hold memory before their authentication."""

    def count(**settings: str) -> int:
        """Return how many tasks a node with these settings has."""
        node = new_node(None, **settings)
        node.start()
        before = len(asyncio.all_tasks(node.loop))
        tasks = begin(node)
        counted = len(asyncio.all_tasks(node.loop)) - before
        node.wait(tasks.stop())
        return counted

    with_tls = count(listeners="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", **inline_key(certificates))
    with_sasl = count(
        listeners="PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0", sasl_enabled_mechanisms="SCRAM-SHA-256"
    )
    without = count()
    assert (with_tls, with_sasl) == (without + 1, without + 1)
