"""The Raft driver: runs `RaftNode` and the controller event queue on the event loop (Kafka: `KafkaRaftClientDriver`).

Events (requests and responses of other nodes, ticks, disconnects) wait in one queue, commands in
`controller_event_queue`. A run takes all events, decides all commands if this node leads, and performs Readys until
there is none. Events and commands that arrive during an fsync share the next one. Committed entries are applied in a
task of their own: every subscriber gets each change before the command that made it is answered.

A node leads once it has applied the first entry of its own epoch, and with it everything committed before. A node that
does not lead rejects commands with NOT_CONTROLLER. Commands that it had decided when it lost leadership may or may not
be committed.

If the metadata log cannot be written, or a subscriber fails, the node cannot continue: it calls the loop's exception
handler, which stops the broker.

Elsewhere: start-up in `node_recovery`, performing a Ready in `ready_performer`, files in `metadata_log`, connections in
`raft_channel`, snapshots in `snapshot_generator`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from broker.metadata.controller_event_queue import ControllerEventQueue, not_controller
from broker.metadata.metadata_loader import MetadataLoader, Subscriber
from broker.metadata.node_recovery import recover_node
from broker.metadata.ready_performer import ReadyPerformer
from broker.metadata.snapshot_generator import SnapshotGenerator
from broker.runtime.alarm import Alarm
from broker.runtime.executors import thread_pool
from controller.commands.bootstrap import bootstrap
from controller.commands.controller_result import Command, ControllerResult
from controller.image import MetadataImage
from controller.raft.messages import (
    NO_NODE,
    Disconnected,
    Event,
    QuorumInfo,
    RequestReceived,
    ResponseReceived,
    Role,
    Tick,
)
from protocol.errors import InvariantError, KafkaError
from protocol.records.metadata import AbortTransactionRecord
from protocol.schema import Message
from storage.disk import reason

if TYPE_CHECKING:
    from random import Random

    from broker.metadata.metadata_log import MetadataLog
    from broker.network.network_client import NetworkClient
    from broker.settings import Settings
    from controller.raft.messages import OutboundRequest, RaftRequest
    from controller.raft.raft_node import RaftNode
    from controller.raft.voters import Voter, VoterSet
    from storage.disk import Disk
    from storage.log_directory import LogDirectory

    ConnectVoter = Callable[[Voter, Callable[[], None], Callable[[], None]], NetworkClient]

R = TypeVar("R")


class RaftDriver:
    """A node of the quorum, voter or observer; `image` is the metadata that is committed and applied."""

    _log: MetadataLog
    _node: RaftNode
    _snapshots: SnapshotGenerator
    _performer: ReadyPerformer

    def __init__(
        self,
        disk: Disk,
        directory: LogDirectory,
        settings: Settings,
        *,
        cluster_id: str,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        random: Random,
        connect: ConnectVoter | None = None,
    ) -> None:
        """Keep the metadata in `directory`, which is open and formatted. `connect` returns a client for a voter."""
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._loop = loop
        self._now_ms = now_ms
        self._random = random
        self._events: deque[Event] = deque()
        self._commands = ControllerEventQueue(loop)
        self._running: asyncio.Task[None] | None = None
        self._threads = thread_pool("raft", 2)  # a large snapshot does not delay votes and commits
        self._tick = Alarm(loop, lambda: self._enqueue(Tick()))
        self._failure: InvariantError | None = None
        self._stopped = False
        self._metadata = MetadataLoader(cluster_id, self._commands, loop, applied=self._applied_all, failed=self._fail)
        # Set before `open`: records of a new cluster, after its feature levels.
        self.first_records: tuple[Message, ...] = ()
        self._leadership = (False, NO_NODE, 0)
        self._leader_change: asyncio.Future[None] = loop.create_future()
        self._channel = None
        if connect is not None:
            from broker.metadata.raft_channel import RaftChannel

            self._channel = RaftChannel(
                lambda node_id, lost, refused: connect(self.voters.by_id[node_id], lost, refused),
                loop,
                grace_s=settings["barnabas.broker.disconnect.grace.ms"] / 1000,
                on_response=lambda request, response: self._enqueue(ResponseReceived(request, response)),
                on_disconnect=lambda node_id: self._enqueue(Disconnected(node_id)),
            )

    # Start and stop

    def read(self) -> None:
        """Read the stored metadata, before anything is written. `start` calls it if it was not called before.

        InvariantError if it cannot be read or uses a feature that this version does not support.
        """
        with self._metadata_errors():
            self._read()

    async def start(self) -> None:
        """Join the quorum; InvariantError as in `read`.

        A quorum of one leads when this returns, with the cluster bootstrapped if this is its first start.
        """
        if not hasattr(self, "_node"):
            self.read()
        with self._metadata_errors():
            if self.is_only_voter:
                self._node.campaign()
                self._wake()
                while not self.leads:
                    await self._leader_change
                    if self._failure is not None:
                        raise self._failure.__cause__ or self._failure
                await self.submit(self._bootstrap)
            else:
                self._wake()

    async def resign(self) -> None:
        """Resign leadership and notify the other voters, so that one of them leads before this node stops."""
        if self._failure is None and not self.is_only_voter:
            self._node.resign(self._monotonic_ms())
            self._wake()
            while self._running is not None:
                await asyncio.wait([self._running])

    async def stop(self) -> None:
        """Finish work in progress, and close the log."""
        self._stopped = True
        while self._running is not None:
            await asyncio.wait([self._running])
        await self._metadata.finish()
        await self._snapshots.stop()
        self._threads.shutdown()
        self._tick.cancel()
        if self._channel is not None:
            self._channel.close()
        if self._failure is None:
            self._log.close(self._now_ms())

    @contextmanager
    def _metadata_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, KafkaError) as error:
            why = str(error)
            if isinstance(error, OSError):
                self._directory.fail(error)
                why = reason(error)
            raise InvariantError(f"the metadata log in {self._directory.path} cannot be used: {why}") from error

    def _read(self) -> None:
        self._log, recovered, self._node = recover_node(
            self._disk,
            self._directory,
            self._settings,
            self.image,
            random=self._random,
            wall_clock_ms=self._now_ms(),
            now_ms=self._monotonic_ms(),
            first_records=self.first_records,
        )
        self._snapshots = SnapshotGenerator(
            self._settings,
            self._loop,
            self._threads,
            self._now_ms,
            stored=self._node.snapshot_taken,
            failed=self._fail,
        )
        self._performer = ReadyPerformer(
            self._node,
            self._log,
            self._directory,
            metadata=self._metadata,
            snapshots=self._snapshots,
            commands=self._commands,
            send=self._send,
            loop=self._loop,
            executor=self._threads,
            now_ms=self._now_ms,
        )
        self._metadata.begin(self._log, recovered)

    # State and requests

    @property
    def image(self) -> MetadataImage:
        """Return the metadata as it is committed and applied here."""
        return self._metadata.image

    @property
    def is_only_voter(self) -> bool:
        """Return whether this node is the only voter of its quorum."""
        return self._node.is_voter and len(self._node.voters.by_id) == 1

    @property
    def voters(self) -> VoterSet:
        """Return the voters of the quorum."""
        return self._node.voters

    @property
    def kraft_version(self) -> int:
        """Return the level of `kraft.version`; from 1 on, voters can change (KIP-853)."""
        return self._node.kraft_version

    @property
    def leads(self) -> bool:
        """Return whether this node is the active controller."""
        return self._leadership[0]

    @property
    def leader_id(self) -> int:
        """Return the id of the quorum's leader; -1 if unknown."""
        return self._leadership[1]

    @property
    def is_in_other_cluster(self) -> bool:
        """Return whether a majority of the voters belongs to another cluster."""
        return self._node.is_in_other_cluster

    @property
    def epoch(self) -> int:
        """Return the quorum's epoch."""
        return self._node.epoch

    @property
    def role(self) -> Role:
        """Return this node's Raft role."""
        return self._node.role

    @property
    def high_watermark(self) -> int:
        """Return the metadata log's high watermark, as known to this node."""
        return self._node.high_watermark

    @property
    def applied_offset(self) -> int:
        """Return the offset of the last record that was published to every subscriber."""
        return self._metadata.next_offset - 1

    def leader_change(self) -> asyncio.Future[None]:
        """Return a future that is done when the leader or its epoch changes, or there is no leader."""
        return self._leader_change

    async def until_applied(self, offset: int) -> None:
        """Wait until the record at `offset` is applied; InvariantError if this node fails before."""
        await self._metadata.until_applied(offset)

    def unreachable(self) -> dict[int, int]:
        """Return the nodes with a lost connection, and the loop time of the loss in ms."""
        return {} if self._channel is None else self._channel.lost_at_ms()

    def quorum(self) -> QuorumInfo:
        """Return the leader's view of the quorum; KafkaError if this node does not lead."""
        return self._node.quorum(self._monotonic_ms())

    def subscribe(self, subscriber: Subscriber) -> None:
        """Publish each later change of the metadata to `subscriber`."""
        self._metadata.subscribe(subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Stop publishing to `subscriber`."""
        self._metadata.unsubscribe(subscriber)

    async def submit(self, command: Command[R], timeout_ms: int | None = None) -> R:
        """Decide a command; return its response once its records are committed, applied and published.

        On timeout, return the response if its records are committed. KafkaError if the command raises it,
        NOT_CONTROLLER if this node does not lead, or REQUEST_TIMED_OUT. Cancelling the wait does not withdraw the
        command.
        """
        if self._failure is not None:
            raise self._failure
        if not self.leads or self._stopped:
            raise not_controller()
        future = self._commands.submit(command)
        self._wake()
        return await self._commands.wait_for(future, timeout_ms, lambda: self._log.high_watermark)

    def handle_request(self, request: RaftRequest) -> asyncio.Future[Message]:
        """Return a future of this node's response to a Raft request of another node."""
        if self._failure is not None:
            raise self._failure
        response: asyncio.Future[Message] = self._loop.create_future()
        self._enqueue(RequestReceived(response, request))
        return response

    # The run

    def _enqueue(self, event: Event) -> None:
        self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        if self._running is None and self._failure is None and not self._stopped:
            self._running = self._loop.create_task(self._run())

    async def _run(self) -> None:
        """Process events and commands and perform Readys until nothing is left to do."""
        try:
            while True:
                while self._events:
                    self._node.step(self._events.popleft(), self._monotonic_ms())
                if self.leads:
                    self._commands.decide(self._node, self.image)
                    self._commands.applied(self._metadata.next_offset)
                ready = self._node.ready()
                if ready is None:
                    break
                await self._performer.perform(ready)
                self._update_leadership()
            if not self._stopped:
                self._tick.schedule_at_ms(self._node.due_ms)
        except Exception as error:
            self._fail(error)
        finally:
            self._running = None

    def _monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _send(self, request: OutboundRequest) -> None:
        if self._channel is not None:
            self._channel.send(request)

    # Leadership

    def _update_leadership(self) -> None:
        """Compare the leadership with the last known one, and act on a change."""
        leader_id, epoch, epoch_start = self._node.leader_id, self._node.epoch, self._node.epoch_start
        leads = epoch_start is not None and self.applied_offset >= epoch_start
        if (leads, leader_id, epoch) == self._leadership:
            return
        if self.leads and not leads:
            self._commands.fail(not_controller())
        began = leads and not self.leads
        self._set_leadership(leads, leader_id, epoch)
        if began and self._metadata.in_transaction:
            self._submit_without_caller(_abort_transaction)
        if began and not self.is_only_voter:
            self._submit_without_caller(self._bootstrap)

    def _submit_without_caller(self, command: Command[None]) -> None:
        """Submit a command without a waiter: if this leader fails, the next one submits its own."""
        future = self._commands.submit(command)
        future.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._wake()

    def _bootstrap(self, image: MetadataImage) -> ControllerResult[None]:
        return bootstrap(image, self._log.bootstrap_records(), self._settings)

    def _set_leadership(self, leads: bool, leader_id: int, epoch: int) -> None:
        self._leadership = (leads, leader_id, epoch)
        changed, self._leader_change = self._leader_change, self._loop.create_future()
        changed.set_result(None)

    def _applied_all(self) -> None:
        self._update_leadership()
        voters = self._node.snapshot_voters(self._metadata.next_offset)
        if not self._metadata.in_transaction:
            self._snapshots.take_if_due(self._log, self.image, voters, self._performer.appended_ms)
        if self._commands:
            self._wake()

    def _fail(self, error: Exception) -> None:
        self._failure = failure = InvariantError(f"the controller failed: {error}")
        failure.__cause__ = error
        self._commands.fail(failure)
        self._metadata.fail(failure)
        self._set_leadership(False, NO_NODE, self.epoch)
        self._loop.call_exception_handler({"message": "The controller failed", "exception": failure})


def _abort_transaction(_image: MetadataImage) -> ControllerResult[None]:
    """Abort the metadata transaction that an earlier leader left open."""
    return ControllerResult((AbortTransactionRecord(reason="the controller that began it lost the leadership"),), None)
