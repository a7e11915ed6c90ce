"""The tests of each suite that take a second at most; `make conformance` runs the others too."""

from pathlib import Path

import pytest

from tests.clients.conformance.__main__ import verdict_of
from tests.clients.conformance.registry import SUITES
from tests.clients.conformance.suite import Suite


@pytest.mark.parametrize("suite", [suite for suite in SUITES if suite.quick], ids=lambda suite: suite.name)
def test_what_passes_on_apache_kafka_passes_here(suite: Suite, tmp_path: Path) -> None:
    assert suite.quick is not None
    verdict = verdict_of(suite, suite.quick, tmp_path / suite.name).verdict
    assert not verdict.unexpected, [outcome.name for outcome in verdict.unexpected]
    assert verdict.passed
