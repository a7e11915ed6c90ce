"""The pytest plugin: fixtures with brokers, loaded by pytest through the entry point `pytest11`.

    kafka            the session's broker; topics and groups get names of the test, what it leaves is deleted after it
    kafka_session    the same broker, for fixtures of the session, whose topics and groups are kept
    kafka_module     a cluster for the tests of a module
    kafka_function   a cluster for one test
    kafka_cluster    a cluster for one test, of three brokers

All are a `Cluster`. Its arguments are in `@pytest.mark.kafka(brokers=3, config={...})` for the last three, and for the
session's broker in the fixture `kafka_options`, which a conftest.py may override. With pytest-xdist, each worker has
brokers of its own. The report of a failing test has a section for each of its clusters.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from barnabas.testing._report import Watched
    from barnabas.testing.cluster import Cluster

MARK = "kafka"
_SESSION = "kafka"
"""The name of the session's cluster in reports."""
_NAME_CHARACTERS = 60
"""Of a test's name in those of its topics."""
_WATCHED = pytest.StashKey[dict[str, "Watched"]]()
_numbers = count(1)


class LeftoverWarning(UserWarning):
    """A test has left members in a consumer group: consumers that it has not closed."""


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(brokers=N, config=..., ...): the arguments of barnabas.testing.Cluster for kafka_module, "
        "kafka_function and kafka_cluster",
    )
    config.stash[_WATCHED] = {}


@pytest.fixture(scope="session")
def kafka_options() -> Mapping[str, Any]:
    """Return the arguments of `Cluster` for the session's broker; override it to change them."""
    return {}


@pytest.fixture(scope="session")
def kafka_session(kafka_options: Mapping[str, Any], pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """Yield the session's broker, started at its first use."""
    with _running(pytestconfig, _SESSION, dict(kafka_options)) as cluster:
        yield cluster


@pytest.fixture
def kafka(kafka_session: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Yield the session's broker, with names of this test; delete what this test leaves."""
    _refuse_idle_mark(request)
    cluster = kafka_session
    cluster.start_ended()  # with `kafka_session` alone, none is started after a test
    kept = cluster.existing()
    before, cluster.name_prefix = cluster.name_prefix, _prefix(request.node.name)
    yield cluster
    cluster.name_prefix = before
    left = cluster.reset(kept)
    if (watched := request.config.stash[_WATCHED].get(_SESSION)) is not None:  # None if a user's fixture replaces it
        watched.is_swept = True
    for group, clients in left.groups.items():
        if clients:
            warnings.warn(
                f"{request.node.nodeid} left members in the group {group}: {', '.join(clients)}; "
                "they were removed. Close consumers at the end of a test",
                LeftoverWarning,
                stacklevel=1,
            )


@pytest.fixture(scope="module")
def kafka_module(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Yield a cluster for the tests of a module; its `pytestmark` may describe it."""
    with _running(request.config, "kafka_module", _marked(request)) as cluster:
        yield cluster


@pytest.fixture
def kafka_function(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Yield a cluster for this test."""
    with _running(request.config, "kafka_function", _marked(request)) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Yield a cluster for this test, of three brokers unless the mark has another number."""
    with _running(request.config, "kafka_cluster", {"brokers": 3} | _marked(request)) as cluster:
        yield cluster


def _prefix(test: str) -> str:
    """Return the beginning of a test's names: its own name in the characters of topics, and a number."""
    return f"{re.sub(r'[^a-zA-Z0-9]+', '-', test).strip('-')[:_NAME_CHARACTERS]}-{next(_numbers)}-"


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the arguments in the closest mark."""
    mark = request.node.get_closest_marker(MARK)
    if mark is None:
        return {}
    if len(mark.args) > 1:
        raise _wrong(f"pytest.mark.{MARK} takes the number of brokers, and named arguments of Cluster")
    return dict(mark.kwargs) | ({"brokers": mark.args[0]} if mark.args else {})


def _refuse_idle_mark(request: pytest.FixtureRequest) -> None:
    """Fail if the test's own mark describes none of its clusters: the session's broker is as it is."""
    described = {"kafka_module", "kafka_function", "kafka_cluster"}
    if any(mark.name == MARK for mark in request.node.own_markers) and not described & {*request.fixturenames}:
        raise _wrong(
            f"pytest.mark.{MARK} does not change `kafka`, the broker of all tests of the session: use `kafka_function` "
            "or `kafka_cluster` in this test, or give the session's broker its arguments in the fixture `kafka_options`"
        )


def _wrong(message: str) -> BaseException:
    """Return what ends a test with a message alone, without the lines of this module."""
    return pytest.fail.Exception(message, pytrace=False)


@contextmanager
def _running(config: pytest.Config, name: str, arguments: dict[str, Any]) -> Iterator[Cluster]:
    import inspect

    from barnabas.testing._report import Watched
    from barnabas.testing.cluster import Cluster

    try:
        cluster = Cluster(**arguments)
    except (TypeError, ValueError) as error:
        known = ", ".join(inspect.signature(Cluster).parameters)
        raise _wrong(f"{name}: {str(error).removeprefix('Cluster.__init__() ')}; Cluster has: {known}") from None
    with cluster:
        watched = config.stash[_WATCHED]
        watched[name] = Watched(cluster)
        try:
            yield cluster
        finally:
            del watched[name]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin the report of this test at the present state of the clusters that run already."""
    for watched in item.config.stash[_WATCHED].values():
        watched.begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what `simulate` has tried to the report of a test, and what the clusters have to say if it has failed.

    pytest shows the first for passed tests with -rP.
    """
    report = yield
    simulation = sys.modules.get("barnabas.testing._simulation")
    if simulation is not None and simulation.finished:
        report.sections.append(("simulate", "\n".join(simulation.finished)))
        simulation.finished.clear()
    if report.failed:
        for name, watched in item.config.stash[_WATCHED].items():
            if text := watched.text():
                report.sections.append((f"Kafka ({name})", text))
    return report
