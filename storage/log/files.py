"""The small files of a log besides its segments: leader epochs, topic id, producer snapshots.

They are replaced atomically and synced by the log's next flush. A crash of the process loses nothing. A power cut may
lose them: recovery reads epochs and producers from the batches, and the topic id is in the cluster metadata.
`checkpoint.py` and `producer_snapshot.py` have their formats.
"""

from collections.abc import Iterable

from storage.checkpoint import (
    CheckpointError,
    format_leader_epochs,
    format_partition_metadata,
    parse_leader_epochs,
    parse_partition_metadata,
)
from storage.disk import Disk, File, out_of_space
from storage.log.corruption_checks import refuse_newer
from storage.log.leader_epochs import EpochEntry, LeaderEpochs
from storage.log.producer_snapshot import SNAPSHOT_SUFFIX, decode_snapshot, encode_snapshot, snapshot_offsets
from storage.log.producer_state import ProducerStateManager
from storage.log.segment import segment_path

EPOCHS_FILE = "leader-epoch-checkpoint"
METADATA_FILE = "partition.metadata"


class LogFiles:
    """The files of a log in `directory` besides its segments. Every method may raise OSError."""

    __slots__ = ("_directory", "_disk", "_epochs_saved", "_unsynced", "damaged", "has_new_topic_id", "lacks_snapshot")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._epochs_saved: tuple[EpochEntry, ...] | None = ()  # None if the file is damaged
        self._unsynced: set[str] = set()
        self.damaged: list[str] = []
        """The names of the damaged files."""
        self.has_new_topic_id = False
        """Whether this process wrote the topic id, and no flush has taken it yet."""
        self.lacks_snapshot = False
        """Whether the newest producer snapshot is missing because the disk was full."""

    def read_epochs(self, clean: bool = True) -> LeaderEpochs:
        """Return the leader epochs, none if they were never saved; raise CheckpointError if the file is damaged.

        After an unclean shutdown (not `clean`) the file may not be durable.
        """
        text = self._read(EPOCHS_FILE)
        if text is not None and not clean:
            self._unsynced.add(self._path(EPOCHS_FILE))
        self._epochs_saved = None
        epochs = LeaderEpochs(() if text is None else parse_leader_epochs(text, self._path(EPOCHS_FILE)))
        self._epochs_saved = epochs.entries
        return epochs

    def save_epochs(self, epochs: LeaderEpochs) -> None:
        """Write the epochs if they differ from those on disk."""
        entries = epochs.entries
        if entries != self._epochs_saved:
            self._replace(EPOCHS_FILE, format_leader_epochs(entries))
            self._epochs_saved = entries

    def read_topic_id(self, clean: bool = True) -> bytes | None:
        """Return the topic id; None if it was never written, or lost in a power cut before its sync.

        After an unclean shutdown (not `clean`) the file may not be durable.
        """
        text = self._read(METADATA_FILE)
        if text is not None and not text.strip("\0"):
            text = None  # a power cut leaves zeros in a file whose content was not synced
        if text is not None and not clean:
            self._unsynced.add(self._path(METADATA_FILE))
        try:
            return None if text is None else parse_partition_metadata(text, self._path(METADATA_FILE))
        except CheckpointError as error:
            refuse_newer(error)
            self.damaged.append(METADATA_FILE)
            return None

    def save_topic_id(self, topic_id: bytes) -> None:
        """Write `partition.metadata`."""
        self._replace(METADATA_FILE, format_partition_metadata(topic_id))
        self.has_new_topic_id = True

    def save_producers(self, producers: ProducerStateManager, offset: int, *, full: bool = False) -> None:
        """Write the producer snapshot at `offset`; on a `full` disk it may fail for lack of space."""
        path = segment_path(self._directory, offset, SNAPSHOT_SUFFIX)
        try:
            self._disk.replace_file(path, encode_snapshot(producers), sync=False)
        except OSError as error:
            if full and out_of_space(error):
                self.lacks_snapshot = True
                return
            raise
        self._unsynced.add(path)
        self.lacks_snapshot = False

    def tidy_snapshots(self, producers: ProducerStateManager, end_offset: int, first: int) -> None:
        """Write the newest snapshot if it is missing, then delete those before `first`, the log's first base offset.

        If the disk has no space for it, none is deleted.
        """
        if self.lacks_snapshot:
            self.save_producers(producers, end_offset, full=True)
        if not self.lacks_snapshot:
            self.remove_snapshots(below=first)

    def has_snapshot(self, offset: int) -> bool:
        """Return whether there is a producer snapshot at `offset`."""
        return self._disk.exists(segment_path(self._directory, offset, SNAPSHOT_SUFFIX))

    def read_producers(self, offset: int) -> ProducerStateManager:
        """Return the producer state of the existing snapshot at `offset`; raise SnapshotError if it is damaged."""
        return decode_snapshot(self._disk.read_file(segment_path(self._directory, offset, SNAPSHOT_SUFFIX)), offset)

    def snapshot_offsets(self) -> list[int]:
        """Return the offsets of the producer snapshots, ascending."""
        return snapshot_offsets(self._disk.list_dir(self._directory))

    def remove_snapshots(self, below: int) -> None:
        """Delete the snapshots at offsets smaller than `below`."""
        self.remove_snapshots_at(offset for offset in self.snapshot_offsets() if offset < below)

    def remove_snapshots_at(self, offsets: Iterable[int]) -> None:
        """Delete the snapshots at these offsets."""
        for offset in offsets:
            self._disk.remove(segment_path(self._directory, offset, SNAPSHOT_SUFFIX))

    @property
    def unsynced(self) -> bool:
        """Whether there are files to sync."""
        return bool(self._unsynced)

    def open_unsynced(self) -> list[File]:
        """Return the files to sync, without snapshots that have been deleted; they stay listed until `taken`."""
        return [self._disk.open_file(path) for path in sorted(self._unsynced) if self._disk.exists(path)]

    def taken(self) -> None:
        """Record that a flush has taken the unsynced files."""
        self._unsynced.clear()
        self.has_new_topic_id = False

    def _read(self, name: str) -> str | None:
        try:
            return self._disk.read_file(self._path(name)).decode(errors="replace")
        except FileNotFoundError:
            return None

    def _replace(self, name: str, text: str) -> None:
        self._disk.replace_file(self._path(name), text.encode(), sync=False)
        self._unsynced.add(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
