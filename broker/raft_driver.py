"""The controller at work: performs what `RaftNode` asks for, decides commands, tells everybody what was committed.

Commands wait in one queue. While a sync is under way more of them arrive; they are then decided one after the other,
each on the image that those before it lead to, and become durable with one sync together. A command's caller goes on
when its records are committed, applied and have been told to every subscriber, in that order; whoever reads `image`
after it sees them. A node that does not lead decides nothing.

Commands for whose records the disk has no space are refused with KAFKA_STORAGE_ERROR, and those after them decided on
what was before. If the metadata log cannot be written otherwise, or a subscriber fails, this broker can no longer say
what the cluster is: the loop's exception handler is told, which stops the broker, and no command is taken any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from broker.metadata_log import MetadataLog, Retention
from broker.sync_threads import sync_in_thread
from controller.commands.bootstrap import bootstrap
from controller.commands.decision import Command, Decision
from controller.image import MetadataImage
from controller.image_builder import ImageBuilder, apply_records
from controller.raft import Entry, Quorum, RaftNode
from controller.snapshot import SnapshotId, encode_snapshot, image_records
from controller.topic_names import CLUSTER_METADATA
from controller.voters import Voter, VoterSet
from protocol.api import FEATURES, KRAFT_VERSION
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from protocol.schema import Message
from storage.disk import out_of_space
from storage.log_config import LogConfig

if TYPE_CHECKING:
    from controller.configs.effective import StaticSettings
    from storage.disk import Disk
    from storage.flush import Flush
    from storage.log_directory import LogDirectory

R = TypeVar("R")

# Told of each committed batch: the image before, the image after, and the records between them. What takes long comes
# back as steps, which are taken a few at a time while the loop serves clients in between.
Subscriber: TypeAlias = Callable[[MetadataImage, MetadataImage, tuple[Message, ...]], Iterable[None] | None]

# How long the steps of a subscriber may hold the loop at once.
_SLICE_S = 0.01


_log = logging.getLogger("broker.controller")


class _Decided(NamedTuple):
    """A command whose records, if it has any, are proposed, and the image that they lead to."""

    records: tuple[Message, ...]
    image: MetadataImage
    response: Any
    answer: asyncio.Future[Any]


class _NoSpaceError(KafkaError):
    """The metadata log is full; nothing of what was proposed is in it."""


class RaftDriver:
    """The controller of this node; `image` is what is committed."""

    _log: MetadataLog
    _node: RaftNode

    def __init__(
        self,
        disk: Disk,
        directory: LogDirectory,
        settings: StaticSettings,
        *,
        cluster_id: str,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
    ) -> None:
        """Keep the metadata in `directory`, which is open and formatted."""
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._loop = loop
        self._now_ms = now_ms
        self._subscribers: list[Subscriber] = []
        self._queue: deque[tuple[Command[Any], asyncio.Future[Any]]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._snapshotter: asyncio.Task[None] | None = None
        self._snapshot_ms = self._appended_ms = now_ms()
        self._failure: InvariantError | None = None
        self._voters = VoterSet([Voter(settings.node_id, directory.directory_id)])
        self._kraft_version = 0
        self.image = MetadataImage(cluster_id=cluster_id)
        # What `read` has found.
        self._stored: MetadataImage | None = None
        # What commands are decided on: the image with everything that is proposed but not committed yet.
        self._pending = self.image

    def read(self) -> None:
        """Read what is stored, before anything is written; a start does it first if nobody has.

        InvariantError if it cannot be read, or tells of what only a later version knows.
        """
        with self._metadata_errors():
            self._read()

    async def start(self) -> None:
        """Take the lead, and begin the cluster if this is its first start. InvariantError as `read`."""
        if self._stored is None:
            self.read()
        with self._metadata_errors():
            await self._take_over()

    @contextmanager
    def _metadata_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, KafkaError) as error:
            if isinstance(error, OSError):
                self._directory.fail(error)
            raise InvariantError(f"the metadata log in {self._directory.path} cannot be used: {error}") from error

    def _read(self) -> None:
        settings = self._settings
        static_voters = bool(settings["controller.quorum.voters"])
        config = LogConfig(
            cleanup_policy=frozenset(),
            segment_bytes=settings["metadata.log.segment.bytes"],
            segment_ms=settings["metadata.log.segment.ms"],
            file_delete_delay_ms=0,
        )
        self._log = log = MetadataLog.open(
            self._disk,
            self._directory,
            None if static_voters else self._voters,
            config=config,
            now_ms=self._now_ms(),
        )
        if log.cut_bytes:
            cut = "Cut %d bytes that were no whole batches off the metadata log in %s: it ends at offset %d now"
            _log.warning(cut, log.cut_bytes, self._directory.path, log.end_offset)
        builder = ImageBuilder(self.image)
        voters_in_log = self._load(builder)
        stored = builder.build(offset=log.end_offset - 1, epoch=log.end_epoch)
        self._check_features(stored)
        snapshot = log.newest_snapshot
        self._node = RaftNode(
            settings.node_id,
            self._voters,
            log.read_quorum_state(),
            kraft_version=self._kraft_version,
            end_offset=log.end_offset,
            end_epoch=log.end_epoch,
            high_watermark=snapshot.end_offset if snapshot else 0,
            voters_in_log=voters_in_log,
        )
        log.bootstrap_records()  # are asked for at the end of the first start, and must be right by now
        self._stored = stored

    def _check_features(self, image: MetadataImage) -> None:
        """Raise InvariantError if the cluster has a feature that is unknown here, or at a level beyond."""
        for name, level in {**image.features, KRAFT_VERSION: self._kraft_version}.items():
            known = FEATURES.get(name)
            # Features whose protocols are not built are left to their clients to find out.
            if level and (known is None or (level > known.max_level > 0)):
                limit = "unknown here" if known is None else f"known up to {known.max_level} here"
                raise InvariantError(
                    f"the metadata in {self._directory.path}/{CLUSTER_METADATA}-0 has {name}={level}, which is {limit}:"
                    " it is of a later version; start the broker that wrote it, or choose another directory"
                )

    async def _take_over(self) -> None:
        log = self._log
        self._node.campaign()
        await self._perform()
        read = ImageBuilder(self._stored or self.image)
        self.image = self._pending = read.build(offset=log.end_offset - 1, epoch=self._node.epoch)
        await self.submit(lambda image: bootstrap(image, log.bootstrap_records()))

    def _load(self, builder: ImageBuilder) -> bool:
        """Replay snapshot and log; tell whether the log, or a snapshot of it, has the voters."""
        log, offset, voters_in_log = self._log, 0, False
        newest = log.newest_snapshot
        if newest is not None:
            snapshot = log.read_snapshot(newest)
            self._kraft_version = snapshot.kraft_version
            self._voters = snapshot.voters or self._voters
            offset = newest.end_offset
            voters_in_log = offset > 0
            for record in snapshot.records:
                builder.replay(record)
        for entry in log.read_entries(offset):
            for record in entry.records:
                if isinstance(record, KRaftVersionRecord):
                    self._kraft_version = record.kraft_version
                elif isinstance(record, VotersRecord):
                    self._voters = VoterSet.from_record(record)
                    voters_in_log = True
                elif not isinstance(record, LeaderChangeMessage):
                    builder.replay(record)
        return voters_in_log

    @property
    def is_only_voter(self) -> bool:
        """Say whether this node is the whole quorum."""
        return len(self._voters.by_id) == 1

    @property
    def kraft_version(self) -> int:
        """Return the level of the feature by which the quorum's voters can change."""
        return self._kraft_version

    def quorum(self) -> Quorum:
        """Return what this node, as the leader, knows of the quorum; KafkaError if another leads."""
        return self._node.quorum()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell `subscriber` of every batch that is committed from now on."""
        self._subscribers.append(subscriber)

    async def submit(self, command: Command[R], timeout_ms: int | None = None) -> R:
        """Decide a command; return its response once its records are durable, applied and told.

        KafkaError if the command raises it, if this node does not lead, or with REQUEST_TIMED_OUT. Once called, the
        command is decided even if nobody waits for it any more.
        """
        if self._failure is not None:
            raise self._failure
        answer: asyncio.Future[R] = self._loop.create_future()
        self._queue.append((command, answer))
        if self._writer is None:
            self._writer = self._loop.create_task(self._write())
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await answer
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The controller is still busy.") from None

    async def stop(self) -> None:
        """Finish what is under way and close the log."""
        while tasks := [task for task in (self._writer, self._snapshotter) if task is not None]:
            await asyncio.wait(tasks)
        if self._failure is None:
            self._log.close(self._now_ms())

    async def _write(self) -> None:
        """Decide, store and tell until no command is left."""
        decided: list[_Decided] = []
        try:
            while self._queue:
                decided = []
                self._decide_queued(decided)
                try:
                    await self._perform()
                except _NoSpaceError as error:
                    self._refuse(decided, error)
                    continue
                for command in decided:
                    await self._tell(command)
            self._take_snapshot_if_due()
        except Exception as error:
            self._fail(error, [command.answer for command in decided])
        finally:
            self._writer = None

    def _decide_queued(self, decided: list[_Decided]) -> None:
        while self._queue:
            command, answer = self._queue.popleft()
            try:
                decision: Decision[Any] = command(self._pending)
                if decision.records:
                    # First of all: what cannot be applied must never be in the log.
                    last_offset = self._node.end_offset + len(decision.records) - 1
                    image = apply_records(self._pending, decision.records, offset=last_offset, epoch=self._node.epoch)
                    self._node.propose(decision.records)
                    self._pending = image
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
                continue
            decided.append(_Decided(decision.records, self._pending, decision.response, answer))

    async def _perform(self) -> None:
        """Do what the node asks for until it asks for nothing: store its state, then append and sync its entries."""
        while (ready := self._node.ready()) is not None:
            if ready.quorum_state is not None:
                await self._loop.run_in_executor(
                    None, self._log.write_quorum_state, ready.quorum_state, self._voters, self._kraft_version
                )
            if ready.entries:
                self._appended_ms = self._now_ms()
                flush = self._append(ready.entries)
                if flush is not None:
                    await sync_in_thread(self._loop, [flush])
                    flush.finish()
            self._log.committed(ready.high_watermark)
            self._node.advance(ready)

    def _append(self, entries: Sequence[Entry]) -> Flush | None:
        refused_writes = self._directory.refused_writes
        end_offset = self._log.end_offset
        try:
            return self._log.append(entries, self._appended_ms)
        except KafkaError as error:
            full = self._directory.refused_writes > refused_writes and self._directory.failure is None
            if full and self._log.end_offset == end_offset and self._node.withdraw(entries):
                raise _NoSpaceError(error.code, error.message) from error
            raise

    def _refuse(self, decided: list[_Decided], error: _NoSpaceError) -> None:
        """Answer commands with `error`, also those without records: they were decided on what never came to be."""
        self._pending = self.image
        for command in decided:
            if not command.answer.done():
                command.answer.set_exception(error)

    async def _tell(self, command: _Decided) -> None:
        if command.records:
            before, self.image = self.image, command.image
            for subscriber in self._subscribers:
                slice_ends = self._loop.time() + _SLICE_S
                for _ in subscriber(before, command.image, command.records) or ():
                    if self._loop.time() >= slice_ends:
                        await asyncio.sleep(0)
                        slice_ends = self._loop.time() + _SLICE_S
        if not command.answer.done():
            command.answer.set_result(command.response)

    def _fail(self, error: Exception, answers: list[asyncio.Future[Any]]) -> None:
        self._failure = failure = InvariantError(f"the controller cannot go on: {error}")
        failure.__cause__ = error
        for answer in (*answers, *(answer for _, answer in self._queue)):
            if not answer.done():
                answer.set_exception(failure)
        self._queue.clear()
        self._loop.call_exception_handler({"message": "The controller failed", "exception": failure})

    def _take_snapshot_if_due(self) -> None:
        settings, log = self._settings, self._log
        newest = log.newest_snapshot
        if newest is not None and newest.end_offset > self.image.offset:
            return  # nothing is new
        interval_ms = settings["metadata.log.max.snapshot.interval.ms"]
        large = log.bytes_since_snapshot >= settings["metadata.log.max.record.bytes.between.snapshots"]
        old = 0 < interval_ms <= self._now_ms() - self._snapshot_ms
        if (large or old) and self._snapshotter is None:
            self._snapshotter = self._loop.create_task(self._take_snapshot(self.image))

    async def _take_snapshot(self, image: MetadataImage) -> None:
        """Store `image` as a snapshot, a few records a turn of the loop, and drop what it makes superfluous.

        A full disk costs this snapshot and nothing else: the log still has everything.
        """
        try:
            self._log.bytes_since_snapshot = 0
            self._snapshot_ms = now_ms = self._now_ms()
            snapshot = SnapshotId(image.offset + 1, image.epoch)
            data = bytearray()
            for batch in encode_snapshot(
                image_records(image),
                epoch=image.epoch,
                now_ms=now_ms,
                last_timestamp_ms=self._appended_ms,
                voters=self._voters if self._kraft_version > 0 else None,
            ):
                data += batch
                await asyncio.sleep(0)
            await self._loop.run_in_executor(None, self._log.write_snapshot, snapshot, bytes(data))
            retention = Retention(
                self._settings["metadata.max.retention.bytes"], self._settings["metadata.max.retention.ms"]
            )
            self._log.added_snapshot(snapshot, retention, now_ms)
        except Exception as error:
            if isinstance(error, OSError) and out_of_space(error):
                _log.warning("No snapshot of the metadata was taken: %s", error)
            else:
                self._fail(error, [])
        finally:
            self._snapshotter = None
