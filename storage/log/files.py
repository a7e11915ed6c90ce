"""The small files beside a log's segments: leader epochs, topic id, producer snapshots.

They are replaced in one step and synced with the log's next flush, not at once: a crash of the process loses
nothing, and what a power cut loses is in the batches (epochs, producers, which recovery reads) or in the cluster's
metadata (the topic id). Their texts and bytes are in `checkpoint.py` and `producer_snapshot.py`.
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
from storage.log.producer_state import ProducerState
from storage.log.segment import segment_path

EPOCHS_FILE = "leader-epoch-checkpoint"
METADATA_FILE = "partition.metadata"


class LogFiles:
    """What a log keeps in `directory` besides its segments. Every method may raise OSError."""

    __slots__ = ("_directory", "_disk", "_epochs_saved", "_unsynced", "damaged", "has_new_topic_id", "lacks_snapshot")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._epochs_saved: tuple[EpochEntry, ...] | None = ()  # None if the file is damaged
        self._unsynced: set[str] = set()
        self.damaged: list[str] = []
        """The names of those that were found damaged."""
        self.has_new_topic_id = False
        """Whether this process wrote the topic id, and nothing syncs it yet."""
        self.lacks_snapshot = False
        """Whether a full disk had no space for the newest snapshot of the producers."""

    def read_epochs(self, clean: bool = True) -> LeaderEpochs:
        """Return the leader epochs, none if they were never saved; CheckpointError if the file is damaged.

        Unless the last stop was `clean`, the file may not be durable.
        """
        text = self._read(EPOCHS_FILE)
        if text is not None and not clean:
            self._unsynced.add(self._path(EPOCHS_FILE))
        self._epochs_saved = None
        epochs = LeaderEpochs(() if text is None else parse_leader_epochs(text, self._path(EPOCHS_FILE)))
        self._epochs_saved = epochs.entries
        return epochs

    def save_epochs(self, epochs: LeaderEpochs) -> None:
        """Write the epochs down if they are others than those on disk."""
        entries = epochs.entries
        if entries != self._epochs_saved:
            self._replace(EPOCHS_FILE, format_leader_epochs(entries))
            self._epochs_saved = entries

    def read_topic_id(self, clean: bool = True) -> bytes | None:
        """Return the topic id; None if it was never written, or the power failed before it was synced.

        Unless the last stop was `clean`, the file may not be durable.
        """
        text = self._read(METADATA_FILE)
        if text is not None and not text.strip("\0"):
            text = None  # as a file system leaves a file whose content was not synced
        if text is not None and not clean:
            self._unsynced.add(self._path(METADATA_FILE))
        try:
            return None if text is None else parse_partition_metadata(text, self._path(METADATA_FILE))
        except CheckpointError as error:
            refuse_newer(error)
            self.damaged.append(METADATA_FILE)
            return None

    def save_topic_id(self, topic_id: bytes) -> None:
        """Write down whose log this is."""
        self._replace(METADATA_FILE, format_partition_metadata(topic_id))
        self.has_new_topic_id = True

    def save_producers(self, producers: ProducerState, offset: int, *, full: bool = False) -> None:
        """Write the snapshot of the producers as of `offset`; a `full` disk may have no space for it."""
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

    def tidy_snapshots(self, producers: ProducerState, end_offset: int, first: int) -> None:
        """Delete the snapshots before `first`, where the log begins; before that write one that is lacking."""
        if self.lacks_snapshot:
            self.save_producers(producers, end_offset, full=True)
        if not self.lacks_snapshot:
            self.remove_snapshots(below=first)

    def has_snapshot(self, offset: int) -> bool:
        """Tell whether the producers as of `offset` are on disk."""
        return self._disk.exists(segment_path(self._directory, offset, SNAPSHOT_SUFFIX))

    def read_producers(self, offset: int) -> ProducerState:
        """Return the producers as of `offset`, of which there is a snapshot; SnapshotError if it is damaged."""
        return decode_snapshot(self._disk.read_file(segment_path(self._directory, offset, SNAPSHOT_SUFFIX)), offset)

    def snapshot_offsets(self) -> list[int]:
        """Return as of which offsets there are snapshots, lowest first."""
        return snapshot_offsets(self._disk.list_dir(self._directory))

    def remove_snapshots(self, below: int) -> None:
        """Delete the snapshots taken at offsets smaller than `below`."""
        self.remove_snapshots_at(offset for offset in self.snapshot_offsets() if offset < below)

    def remove_snapshots_at(self, offsets: Iterable[int]) -> None:
        """Delete the snapshots taken at these offsets."""
        for offset in offsets:
            self._disk.remove(segment_path(self._directory, offset, SNAPSHOT_SUFFIX))

    @property
    def unsynced(self) -> bool:
        """Whether there are files for `open_unsynced`."""
        return bool(self._unsynced)

    def open_unsynced(self) -> list[File]:
        """Return what is to be synced, until it is `taken`; not the snapshots that have been deleted since."""
        return [self._disk.open_file(path) for path in sorted(self._unsynced) if self._disk.exists(path)]

    def taken(self) -> None:
        """Take note that somebody syncs what is to be synced."""
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
