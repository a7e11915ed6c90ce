"""Brokers for the applications; none of these may log a traceback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.applications.brokers import three_brokers
from tests.chaos.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three running brokers."""
    with three_brokers(tmp_path / "brokers") as running:
        running.wait_until_whole()
        yield running
        complaints = {node.id: node.complaints() for node in running.nodes.values()}
    assert not any(complaints.values()), complaints
