"""The invariants of a data directory after a power cut or a failed call, and the exception that names a broken one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from protocol.errors import InvariantError, KafkaError
from simulation.violation import InvariantBroken
from storage.checkpoint import CheckpointError
from storage.log.corruption_checks import LogRefused


class Invariant(Enum):
    """The invariants; the values are the wording of `docs/SIMULATION.md`."""

    STARTS = "no start is refused"

    # Topic logs
    LOGS_OPEN = "every log that was synced opens"
    END_IS_THE_LAST_BATCHES = "the log end is that of the last batch"
    SYNCED_STAYS = "synced batches are there, unchanged"
    OFFSETS_ARE_ORDERED = "log start <= high watermark <= log end, batches in order"
    START_STAYS = "the log start survives the death of the process"
    BATCHES_WERE_WRITTEN = "the log holds what it held at some moment, and nothing else"
    BATCHES_ARE_WHOLE = "every batch has the CRC that its header names"
    COMPACTION_KEEPS_KEYS = "compaction keeps the last committed record of a key"
    OFFSET_INDEX = "the offset index is that of a scan"
    TIME_INDEX = "the time index is that of a scan, and monotone"
    READS = "a read returns the batches from its offset on"
    TIMESTAMP_LOOKUPS = "a look-up by timestamp finds what a scan finds"
    PRODUCER_STATE = "the producer state is that of a scan"
    PRODUCER_SNAPSHOTS = "producer snapshots are those of a scan, none past the log end"
    TRANSACTION_INDEX = "the transaction indexes are those of a scan"
    LEADER_EPOCHS = "the leader epochs are those of the batches"
    RECOVERY_IS_STABLE = "a second recovery changes no byte"

    # Metadata log
    ENTRIES_STAY = "the metadata log ends with an entry, no earlier than what was synced"
    ENTRIES_ARE_THE_SAME = "the metadata entries are those that were written"
    SNAPSHOTS_STAY = "the newest snapshot is no older than the last one that was synced"
    SNAPSHOTS_ARE_WHOLE = "a snapshot holds what was written to it, or has no name"
    SNAPSHOT_COVERS_THE_START = "a snapshot holds what is before the start of the metadata log"
    QUORUM_STATE_STAYS = "the stored vote and epoch are the last ones, and no older than the log"
    BOOTSTRAP_RECORDS_STAY = "the bootstrap records are there"

    # Failing disk calls
    NO_SYNC_AFTER_A_FAILED_ONE = "a sync that failed is not repeated"
    DIRECTORIES_GO_OFFLINE = "a directory is offline after a failed sync, and not for want of space"
    ACKNOWLEDGED_CAN_BE_READ = "acknowledged records can be read while the process lives"


class Broken(InvariantBroken):
    """An invariant that does not hold."""


class DiskNeeded(Exception):  # noqa: N818 - a state of affairs
    """An operation failed that succeeds on a working disk."""


@contextmanager
def start_not_refused() -> Iterator[None]:
    """Raise `Broken` with STARTS where the product refuses to open a directory; other exceptions pass."""
    try:
        yield
    except (CheckpointError, InvariantError, KafkaError, LogRefused) as error:
        raise Broken(Invariant.STARTS, f"{type(error).__name__}: {error}") from error
