"""A picture of roll-ups: a panel for each granularity, the coarsest first, and each finer one for the end of the last.

The lines are means, or the counts of metrics without values; they end where there are no measurements. The time in
which an alert fires is red in the panel of its granularity. The grey part of a panel is what the next one shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs import io
from spark_jobs.errors import JobError
from spark_jobs.io import Destination
from spark_jobs.options import SourceOptions, StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = (
    "granularity string, start timestamp, end timestamp, name string, labels map<string,string>, count long, "
    "sum double, min double, max double, mean double"
)
ALERT = "rule string, state string, every string, since timestamp, end timestamp"
SERIES = 5
WINDOWS = 250
FORMATS = (".png", ".svg")
ALARM = "#c0392b"
COLOURS = ("#1f6f8b", "#e07a1f", "#4f9d69", "#8a5fa8", "#b8a13a")


class Firing(NamedTuple):
    """A span in which an alert fires; `end` is None if it has not been resolved."""

    granularity: str
    rule: str
    since: datetime
    end: datetime | None


class Line(NamedTuple):
    """A series in a panel: the begins of its windows in seconds since 1970, and their means, or else their counts."""

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
    """Return the spans in which alerts of a topic fire."""
    from pyspark.sql import functions as f

    records = io.read_batch(spark, _reading(topic, options))
    value = f.from_json(f.col("value").cast("string"), ALERT)
    rows = records.orderBy("offset").select(f.col("key").cast("string").alias("key"), value.alias("alert")).collect()
    spans: dict[tuple[str, datetime], Firing] = {}
    for row in rows:
        alert = row["alert"]
        end = alert["end"] if alert["state"] == "resolved" else None
        span = Firing(alert["every"], alert["rule"], _utc(alert["since"]), _utc(end) if end else None)
        spans[row["key"], span.since] = span
    return list(spans.values())


def draw(rows: DataFrame, firing: Sequence[Firing], granularities: Mapping[str, int], path: str) -> None:
    """Write a picture of the series with the most measurements; `granularities` has the lengths, the finest first.

    Raise JobError if there is nothing to draw.
    """
    from matplotlib.figure import Figure

    named = _named(rows).persist()
    try:
        largest = _largest(named)
        if not largest:
            raise JobError("there is no roll-up to draw yet: the topics have no measurements")
        figure = Figure(figsize=(11, 2.4 * len(granularities) + 0.8), layout="constrained")
        panels = figure.subplots(len(granularities), squeeze=False)[:, 0]
        coarser = None
        for panel, (granularity, length) in zip(panels, reversed(list(granularities.items())), strict=True):
            lines = {series: _line(named, granularity, length, series) for series in largest}
            _draw_panel(panel, granularity, lines, [span for span in firing if span.granularity == granularity])
            if coarser is not None:
                coarser.axvspan(*panel.get_xlim(), color="#000000", alpha=0.07, lw=0, zorder=0)
            coarser = panel
    finally:
        named.unpersist()
    shown = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(shown.values(), shown.keys(), loc="outside upper left", ncols=SERIES + 1, frameon=False)
    figure.savefig(path, dpi=130)


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
    line = Line([], [], any(row["mean"] is not None for row in rows))
    for row in rows:
        if line.starts and row["begin"] > line.starts[-1] + length:
            line.starts.append(line.starts[-1] + length)
            line.values.append(math.nan)
        line.starts.append(row["begin"])
        line.values.append(row["count"] if row["mean"] is None else row["mean"])
    return line


def _draw_panel(panel: Any, granularity: str, lines: Mapping[str, Line], firing: Sequence[Firing]) -> None:
    dates: Any = import_module("matplotlib.dates")
    drawn = [line for line in lines.values() if line.starts]
    for (series, line), colour in zip(lines.items(), COLOURS, strict=False):
        panel.plot(_days(line.starts), line.values, ".-", ms=2, color=colour, lw=1.3, label=series)
    if drawn:
        full = [line.starts[0] for line in drawn if len(line.starts) >= WINDOWS]
        begin = max(full, default=min(line.starts[0] for line in drawn))
        panel.set_xlim(*_days([begin, max(line.starts[-1] for line in drawn) + 1]))
    left, right = panel.get_xlim()
    for span in firing:
        end = right if span.end is None else dates.date2num(span.end)
        panel.axvspan(dates.date2num(span.since), end, color=ALARM, alpha=0.2, lw=0, label="alert")
    panel.set_xlim(left, right)
    panel.set_ylabel(_y_label(drawn), fontsize=9, color="#444444")
    panel.set_title(f"every {granularity}", loc="left", fontsize=10, color="#444444")
    locator = dates.AutoDateLocator(minticks=5, maxticks=12)
    panel.xaxis.set_major_locator(locator)
    panel.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="#dddddd", lw=0.6)
    panel.set_axisbelow(True)


def _y_label(drawn: Sequence[Line]) -> str:
    """Return what the values of a panel's lines are."""
    kinds = sorted({"mean" if line.has_means else "records" for line in drawn})
    return " or ".join(kinds)


def _newest(spark: SparkSession, topic: str, options: StreamOptions) -> DataFrame:
    from pyspark.sql import functions as f

    records = io.read_batch(spark, _reading(topic, options))
    value = f.max_by("value", f.struct("timestamp", "partition", "offset")).cast("string")
    return records.groupBy("key").agg(f.from_json(value, ROW).alias("row")).select("row.*")


def _reading(topic: str, options: StreamOptions) -> SourceOptions:
    return SourceOptions(brokers=options.brokers, kafka=options.kafka, topic=(topic,))


def _utc(time: datetime) -> datetime:
    # Spark hands out local times without a zone.
    return time.astimezone(UTC)


def _days(seconds: Sequence[float]) -> list[float]:
    """Return times in matplotlib's unit, days since 1970."""
    return [second / 86_400 for second in seconds]
