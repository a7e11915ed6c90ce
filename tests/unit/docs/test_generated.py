from pathlib import Path

import pytest

from docs.generated import Generated


@pytest.fixture
def generated(tmp_path: Path) -> Generated:
    page = tmp_path / "PAGE.md"
    page.write_text("by hand\n<begin>\nold\n<end>\nby hand too\n")
    return Generated(page, "<begin>\n", "<end>\n", lambda: "new")


def test_only_the_part_between_the_marks_is_written(generated: Generated) -> None:
    assert generated.main([], "the command") == 0
    assert generated.page.read_text() == "by hand\n<begin>\n\nnew\n<end>\nby hand too\n"


def test_checking_writes_nothing_and_names_the_command_for_a_stale_page(
    generated: Generated, capsys: pytest.CaptureFixture[str]
) -> None:
    before = generated.page.read_text()
    assert generated.main(["--check"], "the command") == 1
    assert capsys.readouterr().out == "stale: run the command\n"
    assert generated.page.read_text() == before


def test_a_page_that_was_written_is_up_to_date(generated: Generated, capsys: pytest.CaptureFixture[str]) -> None:
    generated.main([], "the command")
    assert generated.main(["--check"], "the command") == 0
    assert capsys.readouterr().out == "up to date\n"
