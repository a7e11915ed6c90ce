"""The demo's picture: mean departure delays by hour of the day and origin, as a PNG and as bars in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from spark_jobs.flights.dataset import DAYS

NEW_YORK = ZoneInfo("America/New_York")
COLOURS = {"EWR": "#1b6ca8", "JFK": "#d1495b", "LGA": "#3a9d6e"}
NAMES = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
BAR = 24
LEAST_FLIGHTS = 30  # an hour of the day with fewer has no meaningful mean

Means = Mapping[str, Mapping[int, float]]
"""Mean delays in minutes by origin and local hour of the day."""


def means(windows: Iterable[tuple[datetime, str, int, float]]) -> Means:
    """Return the means of windows: beginning, origin, departures, and the sum of their delays in minutes."""
    sums: dict[str, dict[int, tuple[int, float]]] = {}
    for start, origin, departures, minutes in windows:
        hours = sums.setdefault(origin, {})
        hour = start.astimezone(NEW_YORK).hour
        count, total = hours.get(hour, (0, 0.0))
        hours[hour] = count + departures, total + minutes
    return {
        origin: {hour: total / count for hour, (count, total) in sorted(hours.items()) if count >= LEAST_FLIGHTS}
        for origin, hours in sorted(sums.items())
    }


def bars(found: Means) -> str:
    """Return a line for each hour, with a bar for each origin."""
    longest = max((mean for hours in found.values() for mean in hours.values()), default=1.0)
    lines = ["hour  " + "".join(f"{NAMES.get(origin, origin):<{BAR + 6}}" for origin in found).rstrip()]
    for hour in sorted({hour for hours in found.values() for hour in hours}):
        cells = (_bar(hours.get(hour), longest) for hours in found.values())
        lines.append(f"{hour:02d}    " + "".join(f"{cell:<{BAR + 6}}" for cell in cells).rstrip())
    return "\n".join(lines)


def period(days: int) -> str:
    """Return the part of the year that the demo replays."""
    return "2013" if days == DAYS else f"the first {'day' if days == 1 else f'{days} days'} of 2013"


def save(found: Means, path: str, days: int) -> None:
    """Write the picture of the first `days` of the year, as a PNG or SVG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.8), layout="constrained")
    for origin, hours in found.items():
        label, colour = f"{NAMES.get(origin, origin)} ({origin})", COLOURS.get(origin)
        axes.plot(list(hours), list(hours.values()), marker="o", markersize=4, linewidth=2, color=colour, label=label)
    axes.set(xlabel="scheduled hour of departure, New York time", ylabel="mean delay in minutes", xticks=range(5, 24))
    axes.set_title(f"Departure delays grow during the day: New York, {period(days)}", loc="left")
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.grid(axis="y", color="#e0e0e0")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _bar(mean: float | None, longest: float) -> str:
    if mean is None:
        return ""
    return f"{'█' * max(0, round(BAR * mean / longest))} {mean:.1f}".lstrip()
