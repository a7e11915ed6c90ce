"""The snapshot generator: decides when a snapshot of the metadata is due, and writes it (Kafka: `SnapshotGenerator`).

A snapshot is due after `metadata.log.max.record.bytes.between.snapshots` of log, and every
`metadata.log.max.snapshot.interval.ms` if there are new records. It is made from an applied image, so only from
committed records; encoded one batch per turn of the loop; and written in a thread. Then older snapshots beyond the
retention are deleted, and the log before the oldest remaining one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from broker.metadata.metadata_log import MetadataLog, Retention
from broker.runtime.cooperative import ONE_STEP, run_steps
from controller.raft.log import SnapshotId
from controller.snapshot import encode_snapshot, image_records
from protocol.errors import KafkaError
from storage.disk import out_of_files, out_of_space, reason

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from controller.configs.effective import StaticSettings
    from controller.image import MetadataImage
    from controller.raft.voters import VoterSet
    from storage.steps import Steps

_log = logging.getLogger("broker.controller")


class SnapshotGenerator:
    """Writes the snapshots of one metadata log, one at a time."""

    def __init__(
        self,
        settings: StaticSettings,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        now_ms: Callable[[], int],
        *,
        stored: Callable[[SnapshotId, int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Write none yet, and later in `executor`.

        `stored` is called with each new snapshot and the log start after it, `failed` with any error but a lack of
        space or file descriptors.
        """
        self._settings = settings
        self._loop = loop
        self._executor = executor
        self._now_ms = now_ms
        self._stored = stored
        self._failed = failed
        self._last_ms = now_ms()
        self._task: asyncio.Task[None] | None = None

    def take_if_due(
        self, log: MetadataLog, image: MetadataImage, voters: VoterSet | None, last_timestamp_ms: int
    ) -> None:
        """Start a snapshot of `image` if one is due and none is in progress; `voters` only if the log defines them."""
        newest = log.newest_snapshot
        if self._task is not None or (newest is not None and newest.end_offset > image.offset):
            return
        interval_ms = self._settings["metadata.log.max.snapshot.interval.ms"]
        large = log.bytes_since_snapshot >= self._settings["metadata.log.max.record.bytes.between.snapshots"]
        old = 0 < interval_ms <= self._now_ms() - self._last_ms
        if large or old:
            self._task = self._loop.create_task(self._take(log, image, voters, last_timestamp_ms))

    async def stop(self) -> None:
        """Wait for the snapshot in progress."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _take(
        self, log: MetadataLog, image: MetadataImage, voters: VoterSet | None, last_timestamp_ms: int
    ) -> None:
        """Write a snapshot. A full disk only costs this snapshot: the log still has everything."""
        try:
            log.bytes_since_snapshot = 0
            self._last_ms = now_ms = self._now_ms()
            snapshot = SnapshotId(image.offset + 1, image.epoch)
            batches = encode_snapshot(
                image_records(image),
                epoch=image.epoch,
                now_ms=now_ms,
                last_timestamp_ms=last_timestamp_ms,
                voters=voters,
            )
            await run_steps(_write(log, snapshot, batches), self._loop, ONE_STEP, executor=self._executor)
            retention = Retention(
                self._settings["metadata.max.retention.bytes"], self._settings["metadata.max.retention.ms"]
            )
            log.add_snapshot(snapshot, retention, now_ms)
            self._stored(snapshot, log.start_offset)
        except Exception as error:
            if _is_harmless(error, log):
                why = reason(error)
                _log.warning("Metadata snapshot failed: %s", why)
            else:
                self._failed(error)
        finally:
            self._task = None


def _write(log: MetadataLog, snapshot: SnapshotId, batches: Iterable[bytearray]) -> Steps[None]:
    """Encode the batches, one a step, and write the snapshot's file."""
    data = bytearray()
    for batch in batches:
        data += batch
        yield None
    yield partial(log.write_snapshot, snapshot, bytes(data))


def _is_harmless(error: Exception, log: MetadataLog) -> bool:
    """Return whether only this snapshot is lost: no space or no file descriptor, and the disk works."""
    if isinstance(error, OSError):
        return out_of_space(error) or out_of_files(error)
    return isinstance(error, KafkaError) and not log.failed
