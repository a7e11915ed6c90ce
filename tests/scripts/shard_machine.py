"""A coordinator's shard in transcripts: its clock, its log, and the responses and appends of its rules.

Commands that all shards have:

    wait ms=N            advance the clock; timers fire in order
    hold                 from now on appended records stay unstored until `stored` or `failed error=E`
    unload               lose the partition's leadership
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from broker.coordinator.runtime.context import Append, CoordinatorResponse
from broker.coordinator.runtime.timers import Timers
from protocol.errors import ErrorCode
from tests.scripts.conftest import Step


class SilentLog:
    """Formats what the rules log, and drops it."""

    def info(self, message: str, *args: object) -> None:
        message % args

    debug = info


class ShardMachine(ABC):
    """Runs commands (`do_...`) on a shard; `observed` has the lines that the current one prints."""

    shard: Any

    def __init__(self) -> None:
        self.now = 0.0
        self.timers = Timers()
        self.log: list[Any] = []
        self.holding = False
        self.held: list[Append] = []
        self.observed: list[str] = []

    def run(self, step: Step) -> str:
        self.observed = []
        getattr(self, "do_" + step.command.replace("-", "_"))(step)
        return "\n".join(self.observed)

    @abstractmethod
    def context(self) -> Any:
        """Return a context of the shard's kind."""

    @abstractmethod
    def respond(self, to: object, result: Any) -> None:
        """Observe a response."""

    @abstractmethod
    def describe_record(self, key: bytes, value: bytes | None) -> str:
        """Return a stored record as text."""

    def perform(self, context: Any) -> None:
        while context.effects:
            effect = context.effects.pop(0)
            if isinstance(effect, CoordinatorResponse):
                self.respond(effect.to, effect.result)
                continue
            assert isinstance(effect, Append)
            self.observed += [f"append {self.describe_record(*record)}" for record in effect.records]
            if self.holding:
                self.held.append(effect)
            else:
                self.log += effect.records
                effect.then(context, ErrorCode.NONE)

    def do_wait(self, step: Step) -> None:
        until = self.now + step.int("ms") / 1000
        fired = 0
        while self.timers.next_at is not None and self.timers.next_at <= until:
            fired += 1
            assert fired < 1_000, "a timer is due again and again, without time passing"
            self.now = max(self.now, self.timers.next_at)
            timer = self.timers.pop_due(self.now)
            if timer is not None:
                self.observed.append(f"{timer.event} due at {self.now:g}")
                context = self.context()
                self.shard.fire(context, timer.event)
                self.perform(context)
        self.now = until

    def do_hold(self, _step: Step) -> None:
        self.holding = True

    def do_stored(self, _step: Step) -> None:
        self.settle(ErrorCode.NONE)

    def do_failed(self, step: Step) -> None:
        self.settle(ErrorCode[step.required("error")])

    def settle(self, error: ErrorCode) -> None:
        self.holding = False
        held, self.held = self.held, []
        for append in held:
            if error == ErrorCode.NONE:
                self.log += append.records
            context = self.context()
            append.then(context, error)
            self.perform(context)

    def do_unload(self, _step: Step) -> None:
        context = self.context()
        self.shard.unloaded(context)
        self.perform(context)
