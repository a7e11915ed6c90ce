"""A test of the tests: each planted bug is detected in its recorded state, which passes without the bug."""

from __future__ import annotations

import pytest

from tests.crash import bugs, metadata_bugs
from tests.planting import Bug, replay


@pytest.mark.parametrize("bug", [*bugs.BUGS, *metadata_bugs.BUGS], ids=lambda bug: bug.name)
def test_planted_bug_breaks_its_invariant(bug: Bug) -> None:
    assert replay(bug, bugs.outcome_of, bugs.control_of) == "", f"python -m {bugs.__name__} {bug.name}"
