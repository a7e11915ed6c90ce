from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks._rows import HEADINGS, KAFKA, Row, Runs, at_most, row
from docs.picture import CHARTS, PICTURE, RESULTS, draw, main, named, newest, read

FACTS = """
- Command: python -m benchmarks beside_kafka
- Machine: 2 x A & B, 25 GB, Linux 6.18
- Barnabas: commit abc1e2b, Python 3.11.7, uvloop 0.23.0
- Apache Kafka: 4.3.1
- Java: openjdk version "17.0.15" 2025-04-15
"""


def keep(folder: Path, day: str, *rows: Row) -> Path:
    """Write a page of results as `make bench` does."""
    path = folder / f"{day}T1200.md"
    path.write_text(
        f"# {day}\n{FACTS}\nMedians:\n\n{HEADINGS}\n"
        + "\n".join(map(str, rows))
        + "\n\nEach run:\n\n| | Barnabas | beside |\n|---|---|---|\n| consume, MB/s | 2 3 4 (cold: 1 1 1) | 9 8 7 |\n"
    )
    return path


def every_row() -> list[Row]:
    """Return a row for each figure of the picture: 1 for Barnabas, 4 for Apache Kafka."""
    names = [name for chart in CHARTS for _, name in chart.bars]
    names.sort(key=lambda name: name.split(" / "))  # a row "the same" follows the row that it refers to
    return [row(name.split(" / ")[-1], at_most(1), [1], [4]) for name in names]


def test_the_committed_picture_is_drawn_from_the_result_that_it_names() -> None:
    svg = PICTURE.read_text(encoding="utf-8")
    assert svg == draw(read(RESULTS / named(svg))), "run python -m docs.picture"


def test_the_figures_are_those_of_warm_brokers(tmp_path: Path) -> None:
    one = Row("consume, MB/s", at_most(1), Runs([2, 3, 4], [0.5, 0.5, 0.5]), Runs([9, 8, 7], [1, 1, 1]))
    assert read(keep(tmp_path, "2026-01-02", one)).figures == {"consume, MB/s": (3, 8, True)}


def test_a_row_that_is_not_beside_apache_kafka_is_left_out(tmp_path: Path) -> None:
    alone, loop = row("idle memory, MB", at_most(1), [1]), row("log, MB/s", at_most(1), [1], [2], "bare loop")
    assert read(keep(tmp_path, "2026-01-02", alone, loop)).figures == {}


def test_row_the_same_gets_the_name_of_its_reference_row(tmp_path: Path) -> None:
    rows = [row(name, at_most(1), [1], [2], KAFKA) for name in ("start, s", "the same: memory, MB", "the same: CPU, s")]
    assert [*read(keep(tmp_path, "2026-01-02", *rows)).figures] == [
        "start, s",
        "start, s / the same: memory, MB",
        "start, s / the same: CPU, s",
    ]


def test_the_newest_result_that_has_every_figure_is_drawn(tmp_path: Path) -> None:
    keep(tmp_path, "2026-01-02", *every_row())
    whole = keep(tmp_path, "2026-01-03", *every_row())
    keep(tmp_path, "2026-01-04", *every_row()[:-1])
    assert newest(tmp_path).name == whole.name


def test_without_a_complete_result_nothing_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="make bench"):
        newest(tmp_path)


def test_the_picture_names_the_machine_the_date_and_the_result(tmp_path: Path) -> None:
    svg = draw(read(keep(tmp_path, "2026-01-02", *every_row())))
    shown = " ".join(ElementTree.fromstring(svg).itertext())
    assert all(
        words in shown
        for words in ("Warm brokers", "medians of 3 runs", "2 x A & B", "2026-01-02", "abc1e2b", "Java 17.0.15")
    )
    assert named(svg) == "2026-01-02T1200.md"


def test_figures_that_have_not_settled_are_marked(tmp_path: Path) -> None:
    settled = draw(read(keep(tmp_path, "2026-01-02", *every_row())))
    first = every_row()[0]
    unsettled = first._replace(theirs=first.theirs._replace(settled=False))
    svg = draw(read(keep(tmp_path, "2026-01-03", unsettled, *every_row()[1:])))
    assert (settled.count("*"), svg.count(" *<"), svg.count("* The last rounds")) == (0, 1, 1)


def test_the_bars_of_a_chart_have_one_scale(tmp_path: Path) -> None:
    svg = ElementTree.fromstring(draw(read(keep(tmp_path, "2026-01-02", *every_row()))))
    bars = [bar for bar in svg.iter("{http://www.w3.org/2000/svg}rect") if bar.get("class") in ("ours", "theirs")]
    ours, theirs = ({bar.get("width") for bar in bars[2:] if bar.get("class") == side} for side in ("ours", "theirs"))
    assert len(ours) == len(theirs) == 1
    assert float(ours.pop() or 0) * 4 == pytest.approx(float(theirs.pop() or 0), abs=0.3)


def test_checking_writes_nothing_and_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(tmp_path, "2026-01-02", *every_row())
    picture = tmp_path / "picture.svg"
    assert main(["--check"], picture, tmp_path) == 1
    assert not picture.exists()
    assert main([], picture, tmp_path) == 0
    assert main(["--check"], picture, tmp_path) == 0
    assert capsys.readouterr().out == "stale: run python -m docs.picture\nup to date\n"
