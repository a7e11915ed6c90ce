"""Broker configs of the log cleaner, among them the defaults of topic configs."""

from __future__ import annotations

from controller.configs.config_table import table

CLEANER_CONFIGS = table(
    """
    log.cleaner.backoff.ms LONG 15000 cluster-wide 0..
        Wait before the cleaner checks the logs again, after it found none to clean.
    log.cleaner.dedupe.buffer.size LONG 134217728 cluster-wide
        Memory for the cleaner's offset map, in bytes.
    log.cleaner.delete.retention.ms LONG 86400000 cluster-wide 0..
        The delete.retention.ms of topics that set none.
    log.cleaner.enable BOOLEAN true read-only
        Whether compacted topics are cleaned.
    log.cleaner.io.buffer.load.factor DOUBLE 0.9 cluster-wide
        Maximum load factor of the cleaner's offset map.
    log.cleaner.io.buffer.size INT 524288 cluster-wide 0..
        Memory for the cleaner's reads and writes, in bytes.
    log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 cluster-wide
        Maximum rate of the cleaner's reads and writes, in bytes per second.
    log.cleaner.max.compaction.lag.ms LONG 9223372036854775807 cluster-wide 1..
        The max.compaction.lag.ms of topics that set none.
    log.cleaner.min.cleanable.ratio DOUBLE 0.5 cluster-wide 0..1
        The min.cleanable.dirty.ratio of topics that set none.
    log.cleaner.min.compaction.lag.ms LONG 0 cluster-wide 0..
        The min.compaction.lag.ms of topics that set none.
    """,
)
