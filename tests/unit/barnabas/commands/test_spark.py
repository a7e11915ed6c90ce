import importlib.util
from typing import Any

import pytest

from tests.unit.barnabas.conftest import Command


@pytest.mark.parametrize("command", ["run", "submit"])
@pytest.mark.parametrize(
    ("words", "message"), [(["windws"], "did you mean windows?"), ([], "name a job: "), (["x"], "barnabas spark list")]
)
def test_unknown_jobs_are_named(barnabas: Command, command: str, words: list[str], message: str) -> None:
    shown = barnabas("spark", command, *words)
    assert shown.status == 2
    assert message in shown.err


def test_missing_pyspark_is_named(barnabas: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without_pyspark(name: str, *arguments: Any) -> Any:
        return None if name == "pyspark" else find(name, *arguments)

    monkeypatch.setattr(importlib.util, "find_spec", without_pyspark)
    for words in (("run", "windows"), ("jars",), ("submit", "windows")):
        shown = barnabas("spark", *words)
        assert (shown.status, "pip install 'barnabas[spark]'" in shown.err) == (1, True)
