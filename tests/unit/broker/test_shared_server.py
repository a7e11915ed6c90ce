"""The parts of a node that brokers and controllers share."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from random import SystemRandom

from broker.node import Node
from broker.settings import Option, check_settings
from storage.disk import OsDisk


def test_random_numbers_are_those_of_the_system(tmp_path: Path) -> None:
    """Any client gets nonces: from those of `random.Random` it could compute later secrets."""
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    settings = check_settings({name: Option(text, "test") for name, text in given.items()})
    with closing(asyncio.new_event_loop()) as loop:
        node = Node(settings, OsDisk(), loop)
        node.shared.release_directories()
    assert isinstance(node.shared.random, SystemRandom)
