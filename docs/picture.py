"""Draw Barnabas beside Apache Kafka, in docs/beside-kafka.svg: throughput, start-up, memory and failover.

python -m docs.picture            draws the newest whole result in benchmarks/results/
python -m docs.picture --check    exits with 1 if the picture is not that of the newest whole result

A result is whole if it has every figure of the picture: `make bench` makes one, `--only` does not.
The figures are those of warm brokers. The picture names the result, the machine and the date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
PICTURE = FOLDER / "beside-kafka.svg"
RESULTS = FOLDER.parent / "benchmarks" / "results"
COMMAND = "python -m docs.picture"

_OURS, _HOLDS = "warm: Barnabas", "holds"  # columns; Apache Kafka's figure is in the one after ours
_EACH_RUN = ["", "Barnabas", "beside"]  # the headings of the second table
_THE_SAME = "the same"


class Chart(NamedTuple):
    """A chart of bars: its title, and the rows of the result that it shows, each with its label in the chart."""

    title: str
    bars: tuple[tuple[str, str], ...]


THREE = "three brokers from nothing until all serve, s"
CHARTS = (
    Chart(
        "Throughput, MB/s (more is better)",
        (
            ("produce, acks=1", "produce acks=1, MB/s"),
            ("produce, acks=all", "produce acks=all, MB/s"),
            ("consume", "consume without the rebalance, MB/s"),
            ("three replicas, acks=all", "acks=all, three replicas: MB/s"),
        ),
    ),
    Chart(
        "Start until the first response, s (less is better)",
        (("one broker", "first answer after the start, s"), ("three brokers", THREE)),
    ),
    Chart(
        "Memory, MB (less is better)",
        (
            ("one idle broker", "idle memory, MB"),
            ("three brokers, just started", f"{THREE} / the same: memory of all three, MB"),
            (
                "three brokers under load",
                "acks=all, three replicas: MB/s / the same: memory of all three at most, MB",
            ),
        ),
    ),
    Chart(
        "Longest gap of a producer, s (less is better)",
        (
            ("leader killed", "leader killed, not the controller: longest gap, s"),
            ("leader and controller killed", "leader killed, the active controller: longest gap, s"),
            ("rolling restart", "rolling restart of all three: longest gap, s"),
        ),
    ),
)


class Figures(NamedTuple):
    """The warm figures of one row; `settled` if the last rounds of both brokers agreed."""

    ours: float
    theirs: float
    settled: bool = True


class Result(NamedTuple):
    """A kept page of benchmarks: its name, the facts at its head, its figures, and how many runs they are medians of.

    A row whose name begins with "the same" is named after the row that it refers to as well: "ROW / the same: ...".
    """

    name: str
    facts: dict[str, str]
    figures: dict[str, Figures]
    runs: int

    @property
    def is_whole(self) -> bool:
        """Whether the result has every figure of the picture."""
        return all(row in self.figures for chart in CHARTS for _, row in chart.bars)


def read(path: Path) -> Result:
    """Return the result in a file."""
    text = path.read_text(encoding="utf-8")
    figures: dict[str, Figures] = {}
    heading: list[str] = []
    subject, runs = "", 1
    for cells in ([cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line[:1] == "|"):
        if not cells[0]:
            heading = cells
        elif heading == _EACH_RUN:
            runs = max(runs, len(cells[1].partition("(")[0].split()))
        elif _OURS in heading and not set(cells[0]) <= set("-"):
            is_the_same = cells[0].startswith(_THE_SAME)
            subject = subject if is_the_same else cells[0]
            ours, theirs = cells[heading.index(_OURS)], cells[heading.index(_OURS) + 1]
            if theirs.endswith("(Apache Kafka)"):
                name = f"{subject} / {cells[0]}" if is_the_same else cells[0]
                settled = cells[heading.index(_HOLDS)] != "unsettled"
                figures[name] = Figures(float(ours), float(theirs.split()[0]), settled)
    facts = dict(re.findall(r"^- ([^:]+): (.+)$", text, re.MULTILINE))
    return Result(path.name, facts, figures, runs)


def newest(folder: Path = RESULTS) -> Result:
    """Return the newest whole result. Raise `LookupError` if there is none."""
    for path in sorted(folder.glob("*.md"), reverse=True):
        if (found := read(path)).is_whole:
            return found
    raise LookupError(f"{folder} has no result of a whole run; run make bench")


def named(svg: str) -> str:
    """Return the name of the result that a picture was drawn from."""
    found = re.search(r"benchmarks/results/([\w.-]+\.md)", svg)
    return found[1] if found else ""


WIDTH = 860
MARGIN = 24
_COLUMN = WIDTH // 2
_LABEL = 168  # width of the labels, left of the bars
_VALUE = 52  # width of the figures, right of the bars
_BAR, _ROW = 11, 36  # height of a bar, and of the two bars of a row with the space below
_HEAD = 44  # height of a chart's title
_TOP, _NOTE = 54, 18  # height of the legend, and of a line of the notes
_STYLE = """
  text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 13px }
  .small { font-size: 11px; fill: #59636e }
  .card { fill: #ffffff; stroke: #d1d9e0 }
  .ours { fill: #0969da }
  .theirs { fill: #afb8c1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .card { fill: #0d1117; stroke: #3d444d }
    .ours { fill: #4493f8 }
    .theirs { fill: #656c76 }
  }
"""


def draw(result: Result) -> str:
    """Return the picture of a result as SVG. It has its own background, so it is readable on any page."""
    parts: list[str] = []
    y = _TOP
    for first in range(0, len(CHARTS), 2):
        row = CHARTS[first : first + 2]
        for column, chart in enumerate(row):
            parts += _chart(chart, result, MARGIN + column * (_COLUMN - MARGIN // 2), y)
        y += _HEAD + _ROW * max(len(chart.bars) for chart in row)
    notes = list(_notes(result))
    height = y + _NOTE * len(notes) + 4
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<!-- drawn by {COMMAND} from benchmarks/results/{result.name} -->",
            f"<title>Barnabas and Apache Kafka {escape(result.facts['Apache Kafka'])}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
            *_legend(result),
            *parts,
            *(_text(MARGIN, y + _NOTE * line, words, "small") for line, words in enumerate(notes)),
            "</svg>\n",
        )
    )


def _legend(result: Result) -> Iterable[str]:
    names = (("ours", "Barnabas"), ("theirs", f"Apache Kafka {result.facts['Apache Kafka']}"))
    for place, (side, name) in enumerate(names):
        x = MARGIN + 110 * place
        yield f'<rect class="{side}" x="{x}" y="21" width="{_BAR}" height="{_BAR}"/>'
        yield _text(x + _BAR + 6, 31, name)


def _chart(chart: Chart, result: Result, x: int, y: int) -> Iterable[str]:
    """Return one chart whose upper left corner is at (x, y). All its bars have one scale, which begins at 0."""
    yield _text(x, y + 16, chart.title, "title")
    longest = _COLUMN - MARGIN - MARGIN // 2 - _LABEL - _VALUE
    most = max(max(result.figures[row][:2]) for _, row in chart.bars)
    for line, (label, row) in enumerate(chart.bars):
        top = y + 30 + _ROW * line
        figures = result.figures[row]
        yield _text(x, top + _BAR + 4, label if figures.settled else f"{label} *")
        for place, (side, figure) in enumerate((("ours", figures.ours), ("theirs", figures.theirs))):
            width = max(1.0, longest * figure / most)
            bar = top + (_BAR + 2) * place
            yield f'<rect class="{side}" x="{x + _LABEL}" y="{bar}" width="{width:.1f}" height="{_BAR}"/>'
            yield _text(x + _LABEL + width + 5, bar + _BAR - 1, _shown(figure))


def _notes(result: Result) -> Iterable[str]:
    """Return how the figures were measured."""
    facts = {name: escape(fact) for name, fact in result.facts.items()}
    runs = f"medians of {result.runs} runs" if result.runs > 1 else "one run each"
    yield f"Warm brokers, one at a time on the same machine, {runs}. {facts['Machine']}. {result.name[:10]}."
    yield f"Barnabas: {facts['Barnabas']}. Apache Kafka: {facts['Apache Kafka']}, Java {_java(facts['Java'])}."
    if not all(result.figures[row].settled for chart in CHARTS for _, row in chart.bars):
        yield "* The last rounds of a broker still differed by more than 10 % when the measurement ended."


def _java(version: str) -> str:
    found = re.search(r"\d+(\.\d+)*", version)
    return found[0] if found else version


def _shown(figure: float) -> str:
    """Return a figure with three significant digits, and thousands with commas."""
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def _text(x: float, y: float, words: str, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{x:g}" y="{y:g}">{words}</text>'


def main(arguments: list[str], picture: Path = PICTURE, results: Path = RESULTS) -> int:
    """Draw the picture; with `--check` only print whether it is up to date, and return 1 if it is not."""
    svg = draw(newest(results))
    if arguments == ["--check"]:
        is_current = picture.exists() and picture.read_text(encoding="utf-8") == svg
        print("up to date" if is_current else f"stale: run {COMMAND}")
        return int(not is_current)
    picture.write_text(svg, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
