"""Transcripts of a quorum: elections, leaders, followers, and their logs.

    start voters=(1, ...) [observers=(N, ...)] [new=(N, ...)]   start the nodes; those in `new` wait for `restart`
    log node=N epochs=(E, ...)   before `start`: the node's log has one record of each of these epochs
    wait ms=MS                   advance the clock
    lead node=N                  the node starts an election immediately
    propose node=N [n=COUNT]     the leader appends
    cut from=(N, ...) to=(N, ...) [both]   messages from these nodes to those are lost
    heal                         every link works
    crash node=N                 the node exits, and its peers' requests to it fail
    restart node=N               the node restarts with its stored log and state
    disconnected node=N from=N   the node's connection to another is closed
    resign node=N                the node resigns before a shutdown
    snapshot node=N              the node writes a snapshot, and deletes its log below it
    describe node=N              the quorum as its leader describes it
    show                         every node: role, epoch, high watermark, and the log as OFFSET:EPOCH of each batch;
                                 before a bar, EPOCH@OFFSET of the snapshot at the log start

Messages take no time. Random timeouts are ordered by node id: the smaller id expires first.
"""

from __future__ import annotations

from typing import Any

from protocol.errors import KafkaError
from tests.scripts.conftest import Script, Step
from tests.simulation.raft_nodes import Nodes


class Machine:
    """The nodes, and the position in the output."""

    def __init__(self) -> None:
        self.nodes: Any = None
        self.logs: dict[int, Any] = {}

    def run(self, step: Step) -> str:
        reported = getattr(self, f"do_{step.command}")(step)
        if reported is None:
            reported, self.nodes.reported = "\n".join(self.nodes.reported) or "nothing happens", []
        result: str = reported
        return result

    def do_log(self, step: Step) -> str:
        self.logs[step.int("node")] = [int(epoch) for epoch in step.list("epochs")]
        return "ok"

    def do_start(self, step: Step) -> None:
        self.nodes = Nodes(numbers(step, "voters"), numbers(step, "observers"))
        for node_id, epochs in self.logs.items():
            self.nodes.log(node_id, *epochs)
        self.nodes.start(*(node_id for node_id in self.nodes.disks if node_id not in numbers(step, "new")))

    def do_wait(self, step: Step) -> None:
        self.nodes.wait(step.int("ms"))

    def do_lead(self, step: Step) -> None:
        self.nodes.lead(step.int("node"))

    def do_propose(self, step: Step) -> str | None:
        try:
            self.nodes.propose(step.int("node"), step.int("n", 1))
        except KafkaError as error:
            return str(error)
        return None

    def do_cut(self, step: Step) -> str:
        links = {(source, target) for source in numbers(step, "from") for target in numbers(step, "to")}
        self.nodes.cut |= links | ({(target, source) for source, target in links} if step.flag("both") else set())
        return "ok"

    def do_heal(self, _step: Step) -> str:
        self.nodes.heal()
        return "ok"

    def do_crash(self, step: Step) -> None:
        self.nodes.crash(step.int("node"))

    def do_restart(self, step: Step) -> None:
        self.nodes.start(step.int("node"))

    def do_disconnected(self, step: Step) -> None:
        self.nodes.disconnected(step.int("node"), step.int("from"))

    def do_resign(self, step: Step) -> None:
        self.nodes.resign(step.int("node"))

    def do_snapshot(self, step: Step) -> None:
        self.nodes.snapshot(step.int("node"))

    def do_describe(self, step: Step) -> str:
        quorum = self.nodes.nodes[step.int("node")].quorum(self.nodes.now_ms)
        lines = [f"leader {quorum.leader_id} in epoch {quorum.epoch}, committed below {quorum.high_watermark}"]
        for kind, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
            lines += [
                f"{kind} {each.node_id}: end {each.end_offset}, fetched {ago(each.last_fetch_age_ms)},"
                f" caught up {ago(each.caught_up_age_ms)}"
                for each in replicas
            ]
        return "\n".join(lines)

    def do_show(self, _step: Step) -> str:
        return "\n".join(self.nodes.state(node_id) for node_id in self.nodes.disks)


def numbers(step: Step, name: str) -> list[int]:
    return [int(number) for number in step.list(name)]


def ago(age_ms: int) -> str:
    return "never" if age_ms is None else f"{age_ms} ms ago"


def test_quorum(script: Script) -> None:
    script.run(Machine().run)
