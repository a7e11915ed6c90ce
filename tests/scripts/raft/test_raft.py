"""Transcripts of one voter: each Ready, and the state after it is done.

    start voters=(1, ...) [epoch=E] [end=OFFSET] [end-epoch=E] [committed=OFFSET] [static] [new-quorum]
    campaign             start an election
    propose n=COUNT      append that many records
    ready                show the Ready; it stays pending until `done`
    done                 everything in the last `ready` is durable
    show                 role, epoch, high watermark and end of the log

The node is voter 1. `static` voters cannot change (kraft.version 0); the voters of a `new-quorum` are only in the
bootstrap checkpoint.
"""

from __future__ import annotations

from typing import Any

from controller.raft.log import RaftLog
from controller.raft.messages import ElectionState
from controller.raft.raft_node import RaftNode
from controller.raft.voter_history import VoterHistory
from controller.raft.voters import Voter, VoterSet
from protocol.errors import KafkaError
from protocol.records.metadata import NoOpRecord
from tests.scripts.conftest import Script, Step


class Machine:
    """The node, and its pending Ready."""

    def __init__(self) -> None:
        self.node: Any = None
        self.ready = None

    def run(self, step: Step) -> str:
        result: str = getattr(self, "do_" + step.command)(step)
        return result

    def do_start(self, step: Step) -> str:
        history = VoterHistory(VoterSet([Voter(int(number), bytes(16)) for number in step.list("voters")]))
        if not step.flag("static"):
            history.load_snapshot(0 if step.flag("new-quorum") else 1, history.voters, 1)
        self.node = RaftNode(
            1,
            history,
            ElectionState(epoch=step.int("epoch", 0)),
            RaftLog(step.int("end", 0), step.int("end-epoch", 0), high_watermark=step.int("committed", 0)),
        )
        return self.do_show(step)

    def do_campaign(self, step: Step) -> str:
        self.node.campaign()
        return self.do_show(step)

    def do_propose(self, step: Step) -> str:
        try:
            entry = self.node.propose([NoOpRecord()] * step.int("n"))
        except KafkaError as error:
            return str(error)
        return f"{entry.base_offset} to {entry.next_offset - 1} in epoch {entry.epoch}"

    def do_ready(self, _step: Step) -> str:
        self.ready = self.node.ready()
        if self.ready is None:
            return "nothing"
        lines = []  # type: ignore[unreachable]  # a call has changed it since
        state = self.ready.election_state
        if state is not None:
            lines.append(f"store: epoch {state.epoch}, leader {state.leader_id}, voted for {state.voted_id}")
        for entry in self.ready.entries:
            kinds = " ".join(type(record).__name__ for record in entry.records)
            lines.append(f"append: {entry.base_offset} in epoch {entry.epoch}: {kinds}")
        return "\n".join([*lines, f"committed: below {self.ready.high_watermark}"])

    def do_done(self, step: Step) -> str:
        self.node.advance(self.ready)
        return self.do_show(step)

    def do_show(self, _step: Step) -> str:
        node = self.node
        return f"{node.role.value} in epoch {node.epoch}, committed below {node.high_watermark} of {node.end_offset}"


def test_raft(script: Script) -> None:
    script.run(Machine().run)
