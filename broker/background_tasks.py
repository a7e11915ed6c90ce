"""Background tasks of a broker: what runs periodically, at which interval, and in which part.

The scheduling and most of the log maintenance are `broker.log_dirs.maintenance`'s.
"""

from functools import partial

from broker.broker_server import BrokerServer
from broker.log_dirs import maintenance
from broker.log_dirs.maintenance import DiskSpaceMonitor, LogMaintenance
from broker.shared_server import SharedServer
from protocol.errors import InvariantError
from storage.disk import reason
from storage.log_directory import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS

_SPACE_INTERVAL_S = 1.0
_COMPACTION_INTERVAL_S = 1.0
_IDLE_INTERVAL_S = 10.0
_SLOW_INTERVAL_S = 1.0
_TOKEN_KEYS_INTERVAL_S = 1.0
_KEY_STORE_INTERVAL_S = 5.0


class BackgroundTasks:
    """The background tasks of a node."""

    def __init__(self, shared: SharedServer, broker: BrokerServer | None) -> None:
        """Start nothing before `begin`; `broker` is None on a node that is only a controller."""
        self._shared = shared
        self._broker = broker
        self._maintenance = LogMaintenance(shared.loop, shared.sleep)
        self._space = DiskSpaceMonitor(shared.logs)

    def begin(self) -> None:
        """Start all tasks, at the intervals of the start-up settings."""
        settings, every = self._shared.settings, self._maintenance.every
        first_s = settings["log.initial.task.delay.ms"] / 1000
        every(settings["log.retention.check.interval.ms"] / 1000, self._apply_retention, first_s=first_s)
        every(settings["producer.id.expiration.check.interval.ms"] / 1000, self._expire_producers)
        every(settings["offsets.retention.check.interval.ms"] / 1000, self._expire_offsets)
        every(settings["transaction.abort.timed.out.transaction.cleanup.interval.ms"] / 1000, self._abort_timed_out)
        every(
            settings["transaction.remove.expired.transaction.cleanup.interval.ms"] / 1000,
            self._expire_transactional_ids,
        )
        every(_SPACE_INTERVAL_S, self.check_disk_space)
        every(_IDLE_INTERVAL_S, self._close_idle_files)
        every(maintenance.sync_interval_s(settings["log.flush.scheduler.interval.ms"]), self._sync)
        for name, interval_ms in (
            (RECOVERY_POINTS, settings["log.flush.offset.checkpoint.interval.ms"]),
            (LOG_STARTS, settings["log.flush.start.offset.checkpoint.interval.ms"]),
            (HIGH_WATERMARKS, settings["replica.high.watermark.checkpoint.interval.ms"]),
        ):
            every(interval_ms / 1000, partial(self._checkpoint, name), first_s=first_s)
        if self._broker is not None and settings["log.cleaner.enable"]:
            every(_COMPACTION_INTERVAL_S, self._broker.log_cleaner.run_if_due)
        idle_s = settings["connections.max.idle.ms"] / 1000
        if idle_s > 0:
            every(min(idle_s / 10, _IDLE_INTERVAL_S), self._close_idle)
        if self._shared.security.has_tls:  # without files too: they can be set while the node runs
            every(_KEY_STORE_INTERVAL_S, self._shared.security.reload_if_changed)
        if self._shared.security.token_keys:
            every(_TOKEN_KEYS_INTERVAL_S, partial(self._shared.security.refresh_token_keys, self._shared.loop))
        if settings["queued.max.request.bytes"] > 0 or self._shared.security.has_sasl:
            every(_SLOW_INTERVAL_S, self._close_slow)

    async def stop(self) -> None:
        """Cancel all tasks, and wait for syncs in progress."""
        await self._maintenance.stop()

    async def check_disk_space(self) -> None:
        """Log directories that failed or are full, and resume replication when there is space again.

        Stop the broker if the metadata directory has failed, wherever that was detected.
        """
        shared, broker = self._shared, self._broker
        has_space = self._space.check(shared.timers.time())
        if broker is not None and has_space:
            broker.replicas.retry()
        failure = shared.metadata_directory.failure
        if failure is not None and shared.phase != "stopping":
            error = InvariantError(f"the metadata directory failed: {reason(failure)}")
            error.__cause__ = failure
            shared.loop.call_exception_handler({"message": "The metadata directory failed", "exception": error})
        if broker is not None and failure is None and shared.phase == "serving":
            await self._report_failed_directories(broker)
        if not has_space:
            # On a full disk, apply retention now instead of at the next log.retention.check.interval.ms.
            await self._apply_retention(only_full=True)
        await maintenance.delete_files(shared.logs, shared.now_ms())

    async def _report_failed_directories(self, broker: BrokerServer) -> None:
        """Send a heartbeat if directories failed that the controller has as online."""
        node = broker.image.brokers.get(broker.node_id)
        failed = {directory.directory_id for directory in broker.logs.directories if directory.failure is not None}
        if node is not None and failed.intersection(node.directories):
            await broker.lifecycle.send_and_wait()

    async def _apply_retention(self, *, only_full: bool = False) -> None:
        shared = self._shared
        await maintenance.apply_retention(shared.logs, shared.now_ms(), only_full=only_full)
        if self._broker is not None:
            self._broker.replicas.check_log_starts()

    async def _sync(self) -> None:
        shared = self._shared
        await maintenance.sync(shared.logs, shared.loop, shared.now_ms())

    async def _expire_producers(self) -> None:
        shared = self._shared
        await maintenance.expire_producers(
            shared.logs, shared.now_ms(), shared.dynamic_config["producer.id.expiration.ms"]
        )

    async def _expire_offsets(self) -> None:
        if self._broker is not None and self._broker.group_coordinator is not None:
            await self._broker.group_coordinator.expire()

    async def _abort_timed_out(self) -> None:
        if self._broker is not None and self._broker.transaction_coordinator is not None:
            await self._broker.transaction_coordinator.abort_timed_out()

    async def _expire_transactional_ids(self) -> None:
        if self._broker is not None and self._broker.transaction_coordinator is not None:
            await self._broker.transaction_coordinator.expire()

    async def _checkpoint(self, name: str) -> None:
        self._shared.logs.checkpoint(name)
        maintenance.report_problems(self._shared.logs)

    async def _close_idle(self) -> None:
        self._shared.server.close_idle()

    async def _close_idle_files(self) -> None:
        self._shared.disk.open_files.sweep()

    async def _close_slow(self) -> None:
        self._shared.server.close_slow()
