"""Performs a `Ready` of `RaftNode` in order: disk first, then the metadata loader and other nodes.

    epoch and vote (quorum state)    made durable before anything else
    truncation of the log's end      with the entries that wait to be committed
    parts of the leader's snapshot   written; after the last, the log is reset to the snapshot
    entries                          appended; Fetch responses may carry them before they are durable here
    other requests and responses     sent after all of that is durable

Then the node gets `advance`, and what that commits is applied in a task of its own, concurrently with later Readys.

If the disk has no space for the entries of a quorum's only voter, they are withdrawn as if never proposed: their
commands fail with KAFKA_STORAGE_ERROR. Any other error is raised, and this node fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from broker.metadata.raft_responses import fill_in
from broker.runtime.cooperative import run_steps
from broker.runtime.executors import sync_in_thread
from protocol.errors import KafkaError
from protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker.metadata.controller_event_queue import ControllerEventQueue
    from broker.metadata.metadata_loader import MetadataLoader
    from broker.metadata.metadata_log import MetadataLog
    from broker.metadata.snapshot_generator import SnapshotGenerator
    from controller.raft.log import Entry
    from controller.raft.messages import OutboundRequest, Ready, Response
    from controller.raft.raft_node import RaftNode
    from protocol.schema import Message
    from storage.log.flush import Flush
    from storage.log_directory import LogDirectory

_log = logging.getLogger("broker.controller")


class _NoSpaceError(KafkaError):
    """The metadata log is full; none of the proposed entries is in it."""


class ReadyPerformer:
    """Performs the Readys of one node; `appended_ms` is the wall-clock time of the last append to its log."""

    def __init__(
        self,
        node: RaftNode,
        log: MetadataLog,
        directory: LogDirectory,
        *,
        metadata: MetadataLoader,
        snapshots: SnapshotGenerator,
        commands: ControllerEventQueue,
        send: Callable[[OutboundRequest], None],
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        now_ms: Callable[[], int],
    ) -> None:
        """`log` is in `directory`; `send` sends requests to other nodes; `now_ms` is the wall clock.

        Files are written and synced in `executor`: in the loop's own, cold reads would delay votes and commits.
        """
        self.appended_ms = now_ms()
        self._node = node
        self._log = log
        self._directory = directory
        self._metadata = metadata
        self._snapshots = snapshots
        self._commands = commands
        self._send = send
        self._loop = loop
        self._now_ms = now_ms
        self._executor = executor

    async def perform(self, ready: Ready) -> None:
        """Perform `ready`."""
        log = self._log
        for warning in ready.warnings:
            _log.warning("%s", warning)
        if ready.election_state is not None:
            state, voters = ready.election_state, self._node.voters
            await self._in_thread(partial(log.write_quorum_state, state, voters, self._node.kraft_version))
        if ready.truncate_to is not None:
            log.truncate(ready.truncate_to)
            self._metadata.truncate(ready.truncate_to)
        for part in ready.snapshot_parts:
            await self._in_thread(partial(log.write_snapshot_part, *part))
        if ready.reset_to_snapshot is not None:
            await self._metadata.finish()
            await self._snapshots.stop()
            snapshot = ready.reset_to_snapshot
            contents = await run_steps(log.reset_to_snapshot(snapshot), self._loop, executor=self._executor)
            self._node.snapshot_loaded(snapshot, contents.voters, contents.kraft_version)
            await self._metadata.reset_to_snapshot(snapshot, contents.records)
        flush = None
        try:
            if ready.entries:
                flush = self._append(ready.entries)
            elif ready.received is not None:
                self.appended_ms = self._now_ms()
                flush = log.receive(ready.received, self.appended_ms)
                self._metadata.appended(ready.received.entries)
        except _NoSpaceError as error:
            self._commands.fail_from(ready.entries[0].base_offset, error)
            ready = ready._replace(entries=())
        self._respond(each for each in ready.responses if isinstance(each.response, FetchResponse))
        if flush is not None:
            await sync_in_thread(self._loop, [flush], self._executor)
            flush.finish()
        for request in ready.requests:
            self._send(request)
        self._respond(each for each in ready.responses if not isinstance(each.response, FetchResponse))
        self._node.advance(ready, int(self._loop.time() * 1000))
        if log.committed(ready.high_watermark):
            self._metadata.apply_committed()

    async def _in_thread(self, function: Callable[[], None]) -> None:
        await self._loop.run_in_executor(self._executor, function)

    def _append(self, entries: Sequence[Entry]) -> Flush | None:
        self.appended_ms = self._now_ms()
        refused_writes = self._directory.refused_writes
        end_offset = self._log.end_offset
        try:
            flush = self._log.append(entries, self.appended_ms)
        except KafkaError as error:
            full = self._directory.refused_writes > refused_writes and self._directory.failure is None
            if full and self._log.end_offset == end_offset and self._node.withdraw(entries):
                raise _NoSpaceError(error.code, error.message) from error
            raise
        self._metadata.appended(entries)
        return flush

    def _respond(self, responses: Iterable[Response]) -> None:
        for response in responses:
            token = cast("asyncio.Future[Message]", response.token)
            if not token.done():
                fill_in(self._log, response)
                token.set_result(response.response)
