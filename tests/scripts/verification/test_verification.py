"""Transcripts of a partition that verifies a producer's transactions before their first records (KIP-890).

    verify [sequence=N] [epoch=N] [old] as=NAME    begin to verify; the guard gets this name
    append [sequence=N] [epoch=N] [guard=NAME] [plain] [of-coordinator]
                                                   append a batch of one record; `plain`: outside transactions
    commit, abort [epoch=N] [old] [coordinator=N]  append the marker; `old`: of transaction.version 0 and 1
    replicated                                     the high watermark moves to the end
    wait ms=N, expire                              advance the clock; remove what is older than `EXPIRATION_MS`
    show                                           the open transaction, the last stable offset, the verification

An `old` producer adds its partitions with AddPartitionsToTxn, and has one epoch for all its transactions. What is
refused prints its error; the next step finds the state unchanged.
"""

from __future__ import annotations

from protocol.errors import KafkaError
from protocol.record_batch import BatchHeader, EndTxnMarker
from storage.log.producer_state import AppendOrigin, ProducerStateManager
from storage.log.verification import VerificationGuard
from tests.scripts.conftest import Script, Step

PRODUCER = 7
EXPIRATION_MS = 1000
TRANSACTIONAL, CONTROL = 0x10, 0x20


class Machine:
    """The producer state of one partition, and the guards by their names."""

    def __init__(self) -> None:
        self.state = ProducerStateManager()
        self.guards: dict[str, VerificationGuard] = {}
        self.now_ms = 0

    def run(self, step: Step) -> str:
        try:
            return str(getattr(self, "do_" + step.command)(step))
        except KafkaError as error:
            return error.code.name

    def do_verify(self, step: Step) -> str:
        name = step.required("as")
        guard = self.state.start_verification(
            PRODUCER,
            step.int("epoch", 0),
            step.int("sequence", 0),
            self.now_ms,
            supports_epoch_bump=not step.flag("old"),
        )
        if guard is None:
            return f"{name}: its transaction is open, nothing to verify"
        same = [known for known, one in self.guards.items() if one is guard]
        self.guards[name] = guard
        return f"{name}: the guard {same[0]}" if same else f"{name}: a new guard"

    def do_append(self, step: Step) -> str:
        attributes = 0 if step.flag("plain") else TRANSACTIONAL
        header = self.header(attributes, step.int("epoch", 0), step.int("sequence", 0))
        guard = self.guards[step.required("guard")] if step.get("guard") else None
        duplicate = self.state.check(header, AppendOrigin(not step.flag("of-coordinator"), guard=guard))
        if duplicate is not None:
            return f"a duplicate of offset {duplicate.base_offset}"
        self.state.update(header)
        return f"offset {header.base_offset}"

    def do_commit(self, step: Step) -> str:
        return self.mark(step, committed=True)

    def do_abort(self, step: Step) -> str:
        return self.mark(step, committed=False)

    def mark(self, step: Step, *, committed: bool) -> str:
        header = self.header(TRANSACTIONAL | CONTROL, step.int("epoch", 0), -1)
        marker = EndTxnMarker(committed, step.int("coordinator", 0))
        self.state.check_marker(header, marker, 0 if step.flag("old") else 2)
        ended = self.state.update(header, marker)
        what = "ends no transaction" if ended is None else f"ends the transaction of offset {ended.first_offset}"
        return f"offset {header.base_offset}, {what}"

    def do_replicated(self, _step: Step) -> str:
        self.state.high_watermark_moved(self.state.end_offset)
        return ""

    def do_wait(self, step: Step) -> str:
        self.now_ms += step.int("ms")
        return ""

    def do_expire(self, _step: Step) -> str:
        return f"{self.state.expire(self.now_ms, EXPIRATION_MS)} producers"

    def do_show(self, _step: Step) -> str:
        opened = [offset for offset, _ in self.state.open_transactions]
        verification = self.state.verifications.get(PRODUCER)
        lines = [f"open since offset {opened[0]}" if opened else "no open transaction"]
        if self.state.first_unstable_offset is not None:
            lines.append(f"stable to offset {self.state.first_unstable_offset}")
        if verification is not None:
            [name] = [known for known, one in self.guards.items() if one is verification.guard][:1]
            lines.append(f"verifying with {name}, from sequence {verification.lowest_sequence}")
        return "\n".join(lines)

    def header(self, attributes: int, epoch: int, sequence: int) -> BatchHeader:
        at = self.state.end_offset
        return BatchHeader(at, 100, 0, 2, 0, attributes, 0, 0, self.now_ms, PRODUCER, epoch, sequence, 1)


def test_transcript(script: Script) -> None:
    script.run(Machine().run)
