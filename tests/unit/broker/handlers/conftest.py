"""Fixture `three`: a cluster for requests that only nodes send to controllers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.broker.whole_cluster import WholeCluster


@pytest.fixture
def three() -> Iterator[WholeCluster]:
    """Return three nodes that serve, each a broker and a controller."""
    cluster = WholeCluster()
    cluster.start()
    yield cluster
    cluster.close()
