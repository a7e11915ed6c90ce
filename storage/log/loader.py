"""Loading a log from its directory, with recovery after an unclean shutdown (Kafka: `LogLoader`).

`recovery.py` repairs the segments, `producer_recovery.py` the producer state. If the small files contradict the
batches, they are corrected from the batches.
"""

from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from storage.checkpoint import CheckpointError
from storage.disk import Disk
from storage.log.config import LogConfig
from storage.log.corruption_checks import LogRefused, refuse_newer
from storage.log.files import EPOCHS_FILE, METADATA_FILE, LogFiles
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log import LoadedLog, Log
from storage.log.log_checkpoint import NEW_LOG, LogCheckpoint
from storage.log.producer_recovery import recover_producers
from storage.log.producer_state import ProducerStateManager
from storage.log.recovery import RecoveryReport, recover_segments
from storage.log.segment import LogSegment
from storage.log.segments import LogSegments
from storage.log_directory import LogDirectory


def open_log(
    disk: Disk,
    directory: LogDirectory,
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    now_ms: int,
    topic_id: bytes = ZERO_UUID,
    checkpoint: LogCheckpoint = NEW_LOG,
    name: str = "",
) -> Log:
    """Open the log of a partition in `directory`, or create it; recover it unless the last shutdown was clean.

    `name` is the directory's name where it is not the partition's: a future replica (`future_replicas.py`).
    `Log.recovery` has what recovery changed. Raise KafkaError, or LogRefused.
    """
    path = f"{directory.path}/{name or f'{topic}-{partition}'}"
    with directory.storage_errors():
        try:
            loaded = _load(disk, path, checkpoint, config.index_interval_bytes, now_ms)
        except IsADirectoryError as error:
            # Not an I/O error, which would take every log in the data directory offline.
            raise LogRefused(
                f"{error.filename} is a directory, not a log file: restore the file, or move the directory away"
            ) from error
    log = Log(disk, directory, path, topic, partition, config, loaded, now_ms)
    if log.topic_id == ZERO_UUID != topic_id:
        log.assign_topic_id(topic_id)
    log.update_high_watermark(checkpoint.high_watermark)
    return log


def _load(disk: Disk, path: str, checkpoint: LogCheckpoint, index_interval_bytes: int, now_ms: int) -> LoadedLog:
    try:
        names = disk.list_dir(path)
    except FileNotFoundError:
        disk.make_dirs(path)
        return _create(disk, path, checkpoint.log_start_offset, now_ms)
    except NotADirectoryError as error:
        # Not an I/O error either.
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is a file: move it away") from error
    files = LogFiles(disk, path)
    try:
        epochs = files.read_epochs(checkpoint.clean)
    except CheckpointError as error:
        refuse_newer(error)
        # Scan all batches: they have the epochs too.
        files.damaged.append(EPOCHS_FILE)
        epochs = LeaderEpochs()
        checkpoint = checkpoint._replace(clean=False, recovery_point=0)
    clean, recovery_point = checkpoint.clean, checkpoint.recovery_point
    found = recover_segments(disk, path, names, epochs, checkpoint, index_interval_bytes, now_ms)
    end_offset = found.next_offset
    producers = recover_producers(
        files,
        found.segments,
        end_offset,
        high_watermark=checkpoint.high_watermark,
        snapshots=found.snapshots,
        trusted_to=end_offset if clean else recovery_point,
        scanned=found.scanned,
        clean=clean,
    )
    files.save_epochs(epochs)
    for segment in found.segments:
        segment.close_file()  # most logs are idle after a start
    topic_id = files.read_topic_id(clean) or ZERO_UUID
    return LoadedLog(
        files,
        LogSegments(disk, path, found.segments),
        producers,
        epochs,
        found.log_start_offset,
        end_offset,
        end_offset if clean else min(recovery_point, end_offset),
        not clean or end_offset == 0,
        topic_id,
        found.report._replace(damaged=tuple(files.damaged)),
        # The topic id is synced within a second of the first record. So a log with several segments had a durable id,
        # and a damaged file had one too.
        maybe_former=topic_id == ZERO_UUID
        and METADATA_FILE not in files.damaged
        and not clean
        and end_offset > 0
        and len(found.segments) == 1,
    )


def _create(disk: Disk, path: str, start_offset: int, now_ms: int) -> LoadedLog:
    """Create the files of a new log in a directory that was just created."""
    segment = LogSegment.create(disk, path, start_offset, now_ms)
    segment.close_file()
    return LoadedLog(
        LogFiles(disk, path),
        LogSegments(disk, path, [segment]),
        ProducerStateManager(start_offset),
        LeaderEpochs(),
        start_offset=start_offset,
        end_offset=start_offset,
        recovery_point=start_offset,
        is_new=True,
        topic_id=ZERO_UUID,
        report=RecoveryReport(),
    )
