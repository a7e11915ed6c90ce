"""Set-ups of other languages' tool-chains: skipped, required, built once."""

from pathlib import Path

import pytest

from tests.setups import prepared, require

MISSING = "a-tool-that-does-not-exist"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path


def test_missing_tool_skips_the_test_with_a_reason() -> None:
    with pytest.raises(pytest.skip.Exception, match=f"not installed: {MISSING}"):
        require("sh", MISSING)


def test_missing_tool_fails_the_test_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=MISSING):
        require(MISSING)


def test_setup_is_built_once_for_each_content_of_its_sources(cache: Path) -> None:
    pin = cache / "pin.txt"
    built: list[Path] = []
    pin.write_text("1.0")
    first = prepared("thing", [pin], built.append)
    assert prepared("thing", [pin], built.append) == first
    pin.write_text("1.1")
    second = prepared("thing", [pin], built.append)
    assert built == [first, second]


def test_setup_that_failed_is_built_again(cache: Path) -> None:
    pin = cache / "pin.txt"
    pin.write_text("1.0")

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("registry out of reach")

    with pytest.raises(OSError, match="out of reach"):
        prepared("thing", [pin], fail)
    assert not list(prepared("thing", [pin], lambda _: None).glob("half"))
