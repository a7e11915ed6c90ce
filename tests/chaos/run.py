"""One run: a cluster under load, faults for some time, then all heals and the history is checked.

The operations of clients and their results are recorded as a history; `check` is the checker's verdict on it. A run
fails if the verdict is not "passed", if the cluster does not make progress in time, if an application gets an error, or
if a broker logs a problem; its directory with the history and the brokers' logs is kept.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.clients import Clients, TransactionalClients
from tests.chaos.cluster import DEADLINE_S, IDS, Cluster, ClusterError, Description, wait_until
from tests.chaos.faults import SILENCING, Fault, FaultInjector, plan
from tests.chaos.gaps import Gap, gaps_of
from tests.chaos.history import events
from tests.chaos.history.checker import PASSED, Verdict, check
from tests.chaos.network import Network
from tests.chaos.security import Security
from tests.chaos.workloads import PARTITIONS, SILENT, Progress, name_of


class Outcome(NamedTuple):
    """The outcome of a run."""

    seed: int
    faults: Counter[str]
    verdict: Verdict
    problems: list[str]
    """Problems besides those in the history."""
    gaps: list[Gap]
    """One for each fault and partition."""
    directory: Path

    @property
    def has_passed(self) -> bool:
        return self.verdict.outcome == PASSED and not self.problems

    def __str__(self) -> str:
        dealt = ", ".join(f"{count} x {kind}" for kind, count in sorted(self.faults.items()))
        lines = [
            f"seed {self.seed}: {self.verdict}",
            f"faults: {dealt}",
            *(f"longest gap: {gap}" for gap in sorted(self.gaps, key=lambda gap: gap.gap_s)[-1:]),
            *self.problems,
        ]
        if not self.has_passed:
            lines.append(f"kept: {self.directory} (python -m tests.chaos.history {self.directory / 'history.jsonl'})")
        return "\n".join(lines)


def run(
    seed: int, seconds: float, directory: Path, *, java: bool, transactional: bool = False, secure: bool = False
) -> Outcome:
    """Inject the faults of a seed for `seconds`; Java clients work too, or transactional ones.

    With `secure` all listeners are SASL_SSL, and neither of these clients works.
    """
    if secure and (java or transactional):
        raise ValueError("only librdkafka's clients without transactions use a secure cluster")
    directory.mkdir(parents=True)
    recorder = events.Recorder(directory / "history.jsonl")
    progress = Progress(recorder)
    faults: Counter[str] = Counter()
    progress(events.Run({"seed": seed, "seconds": seconds, "java": java, "transactional": transactional}))
    problems: list[str] = []
    gaps: list[Gap] = []
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        security = Security(directory / "security") if secure else None
        cluster = Cluster(directory, network, security=security)
        network.processes = (lambda: cluster.processes) if secure else None
        stack.enter_context(cluster)
        with recording_problems(problems):
            cluster.wait_for(lambda _: all(node.is_ready for node in cluster.nodes.values()), "all brokers ready")
            create_topics(cluster.client_settings, (TransactionalClients if transactional else Clients).topics)
            with (
                TransactionalClients(cluster.client_settings, progress, seed)
                if transactional
                else Clients(cluster.client_settings, progress, directory if java else None)
            ) as clients:
                clients.wait_until_at_work()
                cluster.wait_until_whole()
                with recording_problems(problems):
                    deal(
                        plan(seed), seconds, cluster, FaultInjector(cluster, network, progress), progress, faults, gaps
                    )
                network.heal()
                problems += clients.finish()
        problems += [f"too long: {gap}" for gap in gaps if gap.is_too_long]
        problems += [f"{error} ({count} times)" for error, count in progress.errors.items()]
        problems += [
            f"broker {node.id}: {reported}" for node in cluster.nodes.values() for reported in node.complaints()
        ]
        if not problems:
            problems += [f"broker {id_} ended with {status}" for id_ in IDS if (status := cluster.nodes[id_].stop())]
    recorder.close()
    with recorder.path.open() as lines:
        verdict = check(events.read(lines))
    outcome = Outcome(seed, faults, verdict, problems, gaps, directory)
    if outcome.has_passed:
        shutil.rmtree(directory)
    return outcome


@contextmanager
def recording_problems(problems: list[str]) -> Iterator[None]:
    """Record a ClusterError and continue with the check of the history."""
    try:
        yield
    except ClusterError as error:
        problems.append(str(error))


def create_topics(settings: Mapping[str, str], topics: Mapping[str, int]) -> None:
    """Create the topics, with retries until a new cluster knows all its brokers."""
    admin = AdminClient({**settings, **SILENT})
    wait_until(lambda: len(admin.list_topics(timeout=10).brokers) == len(IDS), "three brokers in the metadata")
    wanted = [NewTopic(topic, partitions, len(IDS)) for topic, partitions in topics.items()]
    for created in admin.create_topics(wanted).values():
        created.result(DEADLINE_S)


def can_be_silenced(fault: Fault, found: Description) -> bool:
    """Return whether clients are connected to other brokers than the victim, too.

    librdkafka requests metadata only from brokers to which it is connected: it would never learn of new leaders from
    one that led everything, and learns of them no more.
    """
    victim = fault.victim(found)
    return any(state.leader != victim for state in found.partitions.values())


def deal(
    planned: Iterable[Fault],
    seconds: float,
    cluster: Cluster,
    dealer: FaultInjector,
    progress: Progress,
    dealt: Counter[str],
    gaps: list[Gap],
) -> None:
    """Inject one fault after the other until the time is up, and record its gaps; the last one is healed too."""
    started = time.monotonic()
    for fault in planned:
        elapsed = time.monotonic() - started
        if elapsed >= seconds:
            return
        found = cluster.describe()
        if found is None:
            raise ClusterError("no node knows the active controller of a healthy cluster")
        if fault.kind in SILENCING:
            cluster.wait_for(partial(can_be_silenced, fault), "another broker leads, too")
            found = cluster.describe() or found
        victim = fault.victim(found)
        leads = Counter(state.leader for state in found.partitions.values())
        led = "/".join(str(leads[id_]) for id_ in IDS)
        how = f"{fault.role}, {fault.number}, {fault.way}"
        reported = f"{fault.kind} {victim} ({how}); partitions led: {led}, the quorum by {found.controller}"
        progress(events.Fault(reported, round(elapsed, 2)))
        print(f"{elapsed:6.1f} s  {reported}", flush=True)
        leaders = {name: found.partitions[name].leader for name in map(name_of, range(PARTITIONS))}
        progress.take_gaps_s()
        try:
            dealer.deal(fault, victim)
        finally:
            gaps += gaps_of(reported, fault, fault.struck(victim), leaders, progress.take_gaps_s())
        dealt[fault.kind] += 1
