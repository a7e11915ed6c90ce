"""Replicas on their way to another data directory of this broker: one at a time, a little a turn of the loop.

What a move does to the files is `storage.log_moves`'. Here it is driven, within
`replica.alter.log.dirs.io.max.bytes.per.second`, and the controller is told where the replica lies then; also at the
start, of all that lie elsewhere than the metadata says. Moves that the last stop interrupted begin anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

if TYPE_CHECKING:
    from broker.lifecycle import Call
    from broker.live_settings import LiveSettings
    from broker.replica_manager import ReplicaManager
    from controller.image import MetadataImage
    from storage.log import Log
    from storage.log_directory import LogDirectory
    from storage.log_manager import LogManager
    from storage.log_moves import LogMove
    from storage.search import Search, Step

_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_LONGEST_WAIT_S = 1.0
_TOLD_AT_ONCE = 1000
_TELLING_TIMEOUT_S = 30.0

_log = logging.getLogger("broker.moves")


class DirectoryMoves:
    """The moves of a broker that is registered in `broker_epoch`."""

    def __init__(
        self,
        node_id: int,
        broker_epoch: int,
        logs: LogManager,
        *,
        live: LiveSettings,
        image: Callable[[], MetadataImage],
        call: Call,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._logs = logs
        self._live = live
        self._image = image
        self._call = call
        self._loop = loop
        self._running: asyncio.Task[None] | None = None

    async def start(self, replicas: ReplicaManager) -> None:
        """Tell where replicas lie that the metadata has elsewhere, and go on with what was interrupted."""
        image = self._image()
        elsewhere = {}
        for partition in replicas.partitions:
            home = self._logs.directory_of(partition.log).directory_id
            state = image.partition(partition.topic, partition.index)
            if state is not None and state.directories[state.replicas.index(self._node_id)] != home:
                elsewhere[partition.topic_id, partition.index] = home
        await self._tell(elsewhere)
        interrupted, self._logs.moves.interrupted = self._logs.moves.interrupted, {}
        for (topic, index), target in interrupted.items():
            found = replicas.find_named(topic, index)
            if found is not None:
                try:
                    self.begin(found.log, target)
                except KafkaError as error:
                    _log.warning("%s stays where it is: %s", found, error)

    async def stop(self) -> None:
        """End the moves where they are; they begin anew after the next start."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def begin(self, log: Log, target: LogDirectory) -> None:
        """Move a log to `target` from now on, not elsewhere; if it is there, let it stay. KafkaError if that fails."""
        if self._logs.moves.begin(log, target) is not None and self._running is None:
            self._running = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while (move := next(iter(self._logs.moves), None)) is not None:
                await self._carry_out(move)
        finally:
            self._running = None

    async def _carry_out(self, move: LogMove) -> None:
        log, moves = move.log, self._logs.moves
        _log.info("Moving %s from %s to %s", log, move.source.path, move.target.path)
        try:
            await self._drive(move, moves.steps(move))
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
            if move.taken_over:
                _log.info("Moved %s to %s, %d bytes", log, move.target.path, move.copied_bytes)
        if move.taken_over:
            await self._tell({(log.topic_id, log.partition): move.target.directory_id})

    async def _drive(self, move: LogMove, steps: Search[None]) -> None:
        """Do the steps, one a turn of the loop, until they are done or the move is cancelled."""
        copied_bytes = 0
        advance: Callable[[], Step] = partial(next, steps)
        while move in self._logs.moves:
            try:
                step = advance()
            except StopIteration:
                return
            if step is None:
                await self._wait(move, move.copied_bytes - copied_bytes)
                copied_bytes = move.copied_bytes
                advance = partial(next, steps)
                continue
            try:
                answer = await self._loop.run_in_executor(None, step)
            except OSError as error:
                advance = partial(steps.throw, error)
            else:
                advance = partial(steps.send, answer)

    async def _wait(self, move: LogMove, copied_bytes: float) -> None:
        """Let others run, and as much time pass as copying so much is to take."""
        await asyncio.sleep(0)
        while copied_bytes > 0 and move in self._logs.moves:
            rate = self._live[_RATE]
            if rate is None:
                return
            wait_s = min(copied_bytes / rate, _LONGEST_WAIT_S) if rate else _LONGEST_WAIT_S
            await asyncio.sleep(wait_s)
            copied_bytes -= rate * wait_s

    async def _tell(self, homes: Mapping[tuple[bytes, int], bytes]) -> None:
        waiting = iter(homes.items())
        while some := dict(islice(waiting, _TOLD_AT_ONCE)):
            try:
                answer = await self._call(self._assignment(some), _TELLING_TIMEOUT_S)
                code = ErrorCode(answer.error_code)
            except KafkaError as error:
                code = error.code
            if code is not ErrorCode.NONE:
                _log.warning("The controller does not know yet where %d replicas lie: %s", len(some), code.name)

    def _assignment(self, homes: Mapping[tuple[bytes, int], bytes]) -> AssignReplicasToDirsRequest:
        """Return the request that tells the directories of replicas, given by topic id and partition."""
        found: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), directory_id in homes.items():
            found.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        asked = AssignReplicasToDirsRequest
        return asked(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch,
            directories=[
                asked.Directory(
                    id=directory_id,
                    topics=[
                        asked.Directory.Topic(
                            topic_id=topic_id,
                            partitions=[asked.Directory.Topic.Partition(partition_index=index) for index in indexes],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in found.items()
            ],
        )
