"""A suite: its name, its broker settings, and how to fetch, build and run it.

Every suite comes from a package registry by name and pinned version, through the registry's own client, and is kept in
the cache of ``tests/setups.py``. The suites are unmodified; only the address of the broker is configured.
"""

import math
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.clients.conformance.outcomes import Outcome
from tests.clients.conformance.security import Security

SUITE_ITSELF = "(the suite itself)"
PINS = Path(__file__).parent / "pins"
EXT_CLUSTER = Path(__file__).parents[1] / "ext-cluster"

# The group settings that the suites expect of a broker.
GROUPS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}


class Order(NamedTuple):
    """One run: the brokers' addresses, a folder for files, the tests, and the number of brokers.

    With `security`, the listener of `bootstrap` has its protocol; `sasl_bootstrap` is the second one, if there is one.
    """

    bootstrap: str
    folder: Path
    only: Sequence[str] = ()
    without: Sequence[str] = ()
    brokers: int = 1
    timeout_s: float = math.inf  # limit of the whole suite, if its own is longer
    security: Security | None = None
    sasl_bootstrap: str = ""


class Quick(NamedTuple):
    """The part of a suite whose tests take a second at most: ``only`` these (default: all), ``without`` those."""

    only: Sequence[str] = ()
    without: Sequence[str] = ()


@dataclass(frozen=True)
class Suite:
    """A suite of another project; ``set_up`` fetches and builds it unless that is done.

    Without ``settings`` a suite starts brokers of its own, by ``ext-cluster``. `make test` runs the part ``quick`` on
    one broker and the part ``quick_on_three`` on three; without such a part, its tests take too long for that.

    A suite that knows security has a ``secured`` part too, for three brokers; ``protocol`` is what its clients
    speak. `make prove` runs all of it. It starts brokers of its own then if ``starts_secured`` is set. A single broker
    without security has the settings of ``single`` too.
    """

    name: str
    on_kafka: str
    set_up: Callable[[], Path]
    run: Callable[[Order], list[Outcome]]
    settings: Mapping[str, object] | None = field(default_factory=lambda: {"node.id": 0, **GROUPS})
    quick: Quick | None = None
    quick_on_three: Quick | None = None
    secured: Quick | None = None
    protocol: str = "SASL_SSL"
    starts_secured: bool = False
    single: Mapping[str, object] = field(default_factory=dict)


def run_logged(
    order: Order, command: Sequence[str | Path], timeout_s: float, cwd: Path | None = None, **environment: str
) -> str:
    """Run a suite to its end, whatever its status; return its output, and write it to the folder.

    After the timeout, kill the suite with its child processes and return the output so far.
    """
    log = order.folder / "output.log"
    status: int | str
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd or order.folder,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(min(timeout_s, order.timeout_s))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            status = f"none, stopped after {min(timeout_s, order.timeout_s):.0f} s"
        output.write(f"\nstatus: {status}\n".encode())
    return log.read_text(encoding="utf-8", errors="replace")


def no_outcomes(order: Order, printed: str) -> list[Outcome]:
    """Return the single outcome of a suite that reported none."""
    return [Outcome(SUITE_ITSELF, "failed", f"see {order.folder}\n{printed[-2000:]}")]
