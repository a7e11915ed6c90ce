"""From committed entries of the metadata log to the image, and to everybody who acts on it.

Entries are noted when they enter the log, and applied, one after the other, when they are committed. Each makes a new
image; every subscriber is told of the image before, the image after, and the records between them, and only then do
those go on who wait for it, commands with their answers among them. What a start finds in the log is taken over at
once, and a snapshot of the leader, which this node goes on from when it had fallen far behind, as one large change.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from broker.metadata.metadata_recovery import StoredMetadata, read_stored
from broker.runtime.cooperative import in_slices
from controller.batches import is_control
from controller.image import MetadataImage
from controller.image_builder import ImageBuilder, apply_records
from controller.image_delta import difference
from controller.metadata_transaction import MetadataTransaction
from controller.raft.log import SnapshotId
from controller.snapshot import RECORDS_A_STEP
from protocol.schema import Message

if TYPE_CHECKING:
    from broker.metadata.controller_event_queue import CommandQueue
    from broker.metadata.metadata_log import MetadataLog
    from controller.raft.log import Entry
    from storage.steps import Search

# What takes long comes back as steps, which are taken a few at a time while the loop serves clients in between.
Subscriber: TypeAlias = Callable[[MetadataImage, MetadataImage, tuple[Message, ...]], Iterable[None] | None]

# How long the steps of a subscriber may hold the loop at once.
_SLICE_S = 0.005


class MetadataApplier:
    """The metadata as this node knows it; `image` is what is committed and applied."""

    def __init__(
        self,
        cluster_id: str,
        commands: CommandQueue,
        loop: asyncio.AbstractEventLoop,
        *,
        applied: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Know nothing; `applied` is called when all that is committed is applied, `failed` if that cannot be done."""
        self.image = MetadataImage(cluster_id=cluster_id)
        self.next_offset = 0
        """The offset after the last record that is applied."""
        self._empty = self.image
        self._commands = commands
        self._loop = loop
        self._done = applied
        self._failed = failed
        self._log: MetadataLog
        self._stored: StoredMetadata | None = None
        self._transaction = MetadataTransaction()
        self._recent: deque[Entry] = deque()
        self.committed_end = 0
        """The offset after the last record that is known to be committed."""
        self._subscribers: list[Subscriber] = []
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._failure: Exception | None = None

    def begin(self, log: MetadataLog, stored: StoredMetadata) -> None:
        """Begin with what a start found in the log; nothing but its snapshot is known to be committed."""
        self._log = log
        self._stored = stored
        self.committed_end = log.newest_snapshot.end_offset if log.newest_snapshot else 0

    @property
    def in_transaction(self) -> bool:
        """Return whether a metadata transaction is open: its records are applied when it ends."""
        return self._transaction.is_open

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell `subscriber` of every batch that is applied from now on."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Do not call `subscriber` for later batches."""
        # A new list: a batch may be on its way through the old one.
        self._subscribers = [one for one in self._subscribers if one is not subscriber]

    def note(self, entries: Sequence[Entry]) -> None:
        """Keep what was appended to the log, until it is committed."""
        self._recent.extend(entries)

    def truncate(self, end_offset: int) -> None:
        """Forget what was cut off the log."""
        while self._recent and self._recent[-1].next_offset > end_offset:
            self._recent.pop()
        if self._stored is not None and self._stored.image.offset >= end_offset:
            self._stored = read_stored(self._log, self._empty)

    def committed(self, high_watermark: int) -> None:
        """Apply what is below the high watermark, beside the caller."""
        if high_watermark > self.committed_end:
            self.committed_end = high_watermark
            if self._task is None:
                self._task = self._loop.create_task(self._run())

    async def begin_behind(self, snapshot: SnapshotId, records: Sequence[Message]) -> None:
        """Go on from a snapshot that the log begins behind by now, and that holds `records`.

        It may be of any size, so all of it is done in slices. Nothing is appended to the log meanwhile.
        """
        await self.finish()
        self._recent.clear()
        self._stored = None
        self._transaction = MetadataTransaction()
        image = await in_slices(_image_of(records, self._empty, snapshot), self._loop)
        self.committed_end = snapshot.end_offset
        changes = await in_slices(_changes(self.image, image), self._loop)
        await self._take(image, changes, snapshot.end_offset)

    async def until_applied(self, offset: int) -> None:
        """Wait until everybody was told of the record at `offset`; raise why, if that will never be."""
        if self._failure is not None:
            raise self._failure
        if offset >= self.next_offset:
            applied = self._loop.create_future()
            self._waiting.append((offset, applied))
            await applied

    def fail(self, error: Exception) -> None:
        """Have nobody wait any more: nothing is applied after this."""
        self._failure = error
        for _, applied in self._waiting:
            if not applied.done():
                applied.set_exception(error)

    async def finish(self) -> None:
        """Wait until what is committed is applied."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            self._take_stored()
            while (entry := self._next()) is not None:
                records = () if is_control(entry.records[0]) else self._transaction.take(entry.records)
                image = self._commands.image_after(entry.next_offset) or apply_records(
                    self.image, records, offset=entry.next_offset - 1, epoch=entry.epoch
                )
                await self._take(image, records, entry.next_offset)
            self._done()
        except Exception as error:
            self._failed(error)
        finally:
            self._task = None

    def _take_stored(self) -> None:
        """Take over what a start has found, as far as it is committed, without telling anybody."""
        stored, self._stored = self._stored, None
        if stored is None:
            return
        if stored.image.offset >= self.committed_end:
            stored = read_stored(self._log, self._empty, self.committed_end)
        self.image, self._transaction = stored.image, stored.transaction
        self._applied(stored.image.offset + 1)

    def _next(self) -> Entry | None:
        """Return the next entry that is committed and not applied; None if there is none."""
        if self.next_offset >= self.committed_end:
            return None
        while self._recent and self._recent[0].base_offset < self.next_offset:
            self._recent.popleft()
        if self._recent and self._recent[0].base_offset == self.next_offset:
            return self._recent.popleft()
        return next(self._log.read_entries(self.next_offset))

    async def _take(self, image: MetadataImage, records: tuple[Message, ...], next_offset: int) -> None:
        before, self.image = self.image, image
        for subscriber in self._subscribers if records else ():
            slice_ends = self._loop.time() + _SLICE_S
            for _ in subscriber(before, image, records) or ():
                if self._loop.time() >= slice_ends:
                    await asyncio.sleep(0)
                    slice_ends = self._loop.time() + _SLICE_S
        self._applied(next_offset)
        self._commands.applied(next_offset)

    def _applied(self, next_offset: int) -> None:
        self.next_offset = next_offset
        waiting, self._waiting = self._waiting, []
        for offset, applied in waiting:
            if offset >= next_offset:
                self._waiting.append((offset, applied))
            elif not applied.done():
                applied.set_result(None)


def _image_of(records: Sequence[Message], empty: MetadataImage, snapshot: SnapshotId) -> Search[MetadataImage]:
    """Return the image that the records of `snapshot` make of `empty`."""
    builder = ImageBuilder(empty)
    for number, record in enumerate(records, 1):
        builder.replay(record)
        if number % RECORDS_A_STEP == 0:
            yield None
    return builder.build(offset=snapshot.end_offset - 1, epoch=snapshot.epoch)


def _changes(before: MetadataImage, after: MetadataImage) -> Search[tuple[Message, ...]]:
    """Return the records between two images."""
    records: list[Message] = []
    for record in difference(before, after):
        records.append(record)
        if len(records) % RECORDS_A_STEP == 0:
            yield None
    return tuple(records)
