"""The report of the job `quality` as one HTML page: no file beside it, no script, and its plots are SVG inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.quality_report import NULL_TYPE, TopicQuality, WindowQuality, age, by_topic
from spark_jobs.wording import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOOD, WARN, BAD, PLAIN = "good", "warn", "bad", "plain"
COLOURS = {"ok": "#2f7f8f", "null": "#b9c4c9", "malformed": "#c0392b", "line": "#2f7f8f", "other": "#d98324"}
# The format of numbers of records, and the room above the highest value.
COUNT = "{x:,.10g}"
HEADROOM = 1.08
MAX_FIELDS = 30
MAX_DRIFTS = 20
MAX_WINDOWS = 1000
MAX_COLUMNS = 800
TOP_KEYS = 8
STALE_WINDOWS = 2


class Tile(NamedTuple):
    """A figure at the head of a topic."""

    label: str
    value: str
    note: str
    level: str


class Plot(NamedTuple):
    """A plot with what it shows."""

    title: str
    svg: str
    wide: bool = True


def page(windows: Sequence[WindowQuality], *, now: datetime, unique: str) -> str:
    """Return the HTML page about the last windows of each topic.

    `now` is the time of the report, `unique` the fields of records' identities.
    """
    topics = [
        {
            "quality": topic,
            "tiles": tiles(topic, now, unique),
            "plots": plots(topic),
            "fields": topic.fields(),
            "drift": topic.drift(),
        }
        for topic in by_topic(windows, MAX_WINDOWS)
    ]
    return str(
        _template().render(topics=topics, now=now, age=age, max_drifts=MAX_DRIFTS, null_type=NULL_TYPE, time=_time)
    )


def tiles(topic: TopicQuality, now: datetime, unique: str) -> list[Tile]:
    """Return the figures at the head of a topic."""
    window = topic.windows[0].end - topic.windows[0].start
    stale = now - topic.newest
    malformed = topic.malformed / topic.records
    shares = [one.largest_key_share for one in topic.windows if one.largest_key_share is not None]
    drift = len(topic.drift())
    found = [
        Tile(
            "Records", f"{topic.records:,}", f"{_bytes(topic.bytes)} in {counted(len(topic.windows), 'window')}", PLAIN
        ),
        Tile("Malformed", _share(malformed), f"{topic.malformed:,} not JSON objects", _level(1 - malformed, 1.0, 0.99)),
        Tile("Completeness", _share(topic.completeness), "fields present, not null", _level(topic.completeness)),
        Tile(
            "Unique",
            _share(topic.uniqueness),
            f"{topic.duplicates:,} repeat {', '.join(unique.split(',')) or 'key and value'}",
            _level(topic.uniqueness, 1.0, 0.99),
        ),
        Tile(
            "Newest record", f"{age(stale)} old", _time(topic.newest), GOOD if stale <= window * STALE_WINDOWS else WARN
        ),
        Tile("Largest key", _share(sum(shares) / len(shares) if shares else None), "of a window, in the mean", PLAIN),
        Tile(
            "Largest partition",
            f"{topic.partition_skew():.2f} x",
            "the mean partition",
            GOOD if topic.partition_skew() < 2 else WARN,
        ),
        Tile("Schema changes", f"{drift:,}", counted(len(topic.fields()), "field"), GOOD if not drift else WARN),
    ]
    if topic.longest_delay_s is not None:
        found.append(Tile("Longest delay", f"{topic.longest_delay_s:,.1f} s", "from event to record", PLAIN))
    return found


def plots(topic: TopicQuality) -> list[Plot]:
    """Return the plots of a topic that have something to show."""
    found = [Plot("Records in each window", _svg(11, 2.3, lambda figure: _draw_records(figure, topic)))]
    if topic.fields():
        shown = min(MAX_FIELDS, len(topic.fields()))
        title = "Completeness of fields" + (f", the {shown} least complete" if shown < len(topic.fields()) else "")
        height = 0.9 + 0.23 * shown
        found.append(Plot(title, _svg(11, height, lambda figure: _draw_completeness(figure, topic))))
    if topic.top_keys(1):
        found.append(Plot("Most frequent keys", _svg(5.4, 2.9, lambda figure: _draw_keys(figure, topic)), wide=False))
        found.append(
            Plot("Share of the largest key", _svg(5.4, 2.9, lambda figure: _draw_shares(figure, topic)), wide=False)
        )
    last: list[tuple[str, Callable[[Figure], None]]] = []
    if topic.duplicates:
        last.append(("Repeated records", lambda figure: _draw_duplicates(figure, topic)))
    if topic.longest_delay_s is not None:
        last.append(("Delay in seconds", lambda figure: _draw_delays(figure, topic)))
    alone = len(last) == 1
    return found + [Plot(title, _svg(11 if alone else 5.4, 2.3, draw), wide=alone) for title, draw in last]


def _draw_records(figure: Figure, topic: TopicQuality) -> None:
    panel = _panel(figure)
    width = _width(topic)
    starts = _days([one.start for one in topic.windows])
    bottom = [0] * len(starts)
    kinds: tuple[tuple[str, str, Callable[[WindowQuality], int]], ...] = (
        ("JSON objects", "ok", lambda one: one.objects),
        ("null values", "null", lambda one: one.nulls),
        ("malformed", "malformed", lambda one: one.malformed),
    )
    for label, colour, number in kinds:
        counts = [number(one) for one in topic.windows]
        if any(counts):
            panel.bar(starts, counts, width, bottom, align="edge", color=COLOURS[colour], label=label, linewidth=0)
            bottom = [low + count for low, count in zip(bottom, counts, strict=True)]
    panel.yaxis.set_major_formatter(COUNT)
    panel.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
    _date_axis(panel, starts[0], starts[-1] + width)


def _draw_completeness(figure: Figure, topic: TopicQuality) -> None:
    panel = _panel(figure)
    fields = sorted(topic.fields(), key=lambda one: one.completeness)[:MAX_FIELDS]
    names = [one.name for one in topic.fields() if one in fields]
    start, span = topic.windows[0].start, topic.windows[-1].end - topic.windows[0].start
    columns = min(MAX_COLUMNS, span // (topic.windows[0].end - start))
    # Where windows are narrower than a column, it shows the worst.
    shares = [[math.nan] * columns for _ in names]
    for window in topic.windows:
        at = math.floor((window.start - start) / span * columns)
        for row, name in zip(shares, names, strict=True):
            share = window.completeness(name)
            if share is not None and not row[at] <= share:
                row[at] = share
    begin, end = _days([start, start + span])
    image = panel.imshow(
        shares,
        cmap=_colour_map(),
        aspect="auto",
        interpolation="nearest",
        vmin=0,
        vmax=1,
        extent=(begin, end, len(names) - 0.5, -0.5),
    )
    panel.set_yticks(range(len(names)), [_short(name) for name in names])
    panel.grid(visible=False)
    panel.tick_params(axis="y", length=0)
    bar = figure.colorbar(image, ax=panel, fraction=0.02, pad=0.01, ticks=[0, 0.5, 1])
    bar.ax.set_yticklabels(["0 %", "50 %", "100 %"])
    bar.outline.set_visible(False)
    _date_axis(panel, begin, end)


def _draw_keys(figure: Figure, topic: TopicQuality) -> None:
    panel = _panel(figure)
    keys = topic.top_keys(TOP_KEYS)[::-1]
    bars = panel.barh([_short(one.name or "") for one in keys], [one.records for one in keys], color=COLOURS["ok"])
    panel.bar_label(bars, [f"{one.records:,}" for one in keys], padding=3, color="#555555")
    panel.grid(visible=False)
    panel.margins(x=0.15)
    panel.xaxis.set_visible(False)
    panel.spines["bottom"].set_visible(False)
    panel.tick_params(axis="y", length=0)


def _draw_shares(figure: Figure, topic: TopicQuality) -> None:
    panel = _panel(figure)
    shares = [one.largest_key_share for one in topic.windows]
    _line(panel, topic, [math.nan if share is None else 100 * share for share in shares], "line")
    panel.set_ylim(0, HEADROOM * panel.get_ylim()[1])
    panel.yaxis.set_major_formatter("{x:g} %")


def _draw_duplicates(figure: Figure, topic: TopicQuality) -> None:
    panel = _panel(figure)
    starts = _days([one.start for one in topic.windows])
    counts = [one.duplicates for one in topic.windows]
    panel.bar(starts, counts, _width(topic), align="edge", color=COLOURS["other"], linewidth=0)
    panel.yaxis.set_major_formatter(COUNT)
    _date_axis(panel, starts[0], starts[-1] + _width(topic))


def _draw_delays(figure: Figure, topic: TopicQuality) -> None:
    panel = _panel(figure)
    for values, colour, label in (
        ([one.longest_delay_s for one in topic.windows], "other", "longest"),
        ([one.mean_delay_s for one in topic.windows], "line", "mean"),
    ):
        _line(panel, topic, [math.nan if value is None else value for value in values], colour, label)
    low, high = panel.get_ylim()
    panel.set_ylim(min(0, low), HEADROOM * max(0, high))
    panel.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)


def _line(panel: Any, topic: TopicQuality, values: list[float], colour: str, label: str | None = None) -> None:
    width = _width(topic)
    starts = _days([one.start for one in topic.windows])
    # The line ends where windows have no records.
    drawn: list[tuple[float, float]] = []
    for start, value in zip(starts, values, strict=True):
        if drawn and start > drawn[-1][0] + 1.5 * width:
            drawn.append((drawn[-1][0] + width, math.nan))
        drawn.append((start, value))
    panel.plot(*zip(*drawn, strict=True), ".-", ms=3, lw=1.2, color=COLOURS[colour], label=label)
    _date_axis(panel, starts[0], starts[-1] + width)


def _panel(figure: Figure) -> Any:
    panel: Any = figure.subplots()
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.spines["bottom"].set_color("#999999")
    panel.grid(axis="y", color="#e4e7e9", lw=0.7)
    panel.set_axisbelow(True)
    panel.tick_params(colors="#555555", labelsize=8.5)
    panel.tick_params(axis="y", length=0)
    return panel


def _date_axis(panel: Any, begin: float, end: float) -> None:
    dates: Any = import_module("matplotlib.dates")
    locator = dates.AutoDateLocator(minticks=3, maxticks=10)
    panel.xaxis.set_major_locator(locator)
    panel.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    panel.set_xlim(begin, end)


def _svg(width: float, height: float, draw: Callable[[Figure], None]) -> str:
    """Return an SVG element of a figure of so many inches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Text stays text; ids are the same for the same figure.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "quality", "font.family": "sans-serif"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        made = StringIO()
        figure.savefig(made, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return made.getvalue().partition("<svg")[1] + made.getvalue().partition("<svg")[2]


@cache
def _colour_map() -> Any:
    colors: Any = import_module("matplotlib.colors")
    return colors.LinearSegmentedColormap.from_list("share", ["#c0392b", "#f0c674", "#e3efe9", "#2f7f8f"])


def _days(times: Sequence[datetime]) -> list[float]:
    """Return times in matplotlib's unit, days since 1970."""
    return [time.timestamp() / 86_400 for time in times]


def _width(topic: TopicQuality) -> float:
    return (topic.windows[0].end - topic.windows[0].start).total_seconds() / 86_400


def _level(share: float | None, good: float = 0.95, fair: float = 0.8) -> str:
    if share is None:
        return PLAIN
    return GOOD if share >= good else WARN if share >= fair else BAD


def _share(share: float | None) -> str:
    """Return a share in percent; what is not all is never shown as 100 %."""
    if share is None:
        return "-"
    percent = 100 * share
    if 99.99 <= percent < 100:
        return "> 99.99 %"
    return f"{percent:.2f} %".replace(".00 %", " %") if percent >= 0.01 or percent == 0 else "< 0.01 %"


def _bytes(number: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def _time(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M")


def _short(text: str, length: int = 24) -> str:
    # A dollar sign would begin a formula.
    return (text if len(text) <= length else text[: length - 1] + "…").replace("$", r"\$")


@cache
def _template() -> Any:
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["share"] = _share
    return environment.from_string(TEMPLATE)


TEMPLATE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Quality of {{ topics|map(attribute="quality.topic")|join(", ") or "topics" }}</title>
<style>
body { font: 15px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; color: #22292d; background: #f4f6f7;
  margin: 0; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 20px 60px; }
header { display: flex; justify-content: space-between; align-items: baseline; flex-wrap: wrap; color: #667; }
h1 { font-size: 24px; margin: 0; color: #22292d; }
h2 { font-size: 20px; margin: 34px 0 12px; }
h3 { font-size: 13px; margin: 0 0 6px; color: #556; font-weight: 600; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(240px, 1fr)); gap: 10px; }
.tile, .card { background: #fff; border-radius: 8px; padding: 12px 14px; box-shadow: 0 1px 2px #0001; }
.tile { border-left: 4px solid #b9c4c9; }
.tile.good { border-color: #3c9a73; } .tile.warn { border-color: #d98324; } .tile.bad { border-color: #c0392b; }
.tile b { display: block; font-size: 21px; font-weight: 600; white-space: nowrap; }
.tile span, .tile i { display: block; font-size: 12.5px; color: #667; font-style: normal; overflow-wrap: anywhere; }
.plots { display: grid; grid-template-columns: 1fr 1fr; gap: 12px; margin: 12px 0; }
.wide { grid-column: 1 / -1; }
.card svg { width: 100%; height: auto; display: block; }
table { width: 100%; border-collapse: collapse; font-size: 13.5px; }
th { text-align: left; color: #667; font-weight: 600; border-bottom: 1px solid #dde2e5; padding: 4px 8px; }
td { border-bottom: 1px solid #eef1f2; padding: 4px 8px; vertical-align: top; overflow-wrap: anywhere; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.bar { background: #f2d9d5; border-radius: 3px; height: 9px; width: 110px; margin-top: 6px; }
.bar div { background: #2f7f8f; border-radius: 3px; height: 9px; }
.none { color: #667; }
@media (max-width: 760px) { .plots { grid-template-columns: 1fr; } }
</style>
</head>
<body>
<main>
<header><h1>Quality of topics</h1><div>{{ time(now) }} UTC</div></header>
{% for topic in topics %}
{% set quality = topic.quality %}
<section>
<h2>{{ quality.topic }}</h2>
<div class="tiles">
{% for tile in topic.tiles %}
<div class="tile {{ tile.level }}"><span>{{ tile.label }}</span><b>{{ tile.value }}</b><i>{{ tile.note }}</i></div>
{% endfor %}
</div>
<div class="plots">
{% for plot in topic.plots %}
<div class="card{{ " wide" if plot.wide }}"><h3>{{ plot.title }}</h3>{{ plot.svg|safe }}</div>
{% endfor %}
</div>
<div class="plots">
<div class="card wide"><h3>Changes of the schema</h3>
{% if topic.drift %}
<table>
<tr><th>Window</th><th>Field</th><th>Change</th></tr>
{% for change in topic.drift[:max_drifts] %}
<tr><td>{{ time(change.start) }}</td><td>{{ change.field }}</td><td>{{ change.change }}</td></tr>
{% endfor %}
</table>
{% if topic.drift|length > max_drifts %}
<p class="none">and {{ topic.drift|length - max_drifts }} more</p>
{% endif %}
{% else %}
<p class="none">None: all windows have the fields and types of the first.</p>
{% endif %}
</div>
<div class="card wide"><h3>Fields</h3>
<table>
<tr><th>Field</th><th>Types</th><th colspan="2">Completeness</th><th>First window</th><th>Last window</th></tr>
{% for field in topic.fields %}
<tr><td>{{ field.name }}</td>
<td>{% for name, part in field.types if name != null_type or field.types|length == 1 %}
{{ name }}{% if field.types|length > 1 and part < 1 and loop.length > 1 %} {{ part|share }}{% endif %}\
{{ ", " if not loop.last }}
{% endfor %}</td>
<td class="number">{{ field.completeness|share }}</td>
<td><div class="bar"><div style="width: {{ (100 * field.completeness)|round(1) }}%"></div></div></td>
<td>{{ time(field.first) }}</td><td>{{ time(field.last) }}</td></tr>
{% endfor %}
</table>
</div>
</div>
</section>
{% else %}
<p class="none">No window is complete yet, or the topics have no records.</p>
{% endfor %}
</main>
</body>
</html>
"""
