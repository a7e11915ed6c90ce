"""The list of mutants fits the product: each changes exactly one place, and its test exists."""

import shutil
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant, why_not_found


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_and_is_found_by_a_test(mutant: Mutant, tmp_path: Path) -> None:
    file = tmp_path / mutant.path
    file.parent.mkdir(parents=True)
    shutil.copy(ROOT / mutant.path, file)
    mutant.apply(tmp_path)
    compile(file.read_text(encoding="utf-8"), mutant.path, "exec")
    tests = [path for name in mutant.tests.split() for path in (ROOT / name, *(ROOT / name).rglob("test_*.py"))]
    assert any(f"def {mutant.found_by}(" in path.read_text(encoding="utf-8") for path in tests if path.is_file())


def test_mutant_that_no_longer_matches_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="0 places"):
        Mutant("changed since", "a.py", "2", "3", "", "", 0).apply(tmp_path)


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("FAILED tests/a.py::TestA::test_it[x::y z] - assert 1 == 2\n", None),
        ("FAILED tests/a.py::test_other - assert 1 == 2\n", "NOT FOUND by test_it"),
        ("ERROR tests/a.py::test_it - fixture 'x' not found\n", "ERROR, not a failure"),
        ("ERROR tests/a.py - ImportError\n", "ERROR, not a failure"),
        ("1 passed in 0.01s\n", "SURVIVES"),
    ],
)
def test_only_the_failure_of_the_expected_test_finds_a_mutant(output: str, problem: str | None) -> None:
    why = why_not_found(Mutant("m", "a.py", "2", "3", "tests/a.py", "test_it", 0), output)
    assert why is None if problem is None else why is not None and why.startswith(problem)
