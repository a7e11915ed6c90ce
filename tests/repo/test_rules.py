"""The table of rules in tests/README.md lists exactly the tests with a rule's number in their name."""

import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d+) \| .* \| ([^|]*) \|$", re.MULTILINE)
NUMBER = re.compile(r"\brule (\d+)|_rule_(\d+)_", re.IGNORECASE)


def test_every_rule_is_listed_with_the_files_that_show_it() -> None:
    listed = {
        number: set(re.findall(r"`([^`]+)`", files)) for number, files in ROW.findall((TESTS / "README.md").read_text())
    }
    carried = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        for words, name in NUMBER.findall(path.read_text()):
            carried[words or name].add(str(path.relative_to(TESTS)))
    assert listed == carried


def test_rules_for_one_broker_have_tests_with_their_number() -> None:
    named = {
        found for path in TESTS.rglob("test_*.py") for found in re.findall(r"def test_rule_(\d+)_", path.read_text())
    }
    assert named >= {str(number) for number in (*range(9, 18), 21, 22, 23, 25, 26, 27, 29, 30)}
