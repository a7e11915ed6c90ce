"""A picture of roll-ups: a panel for each granularity, the coarsest first, and each finer one for the end of the last.

The lines are means, or the counts of metrics without values: a level from the begin to the end of each window, none
where there are no measurements. The windows that an alert's breach lasts for are red in the panel of its granularity.
The grey part of a panel is what the next one shows, unless that is all of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs import io
from spark_jobs.alerts import RESOLVED
from spark_jobs.errors import JobError
from spark_jobs.io import Destination
from spark_jobs.options import SourceOptions, StreamOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession

ROW = (
    "granularity string, start timestamp, end timestamp, name string, labels map<string,string>, count long, "
    "sum double, min double, max double, mean double"
)
ALERTS = "alert"
BELOW = "what the panel below shows"
SERIES = 5
# Of the time that a panel shows, so that the ends of lines are not cut.
MARGIN = 0.01
WINDOWS = 250
FORMATS = (".png", ".svg")
ALARM = "#c0392b"
COLOURS = ("#1f6f8b", "#e07a1f", "#4f9d69", "#8a5fa8", "#b8a13a")


class Firing(NamedTuple):
    """A breach, from the begin of its first window to that of the window that resolved it; None if none has."""

    granularity: str
    rule: str
    since: datetime
    end: datetime | None


class Line(NamedTuple):
    """A series in a panel: the begins of its windows in seconds since 1970, and their means, or else their counts."""

    metric: str
    starts: list[float]
    values: list[float]
    has_means: bool


def check_path(path: str) -> None:
    """Raise JobError if no picture can be written to a path."""
    chosen = Path(path).absolute()
    if chosen.suffix not in FORMATS:
        raise JobError(f"--picture {path}: write a name that ends in {' or '.join(FORMATS)}")
    if not chosen.parent.is_dir():
        raise JobError(f"the directory of --picture does not exist: {chosen.parent}; create it, or correct --picture")


def read_roll_ups(spark: SparkSession, to: Destination, options: StreamOptions) -> DataFrame:
    """Return the newest state of each roll-up of a destination."""
    from pyspark.sql import functions as f

    if to.kind == "topic":
        return _newest(spark, to.target, options)
    return spark.read.format(to.kind).load(to.target).select(*(f.col(name.split()[0]) for name in ROW.split(", ")))


def read_firing(spark: SparkSession, topic: str, options: StreamOptions) -> list[Firing]:
    """Return the breaches of the alerts of a topic."""
    records = io.read_batch(spark, _reading(topic, options)).orderBy("offset")
    return firing_of((row["key"], row["value"]) for row in records.selectExpr("string(key)", "string(value)").collect())


def firing_of(records: Iterable[tuple[str, str]]) -> list[Firing]:
    """Return the breaches of alerts, whose keys and values are given in their order."""
    spans: dict[tuple[str, datetime], Firing] = {}
    for key, value in records:
        alert = json.loads(value)
        since = datetime.fromisoformat(alert["since"])
        # An alert is resolved by a window without a breach: its begin is the end of the breach.
        end = datetime.fromisoformat(alert["start"]) if alert["state"] == RESOLVED else None
        spans[key, since] = Firing(alert["every"], alert["rule"], since, end)
    return list(spans.values())


def draw(rows: DataFrame, firing: Sequence[Firing], granularities: Mapping[str, int], path: str) -> None:
    """Write a picture of the series with the most measurements; `granularities` has the lengths, the finest first.

    Raise JobError if there is nothing to draw.
    """
    figure_of(rows, firing, granularities).savefig(path, dpi=130)


def figure_of(rows: DataFrame, firing: Sequence[Firing], granularities: Mapping[str, int]) -> Figure:
    """Return the picture that `draw` writes."""
    from matplotlib.figure import Figure

    named = _named(rows).persist()
    try:
        largest = _largest(named)
        if not largest:
            raise JobError("there is no roll-up to draw yet: the topics have no measurements")
        figure = Figure(figsize=(11, 2.4 * len(granularities) + 0.8), layout="constrained")
        panels = figure.subplots(len(granularities), squeeze=False)[:, 0]
        coarser, whole = None, (0.0, 0.0)
        for panel, (granularity, length) in zip(panels, reversed(list(granularities.items())), strict=True):
            lines = {series: _line(named, granularity, length, series) for series in largest}
            breaches = [span for span in firing if span.granularity == granularity]
            shown = _draw_panel(panel, f"every {granularity}", length, lines, breaches)
            if coarser is not None and shown and not (shown[0] <= whole[0] and whole[1] <= shown[1]):
                coarser.axvspan(*_days(shown), color="#000000", alpha=0.07, lw=0, zorder=0, label=BELOW)
            coarser, whole = panel, shown or whole
    finally:
        named.unpersist()
    handles = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    series = [label for label in handles if label not in (ALERTS, BELOW)]
    ordered = [label for label in (*series, ALERTS, BELOW) if label in handles]
    figure.legend([handles[label] for label in ordered], ordered, loc="outside upper left", ncols=4, frameon=False)
    return figure


def _named(rows: DataFrame) -> DataFrame:
    """Return the rows with `series`, the metric and its labels' values, and `begin`, in seconds since 1970."""
    from pyspark.sql import functions as f

    values = f.transform(f.map_values("labels"), lambda label: f.coalesce(label, f.lit("-")))
    return rows.withColumns({"series": f.concat_ws(" ", "name", values), "begin": f.unix_seconds("start")})


def _largest(named: DataFrame) -> list[str]:
    from pyspark.sql import functions as f

    sizes = named.groupBy("series").agg(f.sum("count").alias("size"))
    return sorted(row["series"] for row in sizes.orderBy(f.desc("size"), "series").limit(SERIES).collect())


def _line(named: DataFrame, granularity: str, length: int, series: str) -> Line:
    """Return the last windows of a series; NaN ends the line before a window that does not follow the former."""
    from pyspark.sql import functions as f

    of_series = named.where((f.col("granularity") == granularity) & (f.col("series") == series))
    rows = of_series.orderBy(f.desc("begin")).limit(WINDOWS).collect()[::-1]
    line = Line(rows[0]["name"] if rows else "", [], [], any(row["mean"] is not None for row in rows))
    for row in rows:
        if line.starts and row["begin"] > line.starts[-1] + length:
            line.starts.append(line.starts[-1] + length)
            line.values.append(math.nan)
        line.starts.append(row["begin"])
        line.values.append(row["count"] if row["mean"] is None else row["mean"])
    return line


def _draw_panel(
    panel: Any, title: str, length: int, lines: Mapping[str, Line], firing: Sequence[Firing]
) -> tuple[float, float] | None:
    """Draw the lines; return the begin of the first window and the end of the last one, None without windows."""
    dates: Any = import_module("matplotlib.dates")
    drawn = [line for line in lines.values() if line.starts]
    for (series, line), colour in zip(lines.items(), COLOURS, strict=False):
        ends = [start + length for start in line.starts[-1:]]
        times, values = _days([*line.starts, *ends]), [*line.values, *line.values[-1:]]
        panel.plot(times, values, drawstyle="steps-post", solid_capstyle="round", color=colour, lw=1.8, label=series)
    shown = None
    if drawn:
        full = [line.starts[0] for line in drawn if len(line.starts) >= WINDOWS]
        shown = (
            max(full, default=min(line.starts[0] for line in drawn)),
            max(line.starts[-1] for line in drawn) + length,
        )
        margin = MARGIN * (shown[1] - shown[0])
        panel.set_xlim(*_days([shown[0] - margin, shown[1] + margin]))
    left, right = panel.get_xlim()
    for span in firing:
        end = right if span.end is None else dates.date2num(span.end)
        panel.axvspan(dates.date2num(span.since), end, color=ALARM, alpha=0.2, lw=0, label=ALERTS)
    panel.set_xlim(left, right)
    panel.set_ylabel(_y_label(drawn), fontsize=9, color="#444444")
    panel.set_title(title, loc="left", fontsize=10, color="#444444")
    locator = dates.AutoDateLocator(minticks=5, maxticks=12)
    panel.xaxis.set_major_locator(locator)
    panel.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="#dddddd", lw=0.6)
    panel.set_axisbelow(True)
    return shown


def _y_label(drawn: Sequence[Line]) -> str:
    """Return what the values of a panel's lines are; their metric, if there is one."""
    metrics = {line.metric for line in drawn if line.has_means}
    means = ["mean of " + metrics.pop() if len(metrics) == 1 and "" not in metrics else "mean"] if metrics else []
    counts = [] if all(line.has_means for line in drawn) else ["records"]
    return " or ".join(means + counts)


def _newest(spark: SparkSession, topic: str, options: StreamOptions) -> DataFrame:
    from pyspark.sql import functions as f

    records = io.read_batch(spark, _reading(topic, options))
    value = f.max_by("value", f.struct("timestamp", "partition", "offset")).cast("string")
    return records.groupBy("key").agg(f.from_json(value, ROW).alias("row")).select("row.*")


def _reading(topic: str, options: StreamOptions) -> SourceOptions:
    return SourceOptions(brokers=options.brokers, kafka=options.kafka, topic=(topic,))


def _days(seconds: Sequence[float]) -> list[float]:
    """Return times in matplotlib's unit, days since 1970."""
    return [second / 86_400 for second in seconds]
