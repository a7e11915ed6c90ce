"""The metadata loader: applies committed entries to the image and publishes each change (Kafka: `MetadataLoader`).

Entries are kept when they are appended to the log, and applied in order when they are committed. Each produces a new
image. Every subscriber (Kafka: `MetadataPublisher`) gets the image before, the image after and the records between
them; only then are waiters (`until_applied`) and commands completed.

The metadata found at start-up is loaded in one step, without a publication. A snapshot received from the leader, to
which this node was reset because it was far behind, is published as one large change.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from broker.metadata.controller_event_queue import ControllerEventQueue
from broker.metadata.metadata_log import MetadataLog
from broker.metadata.metadata_recovery import RecoveredMetadata, recover_metadata
from broker.runtime.cooperative import Turn, run_steps
from controller.batches import is_control
from controller.image import MetadataImage
from controller.image_builder import ImageBuilder, apply_records
from controller.image_delta import difference
from controller.metadata_transaction import MetadataTransaction
from controller.raft.log import Entry, SnapshotId
from controller.snapshot import RECORDS_A_STEP
from protocol.schema import Message
from storage.steps import Steps

# A subscriber with much to do returns an iterator of steps, which run in slices between turns of the loop.
Subscriber: TypeAlias = Callable[[MetadataImage, MetadataImage, tuple[Message, ...]], Iterable[None] | None]

_SUBSCRIBERS_TURN = Turn(seconds=0.005)


class MetadataLoader:
    """The metadata of this node; `image` is what is committed and applied."""

    def __init__(
        self,
        cluster_id: str,
        commands: ControllerEventQueue,
        loop: asyncio.AbstractEventLoop,
        *,
        applied: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Start empty.

        `applied` is called when everything that is committed is applied, `failed` when an entry cannot be applied.
        """
        self.image = MetadataImage(cluster_id=cluster_id)
        self.next_offset = 0
        """The offset after the last applied record."""
        self._empty = self.image
        self._commands = commands
        self._loop = loop
        self._all_applied = applied
        self._failed = failed
        self._log: MetadataLog
        self._recovered: RecoveredMetadata | None = None
        self._transaction = MetadataTransaction()
        self._appended: deque[Entry] = deque()
        self._subscribers: list[Subscriber] = []
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._failure: Exception | None = None

    def begin(self, log: MetadataLog, recovered: RecoveredMetadata) -> None:
        """Start from the metadata found at start-up; of the log, only its snapshot is known to be committed."""
        self._log = log
        self._recovered = recovered

    @property
    def in_transaction(self) -> bool:
        """Return whether a metadata transaction is open; its records are applied when it ends."""
        return self._transaction.is_open

    def subscribe(self, subscriber: Subscriber) -> None:
        """Publish each later change to `subscriber`."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Stop publishing to `subscriber`."""
        # A new list: `_apply` may be iterating over the old one.
        self._subscribers = [one for one in self._subscribers if one is not subscriber]

    def appended(self, entries: Sequence[Entry]) -> None:
        """Keep entries that were appended to the log, until they are applied."""
        self._appended.extend(entries)

    def truncate(self, end_offset: int) -> None:
        """Drop the entries from `end_offset` on, which were truncated from the log."""
        while self._appended and self._appended[-1].next_offset > end_offset:
            self._appended.pop()
        if self._recovered is not None and self._recovered.image.offset >= end_offset:
            self._recovered = recover_metadata(self._log, self._empty)

    def apply_committed(self) -> None:
        """Start applying the entries below the log's high watermark, which has moved, in a task of its own."""
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def reset_to_snapshot(self, snapshot: SnapshotId, records: Sequence[Message]) -> None:
        """Reset to `snapshot` with its `records`; the log now starts at its end.

        The snapshot may be of any size, so everything is done in slices. Nothing may be appended to the log meanwhile.
        """
        await self.finish()
        self._appended.clear()
        self._recovered = None
        self._transaction = MetadataTransaction()
        image = await run_steps(_image_of(records, self._empty, snapshot), self._loop)
        changes = await run_steps(_changes(self.image, image), self._loop)
        await self._apply(image, changes, snapshot.end_offset)

    async def until_applied(self, offset: int) -> None:
        """Wait until the record at `offset` was published to every subscriber; raise the error if the loader failed."""
        if self._failure is not None:
            raise self._failure
        if offset >= self.next_offset:
            applied = self._loop.create_future()
            self._waiting.append((offset, applied))
            await applied

    def fail(self, error: Exception) -> None:
        """Fail all waiters with `error`; nothing is applied after this."""
        self._failure = error
        for _, applied in self._waiting:
            if not applied.done():
                applied.set_exception(error)

    async def finish(self) -> None:
        """Wait until everything that is committed is applied."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            self._load_recovered()
            while (entry := self._next()) is not None:
                records = () if is_control(entry.records[0]) else self._transaction.replay(entry.records)
                image = self._commands.image_after(entry.next_offset) or apply_records(
                    self.image, records, offset=entry.next_offset - 1, epoch=entry.epoch
                )
                await self._apply(image, records, entry.next_offset)
            self._all_applied()
        except Exception as error:
            self._failed(error)
        finally:
            self._task = None

    def _load_recovered(self) -> None:
        """Load the metadata found at start-up up to the committed end, without publishing it."""
        recovered, self._recovered = self._recovered, None
        if recovered is None:
            return
        if recovered.image.offset >= self._log.high_watermark:
            recovered = recover_metadata(self._log, self._empty, self._log.high_watermark)
        self.image, self._transaction = recovered.image, recovered.transaction
        self._notify_applied(recovered.image.offset + 1)

    def _next(self) -> Entry | None:
        """Return the next entry that is committed and not applied; None if there is none."""
        if self.next_offset >= self._log.high_watermark:
            return None
        while self._appended and self._appended[0].base_offset < self.next_offset:
            self._appended.popleft()
        if self._appended and self._appended[0].base_offset == self.next_offset:
            return self._appended.popleft()
        return next(self._log.read_entries(self.next_offset))

    async def _apply(self, image: MetadataImage, records: tuple[Message, ...], next_offset: int) -> None:
        before, self.image = self.image, image
        if records:
            await run_steps(self._publish(before, records), self._loop, _SUBSCRIBERS_TURN)
        self._notify_applied(next_offset)
        self._commands.applied(next_offset)

    def _publish(self, before: MetadataImage, records: tuple[Message, ...]) -> Steps[None]:
        for subscriber in self._subscribers:
            yield from subscriber(before, self.image, records) or ()

    def _notify_applied(self, next_offset: int) -> None:
        self.next_offset = next_offset
        waiting, self._waiting = self._waiting, []
        for offset, applied in waiting:
            if offset >= next_offset:
                self._waiting.append((offset, applied))
            elif not applied.done():
                applied.set_result(None)


def _image_of(records: Sequence[Message], empty: MetadataImage, snapshot: SnapshotId) -> Steps[MetadataImage]:
    """Return the image of `snapshot`: its `records` replayed onto `empty`."""
    builder = ImageBuilder(empty)
    for number, record in enumerate(records, 1):
        builder.replay(record)
        if number % RECORDS_A_STEP == 0:
            yield None
    return builder.build(offset=snapshot.end_offset - 1, epoch=snapshot.epoch)


def _changes(before: MetadataImage, after: MetadataImage) -> Steps[tuple[Message, ...]]:
    """Return the records that lead from one image to the other."""
    records: list[Message] = []
    for record in difference(before, after):
        records.append(record)
        if len(records) % RECORDS_A_STEP == 0:
            yield None
    return tuple(records)
