"""The quick part of each suite (seconds per test), on one broker and on three; `make conformance` runs the rest too."""

from pathlib import Path

import pytest

from tests.clients.conformance.__main__ import verdict_of
from tests.clients.conformance.registry import SUITES
from tests.clients.conformance.suite import Quick, Suite

PARTS = [
    *((suite, suite.quick, 1) for suite in SUITES if suite.quick),
    *((suite, suite.quick_on_three, 3) for suite in SUITES if suite.quick_on_three),
]


@pytest.mark.parametrize(("suite", "part", "brokers"), PARTS, ids=lambda value: getattr(value, "name", None))
def test_tests_that_pass_on_apache_kafka_pass_here(suite: Suite, part: Quick, brokers: int, tmp_path: Path) -> None:
    verdict = verdict_of(suite, part, tmp_path / suite.name, brokers).verdict
    assert not verdict.unexpected, [outcome.name for outcome in verdict.unexpected]
    assert verdict.passed or verdict.alone
