"""Moves of replicas between this broker's log directories (KIP-113, Kafka: `ReplicaAlterLogDirsManager`).

`storage.future_replicas` defines what a move does to the files. This module runs one move at a time, a step a turn of
the loop, within `replica.alter.log.dirs.io.max.bytes.per.second`; afterwards `assignments_manager` reports the
replica's directory to the controller. Moves that a stop interrupted start over.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from broker.log_dirs.assignments_manager import AssignmentsManager
from broker.metadata.dynamic_config import DynamicConfig
from broker.monitoring.rate import SampleWindow, SimpleRate
from broker.replication.replica_manager import ReplicaManager
from broker.runtime.cooperative import ONE_STEP, run_steps
from protocol.errors import InvariantError, KafkaError
from protocol.plural import count_of
from storage.future_replicas import FutureReplica
from storage.log.log import Log
from storage.log_directory import LogDirectory
from storage.log_manager import LogManager
from storage.steps import checked

_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_LONGEST_WAIT_S = 1.0

_log = logging.getLogger("broker.moves")


class _CancelledError(Exception):
    """The move was cancelled or replaced."""


class ReplicaAlterLogDirs:
    """The moves of a broker."""

    def __init__(
        self,
        logs: LogManager,
        assignments: AssignmentsManager,
        *,
        dynamic_config: DynamicConfig,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        start = dynamic_config.start
        self.rate = SimpleRate(
            SampleWindow(
                start["alter.log.dirs.replication.quota.window.num"],
                1000 * start["alter.log.dirs.replication.quota.window.size.seconds"],
            )
        )
        """The bytes per second that are copied, for metrics."""
        self._logs = logs
        self._assignments = assignments
        self._dynamic_config = dynamic_config
        self._loop = loop
        self._running: asyncio.Task[None] | None = None

    def start(self, replicas: ReplicaManager) -> None:
        """Start the interrupted moves over."""
        interrupted, self._logs.moves.interrupted = self._logs.moves.interrupted, {}
        for (topic, index), target in interrupted.items():
            found = replicas.find_named(topic, index)
            if found is not None:
                try:
                    self.begin(found.log, target)
                except KafkaError as error:
                    _log.warning("Not resuming the move of %s: %s", found, error)

    async def stop(self) -> None:
        """Stop the moves; they start over after the next start."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def begin(self, log: Log, target: LogDirectory) -> None:
        """Start moving a log to `target`, replacing its current move; none if it is there. KafkaError on failure."""
        if self._logs.moves.begin(log, target) is not None and self._running is None:
            self._running = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while (move := next(iter(self._logs.moves), None)) is not None:
                await self._carry_out(move)
        finally:
            self._running = None

    async def _carry_out(self, move: FutureReplica) -> None:
        log, moves = move.log, self._logs.moves
        _log.info("Moving %s from %s to %s", log, move.source.path, move.target.path)
        try:
            await self._run_move(move)
        except KafkaError as error:
            if move in moves:
                moves.cancel(log)
                _log.error("Moving %s from %s to %s failed: %s", log, move.source.path, move.target.path, error)
        except InvariantError as error:
            moves.cancel(log)
            self._loop.call_exception_handler({"message": f"moving {log} broke an invariant", "exception": error})
        except Exception:
            moves.cancel(log)
            _log.exception("Moving %s failed", log)
        else:
            if move.promoted:
                _log.info("Moved %s to %s, %s", log, move.target.path, count_of(move.copied_bytes, "byte"))
        if move.promoted:
            self._assignments.report({(log.topic_id, log.partition): move.target.directory_id})

    async def _run_move(self, move: FutureReplica) -> None:
        """Run one step a turn of the loop, until they are done or the move is cancelled."""
        copied_bytes = 0

        def check() -> None:
            if move not in self._logs.moves:
                raise _CancelledError

        async def pause() -> None:
            nonlocal copied_bytes
            before, copied_bytes = copied_bytes, move.copied_bytes
            self.rate.record(copied_bytes - before, 1000 * self._loop.time())
            await self._wait(move, copied_bytes - before)

        steps = checked(self._logs.moves.steps(move), check)
        with suppress(_CancelledError):
            await run_steps(steps, self._loop, ONE_STEP, between_turns=pause)

    async def _wait(self, move: FutureReplica, copied_bytes: float) -> None:
        """Yield to the loop, and wait as long as the rate limit requires for `copied_bytes`."""
        await asyncio.sleep(0)
        while copied_bytes > 0 and move in self._logs.moves:
            rate = self._dynamic_config[_RATE]
            if rate is None:
                return
            wait_s = min(copied_bytes / rate, _LONGEST_WAIT_S) if rate else _LONGEST_WAIT_S
            await asyncio.sleep(wait_s)
            copied_bytes -= rate * wait_s
