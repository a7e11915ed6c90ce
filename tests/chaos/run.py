"""One run: a cluster under load, faults for some time, then all heals and the history is checked.

The operations of clients and their results are recorded as a history; `check` is the checker's verdict on it. A run
fails if the verdict is not "passed", if the cluster does not make progress in time, if an application gets an error, or
if a broker logs a problem; its directory with the history and the brokers' logs is kept.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.cluster import DEADLINE_S, IDS, Cluster, ClusterError, wait_until
from tests.chaos.faults import Fault, FaultInjector, plan
from tests.chaos.gaps import Gap, gaps_of
from tests.chaos.history import events
from tests.chaos.history.checker import PASSED, Verdict, check
from tests.chaos.network import Network
from tests.chaos.workloads import (
    PARTITIONS,
    SILENT,
    TOPIC,
    JavaMember,
    JavaProducer,
    LibrdkafkaMember,
    LibrdkafkaProducer,
    Progress,
    name_of,
    read_back,
)

GROUP, JAVA_GROUP = "readers", "java-readers"


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


class _Clients:
    """All clients of a run."""

    def __init__(self, bootstrap: str, progress: Progress, java_directory: Path | None) -> None:
        self._progress = progress
        self.producers: list[LibrdkafkaProducer | JavaProducer] = [
            LibrdkafkaProducer(bootstrap, name, progress) for name in ("a", "b")
        ]
        self.members: list[LibrdkafkaMember | JavaMember] = [
            LibrdkafkaMember(bootstrap, GROUP, name, progress) for name in ("c", "d")
        ]
        self.groups = [GROUP]
        if java_directory is not None:
            self.producers.append(JavaProducer(bootstrap, "java-producer", progress, java_directory))
            self.members.append(JavaMember(bootstrap, JAVA_GROUP, "java-member", progress))
            self.groups.append(JAVA_GROUP)

    def __enter__(self) -> _Clients:
        for client in (*self.producers, *self.members):
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in (*self.producers, *self.members):
            client.close()

    def wait_until_at_work(self) -> None:
        """Return once every producer and partition has an acknowledgement, and every group has received a record."""
        at_work = self._progress.wait_for(
            lambda: (
                {value.partition("-")[0].partition(".")[0] for value in self._progress.acknowledged}
                >= {"a", "b", *([JavaProducer.PREFIX] if JAVA_GROUP in self.groups else [])}
                and len(self._progress.acknowledged_of) == PARTITIONS
                and all(self._progress.seen[group] for group in self.groups)
            ),
            DEADLINE_S,
        )
        if not at_work:
            raise ClusterError("not every client came to work")

    def finish(self) -> Iterator[str]:
        """Finish all clients, and yield the problems of those that do not."""
        for producer in self.producers:
            if not producer.finish(DEADLINE_S):
                yield f"not every outcome was known {DEADLINE_S:g} s after the last fault"
        for group in self.groups:
            if not self._progress.wait_for(lambda group=group: not self._progress.unseen(group), DEADLINE_S):  # type: ignore[misc]  # a lambda with a default has no inferred type
                missing = sorted(self._progress.unseen(group))
                yield f"{group} was not given {len(missing)} records within {DEADLINE_S:g} s, such as {missing[:3]}"


def run(seed: int, seconds: float, directory: Path, *, java: bool) -> Outcome:
    """Inject the faults of a seed for `seconds`; with `java`, Java clients work too."""
    directory.mkdir(parents=True)
    recorder = events.Recorder(directory / "history.jsonl")
    progress = Progress(recorder)
    faults: Counter[str] = Counter()
    progress(events.Run({"seed": seed, "seconds": seconds, "java": java}))
    problems: list[str] = []
    gaps: list[Gap] = []
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        cluster = stack.enter_context(Cluster(directory, network))
        with recording_problems(problems):
            cluster.wait_for(lambda _: all(node.is_ready for node in cluster.nodes.values()), "all brokers ready")
            create_topic(cluster.bootstrap)
            with _Clients(cluster.bootstrap, progress, directory if java else None) as clients:
                clients.wait_until_at_work()
                cluster.wait_until_whole()
                with recording_problems(problems):
                    deal(
                        plan(seed), seconds, cluster, FaultInjector(cluster, network, progress), progress, faults, gaps
                    )
                network.heal()
                problems += clients.finish()
                read_back(cluster.bootstrap, progress, DEADLINE_S)
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


def create_topic(bootstrap: str) -> None:
    """Create the topic, with retries until a new cluster knows all its brokers."""
    admin = AdminClient({"bootstrap.servers": bootstrap} | SILENT)  # type: ignore[arg-type]  # a dict's values are invariant
    wait_until(lambda: len(admin.list_topics(timeout=10).brokers) == len(IDS), "three brokers in the metadata")
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, len(IDS))])[TOPIC].result(DEADLINE_S)


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
