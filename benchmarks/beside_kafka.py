"""One table of Barnabas and Apache Kafka, on the same machine in one run: what `make bench` prints and stores.

Both brokers run every load in turn, in pairs with alternating order: the first writer gets the more expensive pages of
the page cache. Each load has its own broker, cold in the first round, and repeats until that broker is warm. Between
two brokers the machine rests. The table has medians, the bound on the warm ratio, and whether it holds. It is stored in
`benchmarks/results/` with the machine, the versions, the command and the figures of each run.
Figures without a counterpart in Apache Kafka (memory per connection, the bare loop in Python) are in the same table.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    _cluster_rows,
    _loads,
    compaction,
    fetch_cpu,
    fsync,
    idle_connections,
    log,
    many_logs,
    many_partitions,
    produce_cpu,
    requests,
    start,
    transactional_ids,
    transactions,
    while_compacting,
)
from benchmarks._loopback import BARE_LOOP, BROKER, Costs, running
from benchmarks._rows import HEADINGS, KAFKA, Row, Runs, Target, at_least, at_most, in_turn, row, runs
from benchmarks._warmth import Warmed, warm_up

RESULTS = Path(__file__).parent / "results"
BROKERS = {BROKER: start.barnabas, KAFKA: start.apache_kafka}


TARGET: Mapping[str, Target] = {
    "produce acks=1, MB/s": at_least(1.4),
    "produce acks=1, user s/GB": at_most(0.15),
    "produce acks=1, CPU s/GB": at_most(0.65),
    "produce acks=all, MB/s": at_least(1.4),
    "produce acks=all, user s/GB": at_most(0.15),
    "produce acks=all, CPU s/GB": at_most(0.65),
    "produce acks=1 with every record checked, MB/s": at_least(1.0),
    "produce acks=1 with every record checked, CPU s/GB": at_most(1.0),
    "produce acks=1, lz4, MB/s": at_least(1.0),
    "produce acks=1, lz4, CPU s/GB": at_most(1.0),
    "produce acks=1, zstd, MB/s": at_least(1.0),
    "produce acks=1, zstd, CPU s/GB": at_most(1.0),
    "produce acks=1, LogAppendTime, MB/s": at_least(1.0),
    "produce acks=1, LogAppendTime, CPU s/GB": at_most(1.0),
    "produce 128-KB batches to a compacted topic, MB/s": at_least(1.0),
    "produce 128-KB batches to a compacted topic, user s/GB": at_most(1.0),
    "consume without the rebalance, MB/s": at_least(1.2),
    "consume, CPU s/GB": at_most(0.6),
    "one record a request, requests/s": at_least(1.3),
    "end to end, mean ms": at_most(1.0),
    "end to end, p99 ms": at_most(1.0),
    "crowd, records/s": at_least(1.0),
    "crowd, p99 ms": at_most(1.0),
    **{name: target for name, target in transactions.TARGET.items() if not name.startswith(transactions.REPLICATED)},
}


def beside_kafka(pairs: int, rest_s: float) -> list[Row]:
    """Run every load on both brokers, `pairs` times, each on a newly started broker."""
    warmed: dict[str, defaultdict[str, list[Warmed]]] = {name: defaultdict(list) for name in BROKERS}
    for pair in range(pairs):
        for load in (*_loads.LOADS, *transactions.loads()):
            for name in in_turn(BROKERS, pair):
                print(f"pair {pair + 1}, {load.name}: {name}", file=sys.stderr, flush=True)
                time.sleep(rest_s)
                with running(load.command if name == BROKER else BROKERS[name]) as server:
                    found = warm_up(load.prepare(server), load.settles_on)
                for what in found.cold:
                    warmed[name][what].append(found)
    rows = [
        Row(name, target, runs(warmed[BROKER][name], name), runs(warmed[KAFKA][name], name))
        for name, target in TARGET.items()
    ]
    return rows + starting(pairs, rest_s)


def starting(pairs: int, rest_s: float) -> list[Row]:
    """Start both brokers, and create many partitions on them."""
    starts: dict[str, list[start.Start]] = {name: [] for name in BROKERS}
    filled: dict[str, list[many_partitions.Filled]] = {name: [] for name in BROKERS}
    for pair in range(pairs):
        for name in in_turn(BROKERS, pair):
            print(f"pair {pair + 1}, start and 2,000 partitions: {name}", file=sys.stderr, flush=True)
            time.sleep(rest_s)
            starts[name].append(start.measure(BROKERS[name]))
            filled[name].append(many_partitions.measure(BROKERS[name]))
    seconds = {name: [run.create_s + run.produce_s for run in runs_of] for name, runs_of in filled.items()}
    memory_mb = {name: [run.resident_mb for run in runs_of] for name, runs_of in filled.items()}
    answered_s = {name: [run.seconds for run in runs_of] for name, runs_of in starts.items()}
    idle_mb = {name: [run.resident_mb for run in runs_of] for name, runs_of in starts.items()}
    return [
        row("first answer after the start, s", at_most(0.15), answered_s[BROKER], answered_s[KAFKA]),
        row("idle memory, MB", at_most(0.15), idle_mb[BROKER], idle_mb[KAFKA]),
        row("2,000 partitions: create and write to, s", at_most(3), seconds[BROKER]),
        row("the same, beside Apache Kafka", at_most(0.25), seconds[BROKER], seconds[KAFKA]),
        row("2,000 partitions: memory, MB", at_most(120), memory_mb[BROKER]),
        row("the same, beside Apache Kafka", at_most(0.15), memory_mb[BROKER], memory_mb[KAFKA]),
    ]


def by_itself(runs: int) -> list[Row]:
    """Measure figures without a counterpart in Apache Kafka."""
    print("connections, costs of a request, bare loops", file=sys.stderr, flush=True)
    idle = [idle_connections.measure() for _ in range(runs)]
    rows = [
        row("5,000 idle connections: accepting them, s", at_most(5), [one.seconds for one in idle]),
        row("5,000 idle connections: memory of each, KB", at_most(40), [one.kb_each for one in idle]),
    ]
    costs = [requests.measure(5000) for _ in range(runs)]
    for name in ("produce 1 KB, acks=1", "fetch up to 50 KB"):
        few, many = ([cost[name][column] for cost in costs] for column in (0, 1))
        rows.append(row(f"{name}: us, with 5,000 partitions", at_most(1.3), many, few, "with 10"))
    produced = produce_cpu.measure(runs, produce_cpu.LARGE_BYTES, 5000)
    rows.append(_beside_bare_loop("produce, 128-KB batches, MB/s", 0.7, produced))
    rows.append(row("the same, user s/GB", at_most(0.25), [cost.user_s_per_gb for cost in produced[BROKER]]))
    fetched = fetch_cpu.measure(runs, fetch_cpu.LARGE_BYTES, 5000)
    rows.append(_beside_bare_loop("fetch, 1-MB answers, MB/s", 0.8, fetched))
    rows += transactions.own_rows(runs)
    return rows + log_by_itself(runs) + compacting(runs) + durability_and_scale(runs)


def compacting(runs: int) -> list[Row]:
    """Measure compaction alone, against Apache Kafka's cleaner, and during a client's appends."""
    load = compaction.Load()
    passes = [compaction.measure(load) for _ in range(runs)]
    ours, theirs = zip(*(compaction.beside_kafka(load) for _ in range(runs)), strict=True)
    at_rest, busy = zip(*(while_compacting.measure(load.mb) for _ in range(runs)), strict=True)
    return [
        row("compaction of 1 GB, a fifth live: MB/s of CPU", at_least(50), [one.mb / one.cpu_s for one in passes]),
        row("the same: longest step, ms of CPU", at_most(3), [one.longest_ms for one in passes]),
        row("the same: MB/s by the clock", at_least(0.5), ours, theirs),
        row(
            "an append while the broker compacts and deletes, p99.9 ms",
            at_most(3),
            [one.p999_ms for one in busy],
            [one.p999_ms for one in at_rest],
            "at rest",
        ),
    ]


def durability_and_scale(runs: int) -> list[Row]:
    """Measure the cost of fsync on the disk of the temporary files, and starts with many partitions."""
    rates = fsync.measure(runs, Path(tempfile.gettempdir()))
    clean, killed = many_logs.measure(runs)
    grouped = row(
        "64 producers, barnabas.fsync=always, requests/s",
        at_least(1),
        rates[fsync.GROUPED],
        [fsync.target(rates)],
        "half without, or 20 times one each",
    )
    return [
        grouped,
        row("10,000 partitions, 1 GB: first answer after a clean stop, s", at_most(5), [one.seconds for one in clean]),
        row("the same: memory, MB", at_most(200), [one.resident_mb for one in clean]),
        row("the same: descriptors", at_most(1500), [one.descriptors for one in clean]),
        row("the same after a kill: first answer, s", at_most(60), [one.seconds for one in killed]),
        *transactional_ids.rows(runs),
    ]


def log_by_itself(runs: int) -> list[Row]:
    """Measure the log without a broker."""
    appended = log.appending(runs)
    by_offset, by_timestamp = log.finding(runs, 5000)
    return [
        _beside_bare_loop("log: 64-KB batches appended, MB/s", 0.8, appended),
        row(
            "the same without the check, user s/GB",
            at_most(0.1),
            [cost.user_s_per_gb for cost in appended[log.LOG_ALONE]],
        ),
        _beside_bare_loop("log: read, MB/s", 0.8, log.reading(runs)),
        row("log of 10 GB: look-up by offset, us", at_most(60), by_offset),
        row("log of 10 GB: look-up by timestamp, us", at_most(120), by_timestamp),
    ]


def _beside_bare_loop(name: str, ratio: float, costs: Costs) -> Row:
    ours, theirs = ([cost.size_bytes / cost.seconds / 1e6 for cost in costs[which]] for which in (BROKER, BARE_LOOP))
    return row(name, at_least(ratio), ours, theirs, BARE_LOOP)


def report(rows: Sequence[Row], when: datetime, arguments: Sequence[str]) -> str:
    """Return the page to store."""
    commit = subprocess.run(("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=False)
    model = next(line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line)
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    facts = {
        "Command": f"python -m benchmarks beside_kafka {' '.join(arguments)}".strip(),
        "Machine": f"{os.cpu_count()} x {model}, {memory_gb:.0f} GB, {platform.system()} {platform.release()}",
        "Barnabas": f"commit {commit.stdout.strip() or 'unknown'}, Python {platform.python_version()}, "
        f"uvloop {version('uvloop')}",
        **_loads.versions(),
    }
    runs = "\n".join(f"| {one.name} | {_each(one.ours)} | {_each(one.theirs)} |" for one in rows)
    return (
        f"# {when:%Y-%m-%d %H:%M} UTC\n\n"
        + "\n".join(f"- {name}: {fact}" for name, fact in facts.items())
        + f"\n\nMedians:\n\n{HEADINGS}\n"
        + "\n".join(map(str, rows))
        + f"\n\nEach run:\n\n| | Barnabas | beside |\n|---|---|---|\n{runs}\n"
    )


def _each(side: Runs) -> str:
    """Return the warm figures of each run, followed by the cold ones if there are any."""
    warm, cold = (" ".join(f"{figure:.3g}" for figure in figures) for figures in (side.warm, side.cold))
    return f"{warm} (cold: {cold})" if cold else warm


def main(arguments: Sequence[str]) -> None:
    """Measure, print the table, and store it."""
    parser = argparse.ArgumentParser(prog="beside_kafka", description=__doc__)
    parser.add_argument("--pairs", type=int, default=3, metavar="N", help="how often each broker gets every load")
    parser.add_argument("--rest", type=float, default=30, metavar="SECONDS", help="how long the machine rests before")
    parser.add_argument("--only", choices=("broker", "cluster"), help="measure one broker, or clusters of three")
    options = parser.parse_args(arguments)
    when = datetime.now(UTC)
    rows = []
    if options.only != "cluster":
        rows += beside_kafka(options.pairs, options.rest) + by_itself(options.pairs)
    if options.only != "broker":
        rows += _cluster_rows.rows(options.pairs, options.rest)
    page = report(rows, when, arguments)
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"{when:%Y-%m-%dT%H%M}.md"
    kept.write_text(page)
    print(page)
    print(f"kept as {kept}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
