"""Show the wall clock of each broker in UTC, and by how much it was advanced."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any

from barnabas.commands._controls import add_control_options, call, controls
from barnabas.commands._output import add_json, show

EXAMPLES = """
  barnabas clock show --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_control_options(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    found = [{"control": one.address, **call(one, "GET", "/v1/clock")} for one in controls(options)]
    show(options, ("control", "time", "advanced"), [clock | _readable(clock) for clock in found])
    return 0


def _readable(clock: dict[str, Any]) -> dict[str, str]:
    time = datetime.fromtimestamp(clock["wall_ms"] / 1000, UTC).isoformat(" ", "milliseconds")
    return {"time": time, "advanced": str(timedelta(milliseconds=clock["clock_ms"]))}
