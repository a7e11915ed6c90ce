"""Planted bugs of one broker: they test whether the simulator finds them.

Each bug patches the product for one run; the product contains none of them. `BUGS` records the invariant and the seed
that find each bug; `python -m tests.simulation.find_bugs` searches for seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker.coordinator.group import shard
from broker.metadata import snapshot_generator
from broker.metadata.producer_id_manager import ProducerIdManager
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from controller.image import MetadataImage
from controller.snapshot import image_records
from protocol.records.metadata import ConfigRecord
from protocol.schema import Message
from simulation.violation import Invariant
from storage.checkpoint_files import CheckpointFiles
from storage.cleaner.batch_cleaner import BatchCleaner
from storage.cleaner.offset_map import REPLACED, OffsetMap
from storage.log import loader
from storage.log.flush import Flush
from storage.log.log import Log
from storage.log.log_validator import LogAppendInfo
from storage.log.producer_state import CLIENT, ProducerStateManager
from storage.log_directory import LOG_STARTS, LogDirectory
from storage.log_manager import LogManager
from tests.planting import Bug, Planter


def commits_unsynced_records(plant: Planter) -> None:
    """With `fsync=always`, the high watermark passes records that are not synced."""

    def advance(self: Partition) -> bool:
        before = self.log.high_watermark
        return self.log.update_high_watermark(self.log.log_end_offset) > before

    plant.setattr(Partition, "advance_high_watermark", advance)


def never_syncs_logs(plant: Planter) -> None:
    """No log is ever synced."""
    plant.setattr(Flush, "sync", lambda self: setattr(self, "error", None))


def ignores_producer_sequences(plant: Planter) -> None:
    """The sequences of producers are not checked."""
    plant.setattr(ProducerStateManager, "check", lambda self, header, origin=CLIENT: None)


def remembers_only_last_producer_batch(plant: Planter) -> None:
    """Only one batch per producer is remembered, not five."""
    check = ProducerStateManager.check

    def checked(self: ProducerStateManager, header: Any, *args: Any) -> Any:
        entry = self.producers.get(header.producer_id)
        while entry is not None and len(entry.batches) > 1:
            del entry.batches[0]
        return check(self, header, *args)

    plant.setattr(ProducerStateManager, "check", checked)


def accepts_any_fetch_session_epoch(plant: Planter) -> None:
    """A fetch session accepts every epoch."""
    opened = FetchSessions.open

    def open_session(self: FetchSessions, request: Any, *args: Any) -> Any:
        known = self._sessions.get(request.session_id)
        if known is not None and request.session_epoch > 0:
            request.session_epoch = known.epoch
        return opened(self, request, *args)

    plant.setattr(FetchSessions, "open", open_session)


def accepts_commits_of_any_generation(plant: Planter) -> None:
    """OffsetCommit does not check member and generation (rule 18)."""
    plant.setattr(shard, "_check_committer", lambda group, committed_by: None)


def does_not_store_log_start(plant: Planter) -> None:
    """The log start offset that DeleteRecords moved is not stored."""
    offsets = CheckpointFiles._offsets

    def without_log_starts(self: CheckpointFiles, directory: LogDirectory, name: str) -> Any:
        return {} if name == LOG_STARTS else offsets(self, directory, name)

    plant.setattr(CheckpointFiles, "_offsets", without_log_starts)


def skips_recovery_after_crash(plant: Planter) -> None:
    """Logs are not recovered after a crash."""
    opened = LogDirectory.open

    def open_directory(self: LogDirectory) -> None:
        opened(self)
        self.clean = True

    plant.setattr(LogDirectory, "open", open_directory)


def consumer_reads_past_high_watermark(plant: Planter) -> None:
    """A consumer reads up to the log end."""
    read = Log.read

    def read_all(self: Log, offset: int, max_bytes: int, *, limit_offset: int, min_one: bool = True) -> Any:
        return read(self, offset, max_bytes, limit_offset=max(limit_offset, self.log_end_offset), min_one=min_one)

    plant.setattr(Log, "read", read_all)


def assigns_duplicate_producer_ids(plant: Planter) -> None:
    """Every producer gets the same id."""

    async def next_id(self: ProducerIdManager) -> int:
        return 7

    plant.setattr(ProducerIdManager, "next", next_id)


def reuses_log_of_deleted_topic(plant: Planter) -> None:
    """The log of a deleted topic stays, and becomes the log of the next topic of that name."""

    def stays(self: LogManager, topic: str, partition: int) -> None:
        """Neither rename nor forget the log."""

    created = LogManager.create

    def create(self: LogManager, topic: str, topic_id: bytes, partition: int, *args: Any) -> Log:
        log = created(self, topic, topic_id, partition, *args)
        log.topic_id = topic_id
        return log

    plant.setattr(LogManager, "delete", stays)
    plant.setattr(LogManager, "create", create)
    create_partition = ReplicaManager._create_partition

    def hosted(self: ReplicaManager, image: Any, topic: Any, state: Any) -> Partition:
        log = self._logs.get(topic.name, state.partition)
        if log is not None:
            log.topic_id = topic.topic_id
        return create_partition(self, image, topic, state)

    plant.setattr(ReplicaManager, "_create_partition", hosted)


def answers_duplicates_with_log_end(plant: Planter) -> None:
    """A duplicate batch is answered with the log end offset, not with its own offset (rule 9)."""
    append = Log.append_as_leader

    def appended(self: Log, *args: Any) -> LogAppendInfo:
        info = append(self, *args)
        return info._replace(base_offset=self.log_end_offset) if info.duplicate else info

    plant.setattr(Log, "append_as_leader", appended)


def loses_producer_state_at_restart(plant: Planter) -> None:
    """Producer state is not recovered at start-up (rule 10)."""
    plant.setattr(loader, "recover_producers", lambda *_, **__: ProducerStateManager())


def list_offsets_skips_equal_timestamp(plant: Planter) -> None:
    """ListOffsets finds the first record later than the timestamp, not the first at or after it."""
    find = Log.offset_for_timestamp
    plant.setattr(Log, "offset_for_timestamp", lambda self, timestamp: find(self, timestamp + 1))


def cleaner_drops_first_record_of_batch(plant: Planter) -> None:
    """The cleaner drops the first record of each batch, whether or not a later one has its key."""
    fates = OffsetMap.fates

    def but_the_first(self: OffsetMap, base_offset: int, last_offset: int) -> bytearray | None:
        stays = fates(self, base_offset, last_offset)
        if stays:
            stays[0] = REPLACED
        return stays

    plant.setattr(OffsetMap, "fates", but_the_first)


def cleaner_changes_timestamps(plant: Planter) -> None:
    """The cleaner changes the timestamps of the records that stay in a batch."""
    rebuild = BatchCleaner._rebuilt

    def rebuilt(self: BatchCleaner, header: Any, *args: Any, **options: Any) -> Any:
        return rebuild(self, header._replace(base_timestamp=header.base_timestamp + 1), *args, **options)

    plant.setattr(BatchCleaner, "_rebuilt", rebuilt)


def omits_topic_configs_from_snapshots(plant: Planter) -> None:
    """A metadata snapshot lacks the topic configs."""

    def records(image: MetadataImage) -> Iterator[Message]:
        return (record for record in image_records(image) if not isinstance(record, ConfigRecord))

    plant.setattr(snapshot_generator, "image_records", records)


BUGS = (
    Bug(commits_unsynced_records, Invariant.COMMITTED_IS_SYNCED, 4, 0),
    Bug(never_syncs_logs, Invariant.METADATA_ON_A_MAJORITY, 40, 0),
    Bug(accepts_any_fetch_session_epoch, Invariant.FETCH_SESSION_EPOCHS, 1, 0),
    Bug(accepts_commits_of_any_generation, Invariant.GENERATIONS_ARE_FENCED, 6, 0),
    Bug(does_not_store_log_start, Invariant.DELETED_RECORDS_STAY_DELETED, 2, 0),
    Bug(skips_recovery_after_crash, Invariant.COMMITTED_IS_THE_SAME, 1, 0),
    Bug(consumer_reads_past_high_watermark, Invariant.READS_ARE_COMMITTED, 4, 0),
    Bug(assigns_duplicate_producer_ids, Invariant.PRODUCER_IDS_ARE_UNIQUE, 1, 0),
    Bug(reuses_log_of_deleted_topic, Invariant.NEW_TOPICS_ARE_EMPTY, 1, 0),
    Bug(list_offsets_skips_equal_timestamp, Invariant.TIMES_ARE_FOUND, 4, 0),
    Bug(cleaner_drops_first_record_of_batch, Invariant.COMPACTED_KEEPS_LAST, 4, 0),
    Bug(cleaner_changes_timestamps, Invariant.COMPACTED_KEEPS_OFFSETS, 3, 0),
)
"""Every bug of a single broker."""
