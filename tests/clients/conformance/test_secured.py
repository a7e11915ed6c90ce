"""The suites that know security, on three brokers whose listeners are all SASL_SSL.

The quick part of each runs every day, and all of it with ``BARNABAS_TEST_SECURED_SUITES``.
"""

import os
from pathlib import Path

import pytest

from tests.clients.conformance.__main__ import verdict_of
from tests.clients.conformance.registry import SUITES
from tests.clients.conformance.suite import Quick, Suite

WHOLE = os.environ.get("BARNABAS_TEST_SECURED_SUITES", "0") == "1"
SECURED = [suite for suite in SUITES if suite.secured]


@pytest.mark.parametrize("suite", SECURED, ids=lambda suite: suite.name)
def test_tests_that_pass_without_security_pass_with_it(suite: Suite, tmp_path: Path) -> None:
    assert suite.secured is not None
    part = Quick() if WHOLE else suite.secured
    verdict = verdict_of(suite, part, tmp_path / suite.name, brokers=3, secured=True).verdict
    assert not verdict.unexpected, [outcome.name for outcome in verdict.unexpected]
    assert verdict.passed or verdict.alone
