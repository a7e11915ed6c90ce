"""Group commit for `barnabas.fsync=always`: many appended batches share one sync, off the event loop.

Theory of operation. A partition whose records count only once synced (`Partition.advance_high_watermark`) is queued
after each append. At the end of the loop's turn each idle thread, of `_WORKERS`, takes a share of the queued partitions
and syncs their logs one by one. Later appends wait for the next sync of their log, which covers all of them: the slower
the disk, the more records share a sync. When a worker is done, the high watermarks of its partitions advance, which
wakes the waiting operations.

    queued      no sync of this partition in flight     synced from the end of the turn on
                its sync is in flight                   synced again after that
                an earlier flush of its log is still    its sync counts, and ends, when that flush does
                in flight
    a failure   the log directory is offline from then on; waiting operations are woken, and return an error

A failed sync is never retried (`storage.log.flush`). `storage.log.log` decides what is synced, and counts the syncs of
a log in order; `Partition.committed` decides the response to a producer.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from broker.replication.partition import Partition
from broker.runtime.alarm import Alarm
from broker.runtime.executors import sync_in_thread, thread_pool
from protocol.errors import KafkaError
from storage.log.flush import Flush

_WORKERS = 4
_LOGS_A_JOB = 64  # logs per worker and turn, which bounds the open files; after a crash thousands may be queued
_RETRY_S = 1.0


class GroupCommit:
    """The syncs of all partitions with `barnabas.fsync=always`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int], on_synced: Callable[[Partition], None]
    ) -> None:
        """`on_synced` is called after each sync of a partition, successful or not."""
        self._loop = loop
        self._now_ms = now_ms
        self._on_synced = on_synced
        self._queued: dict[Partition, None] = {}
        self._in_flight: set[Partition] = set()
        self._idle_workers = _WORKERS
        self._threads = thread_pool("group-commit", _WORKERS)
        self._alarm = Alarm(loop, self._start_workers)
        self._drained: list[asyncio.Future[None]] = []
        self._stopped = False

    def schedule(self, partition: Partition) -> None:
        """Sync what the partition's log holds now, unless it has been deleted."""
        if partition.unavailable or self._stopped:
            return
        self._queued[partition] = None
        if self._idle_workers:
            self._alarm.schedule()

    async def drain(self) -> None:
        """Wait until no sync is queued or in flight."""
        while self._queued or self._in_flight:
            drained = self._loop.create_future()
            self._drained.append(drained)
            await drained

    async def stop(self) -> None:
        """Wait as `drain`, then end the threads; later appends are not synced here."""
        await self.drain()
        self._stopped = True
        self._threads.shutdown()

    def _start_workers(self) -> None:
        """Start the idle workers, each with an equal share of the queued partitions."""
        ready = [partition for partition in self._queued if partition not in self._in_flight]
        while ready and self._idle_workers:
            count = min(-(-len(ready) // self._idle_workers), _LOGS_A_JOB)
            self._start_worker(ready[:count])
            del ready[:count]

    def _start_worker(self, partitions: list[Partition]) -> None:
        now_ms = self._now_ms()
        begun: list[tuple[Partition, Flush]] = []
        for partition in partitions:
            del self._queued[partition]
            try:
                flush = partition.log.begin_flush(now_ms)
            except KafkaError:
                flush = None
                if not partition.log.offline:  # the disk is full, or no descriptors are left: temporary
                    self._loop.call_later(_RETRY_S, self.schedule, partition)
            if flush is None:
                self._on_synced(partition)
            else:
                begun.append((partition, flush))
                self._in_flight.add(partition)
        if begun:
            self._idle_workers -= 1
            synced = sync_in_thread(self._loop, [flush for _, flush in begun], self._threads)
            synced.add_done_callback(partial(self._worker_done, begun))
        else:
            self._notify_if_drained()

    def _worker_done(self, begun: list[tuple[Partition, Flush]], _: asyncio.Future[None]) -> None:
        self._idle_workers += 1
        for partition, flush in begun:
            with suppress(KafkaError):  # the directory failed, which is logged already
                flush.finish()
            if flush.completed:
                self._finish(partition, flush)
            else:  # an earlier flush of the log is still in flight
                flush.on_completed = partial(self._loop.call_soon, self._finish_later, partition, flush)
        self._start_queued()

    def _finish_later(self, partition: Partition, flush: Flush) -> None:
        self._finish(partition, flush)
        self._start_queued()

    def _finish(self, partition: Partition, flush: Flush) -> None:
        self._in_flight.discard(partition)
        if partition.log.recovery_point < flush.end_offset and not partition.log.offline:
            self.schedule(partition)  # the log was truncated meanwhile
        self._on_synced(partition)

    def _start_queued(self) -> None:
        if self._queued:
            self._alarm.run_now()
        self._notify_if_drained()

    def _notify_if_drained(self) -> None:
        if not self._queued and not self._in_flight:
            drained, self._drained = self._drained, []
            for waiting in drained:
                if not waiting.done():
                    waiting.set_result(None)
