"""Clusters that the tests of the kit share."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator

import pytest

from barnabas.testing import Cluster


@pytest.fixture(scope="session")
def shared() -> Iterator[Cluster]:
    """A cluster of one broker that runs all the time."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shared_three() -> Iterator[Cluster]:
    """A cluster of three brokers; a test that stops one starts it again."""
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def one(shared: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The shared broker, with names of this test."""
    shared.name_prefix = _prefix(request)
    yield shared
    gc.collect()  # kafka-python and librdkafka leave some sockets to the garbage collector


@pytest.fixture
def three(shared_three: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The shared brokers, all of them running afterwards."""
    shared_three.name_prefix = _prefix(request)
    yield shared_three
    for broker in shared_three.brokers:
        if not broker.is_running:
            broker.start()
        broker.resume()


def _prefix(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:80] + "-"
