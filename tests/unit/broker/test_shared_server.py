"""The parts of a node that brokers and controllers share."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from random import SystemRandom

import pytest

from broker.node import Node
from broker.settings import Option, check_settings
from controller.image import MetadataImage
from storage.disk import OsDisk
from tests.certificates import Certificates


def test_random_numbers_are_those_of_the_system(tmp_path: Path) -> None:
    """Any client gets nonces: from those of `random.Random` it could compute later secrets."""
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    settings = check_settings({name: Option(text, "test") for name, text in given.items()})
    with closing(asyncio.new_event_loop()) as loop:
        node = Node(settings, OsDisk(), loop)
        node.shared.release_directories()
    assert isinstance(node.shared.random, SystemRandom)


def test_alterations_of_security_are_checked_without_the_warnings_of_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(tmp_path)
    given = {"listeners": "SSL://127.0.0.2:0", "log.dirs": str(tmp_path / "data")} | certificates.broker_settings()
    given["security.inter.broker.protocol"] = "SSL"
    settings = check_settings({name: Option(text, "test") for name, text in given.items()})
    with closing(asyncio.new_event_loop()) as loop:
        node = Node(settings, OsDisk(), loop)
        node.shared.release_directories()
        node.shared.check_security(MetadataImage(cluster_id="c"))
        assert "advertised host" not in caplog.text
        node.shared.load_security()
    assert "advertised host 127.0.0.2" in caplog.text
