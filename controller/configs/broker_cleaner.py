"""The broker's configurations of compaction; what topics without settings of their own get is among them."""

from __future__ import annotations

from controller.configs.config_table import table

CLEANER_CONFIGS = table(
    """
    log.cleaner.backoff.ms LONG 15000 cluster-wide 0..
        How long the compactor rests when there is nothing to compact.
    log.cleaner.dedupe.buffer.size LONG 134217728 cluster-wide
        The memory for the keys that the compactor has seen.
    log.cleaner.delete.retention.ms LONG 86400000 cluster-wide 0..
        The delete.retention.ms of topics that set none.
    log.cleaner.enable BOOLEAN true read-only
        Whether anything is compacted.
    log.cleaner.io.buffer.load.factor DOUBLE 0.9 cluster-wide
        How full the compactor's memory of keys may get.
    log.cleaner.io.buffer.size INT 524288 cluster-wide 0..
        The memory for reading and writing of the compactor.
    log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 cluster-wide
        The bytes a second that the compactor reads and writes.
    log.cleaner.max.compaction.lag.ms LONG 9223372036854775807 cluster-wide 1..
        The max.compaction.lag.ms of topics that set none.
    log.cleaner.min.cleanable.ratio DOUBLE 0.5 cluster-wide 0..1
        The min.cleanable.dirty.ratio of topics that set none.
    log.cleaner.min.compaction.lag.ms LONG 0 cluster-wide 0..
        The min.compaction.lag.ms of topics that set none.
    """,
)
