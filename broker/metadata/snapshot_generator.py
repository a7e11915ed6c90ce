"""Snapshots of the metadata: when one is due, and how it is taken while the node goes on.

One is due after `metadata.log.max.record.bytes.between.snapshots` of log, and every
`metadata.log.max.snapshot.interval.ms` if there is something new. It is made of an image that is applied, so of
nothing that could be taken back; encoded a few records a turn of the loop; and written in a thread. What it makes
superfluous is dropped: older snapshots beyond their retention, and the log before the oldest that is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.metadata.metadata_log import MetadataLog, Retention
from controller.raft.log import SnapshotId
from controller.snapshot import encode_snapshot, image_records
from protocol.errors import KafkaError
from storage.disk import out_of_files, out_of_space, reason

if TYPE_CHECKING:
    from controller.configs.effective import StaticSettings
    from controller.image import MetadataImage
    from controller.raft.voters import VoterSet

_log = logging.getLogger("broker.controller")


class MetadataSnapshots:
    """Takes the snapshots of one node's metadata log, one at a time."""

    def __init__(
        self,
        settings: StaticSettings,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        *,
        stored: Callable[[SnapshotId, int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Take none yet.

        `stored` is told of each new snapshot and of where the log begins by then, `failed` what went wrong other than
        that there is no room for one.
        """
        self._settings = settings
        self._loop = loop
        self._now_ms = now_ms
        self._stored = stored
        self._failed = failed
        self._last_ms = now_ms()
        self._task: asyncio.Task[None] | None = None

    def take_if_due(
        self, log: MetadataLog, image: MetadataImage, voters: VoterSet | None, last_timestamp_ms: int
    ) -> None:
        """Begin a snapshot of `image` if one is due and none is being taken; `voters` if they are kept in the log."""
        newest = log.newest_snapshot
        if self._task is not None or (newest is not None and newest.end_offset > image.offset):
            return
        interval_ms = self._settings["metadata.log.max.snapshot.interval.ms"]
        large = log.bytes_since_snapshot >= self._settings["metadata.log.max.record.bytes.between.snapshots"]
        old = 0 < interval_ms <= self._now_ms() - self._last_ms
        if large or old:
            self._task = self._loop.create_task(self._take(log, image, voters, last_timestamp_ms))

    async def stop(self) -> None:
        """Wait for the one that is being taken."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _take(
        self, log: MetadataLog, image: MetadataImage, voters: VoterSet | None, last_timestamp_ms: int
    ) -> None:
        """Take one; a full disk costs it and nothing else: the log still has everything."""
        try:
            log.bytes_since_snapshot = 0
            self._last_ms = now_ms = self._now_ms()
            snapshot = SnapshotId(image.offset + 1, image.epoch)
            data = bytearray()
            for batch in encode_snapshot(
                image_records(image),
                epoch=image.epoch,
                now_ms=now_ms,
                last_timestamp_ms=last_timestamp_ms,
                voters=voters,
            ):
                data += batch
                await asyncio.sleep(0)
            await self._loop.run_in_executor(None, log.write_snapshot, snapshot, bytes(data))
            retention = Retention(
                self._settings["metadata.max.retention.bytes"], self._settings["metadata.max.retention.ms"]
            )
            log.added_snapshot(snapshot, retention, now_ms)
            self._stored(snapshot, log.start_offset)
        except Exception as error:
            if _is_harmless(error, log):
                why = reason(error)
                _log.warning("No snapshot of the metadata was taken: %s", why)
            else:
                self._failed(error)
        finally:
            self._task = None


def _is_harmless(error: Exception, log: MetadataLog) -> bool:
    """Say whether only this snapshot is lost: there was no space or no descriptor for it, and the disk works."""
    if isinstance(error, OSError):
        return out_of_space(error) or out_of_files(error)
    return isinstance(error, KafkaError) and not log.failed
