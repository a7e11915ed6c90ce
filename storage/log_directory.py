"""One data directory of `log.dirs`: identity, lock, checkpoint files, and whether it is online.

A directory fails as a whole (Kafka: `LogDirFailureChannel`). After an I/O error its content is not used until the
broker restarts, since the kernel may have dropped any unsynced data. From then on its logs refuse every operation with
KAFKA_STORAGE_ERROR. Two errors leave it online: a full disk, since the failed write is truncated and all earlier data
stays valid (`full` is set until there is space again), and a lack of file descriptors, which connecting clients can
cause. Apache Kafka takes the directory offline after both.

Checkpoints are replaced atomically. They are synced only at a clean shutdown, so that a sync does not block the loop:
an outdated or lost one makes recovery slower, and loses no acknowledged records. Only the cleaner checkpoint is always
synced (`write_offsets`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EIO, ENOENT
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import ErrorCode, KafkaError
from storage.checkpoint import (
    CheckpointError,
    MetaProperties,
    TopicPartition,
    format_clean_shutdown,
    format_meta_properties,
    format_offsets,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_offsets,
)
from storage.disk import Disk, Lock, out_of_files, out_of_space, reason

if TYPE_CHECKING:
    from random import Random

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_TO = "cleaner-offset-checkpoint"

CONTIGUOUS_FROM = "contiguous-from-checkpoint"

_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_META_PROPERTIES = "meta.properties"
_LOCK = ".lock"

# A directory with less space than this gets no new logs: twice the largest batch of Kafka's defaults.
_ROOM_BYTES = 2 << 20

_DASH = 62  # "-" in base64
_RESERVED_IDS = 100


DELETED: Final = FileNotFoundError(ENOENT, "the log is deleted")
"""The failure of a deleted log's directory (`no_directory`)."""


class Space(NamedTuple):
    """The size of a volume, and its free space."""

    total_bytes: int
    usable_bytes: int


class LogDirectory:
    """A data directory, locked from `open` to `close`."""

    __slots__ = (
        "_claimed", "_disk", "_lock", "_written", "clean", "failure", "full", "meta", "path", "previous_broker_epoch",
        "refused_writes",
    )  # fmt: skip

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._lock: Lock | None = None
        self._written: dict[str, Mapping[TopicPartition, int]] = {}
        # File name -> the largest offsets that the file may have after a power cut. Only files synced since the start.
        self._claimed: dict[str, Mapping[TopicPartition, int]] = {}
        self.path = path
        self.meta: MetaProperties | None = None
        self.failure: OSError | None = None
        self.full = False
        self.refused_writes = 0
        self.clean = False
        self.previous_broker_epoch = -1

    @property
    def directory_id(self) -> bytes:
        """The directory's id in the controller (KIP-858); zeros before it has one."""
        return (self.meta.directory_id if self.meta else None) or bytes(16)

    def open(self) -> None:
        """Create the directory if it is missing, lock it, and read its `meta.properties` and clean shutdown file.

        Raise `AlreadyLocked` with the pid of the process that holds it. The clean shutdown file is removed at once:
        until the next clean shutdown, any end of the process is unclean. What is found is durable when this returns: a
        killed process may have renamed files, such as `meta.properties`, and not synced the directory.
        """
        self._make()
        self._lock = self._disk.lock(f"{self.path}/{_LOCK}")
        meta = self._read(_META_PROPERTIES)
        if meta is not None:
            self.meta = parse_meta_properties(meta, f"{self.path}/{_META_PROPERTIES}")
        path = f"{self.path}/{_CLEAN_SHUTDOWN}"
        if self._disk.exists(path):
            # An unreadable file counts as an unclean shutdown.
            with suppress(OSError, CheckpointError):
                self.previous_broker_epoch = parse_clean_shutdown(self._read(_CLEAN_SHUTDOWN) or "", path)
                self.clean = True
            # If a power cut restored it, a torn log would pass for a cleanly closed one.
            self._disk.remove(path)
        else:
            self._check_writable(f"{path}.tmp")
        self._disk.sync_dir(self.path)

    def _check_writable(self, path: str) -> None:
        """Raise OSError if the file `path` cannot be created in the directory for another reason than a full disk.

        The file is removed again.
        """
        try:
            self._disk.open_file(path, create=True)
            self._disk.remove(path)
        except OSError as error:
            if not out_of_space(error):
                raise OSError(error.errno, error.strerror, self.path) from error

    def _make(self) -> None:
        """Create the directory and its missing parents, durably: everything in it depends on its name."""
        disk, path, parents = self._disk, self.path, []
        while path and not disk.is_dir(path):
            path = path.rpartition("/")[0]
            parents.append(path or ("/" if self.path.startswith("/") else "."))
        if parents:
            disk.make_dirs(self.path)
            for parent in parents:
                with suppress(PermissionError):  # the parent may be writable but not readable
                    disk.sync_dir(parent)

    def sync_names(self) -> None:
        """Make renames in the directory durable; raise OSError. May be called in a thread."""
        self._disk.sync_dir(self.path)

    def names(self) -> list[str]:
        """Return the names in the directory."""
        with self.storage_errors():
            return self._disk.list_dir(self.path)

    def nested(self) -> list[str]:
        """Return the paths of data directories inside this one, sorted."""
        paths = (f"{self.path}/{name}" for name in self.names())
        with self.storage_errors():
            return sorted(path for path in paths if self._disk.exists(f"{path}/{_META_PROPERTIES}"))

    def format(self, meta: MetaProperties) -> None:
        """Durably write `meta.properties`: the cluster and node that the directory belongs to."""
        self._disk.replace_file(f"{self.path}/{_META_PROPERTIES}", format_meta_properties(meta).encode())
        self.meta = meta

    def close(self, *, clean: bool, broker_epoch: int = -1) -> None:
        """Unlock; with `clean`, first write the clean shutdown file with the broker epoch.

        Without an epoch, nothing was written since the previous shutdown: its epoch is written again.
        """
        if clean and self.failure is None:
            # Another program may write here next.
            self._disk.remove(f"{self.path}/{CONTIGUOUS_FROM}")
            epoch = self.previous_broker_epoch if broker_epoch < 0 else broker_epoch
            mark = format_clean_shutdown(epoch).encode()
            self._disk.replace_file(f"{self.path}/{_CLEAN_SHUTDOWN}", mark)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_offsets(self, name: str) -> dict[TopicPartition, int] | None:
        """Return the offsets in a checkpoint file, none if it is missing; raise CheckpointError if it is damaged.

        Return None if it is empty, as a power cut leaves it: a checkpoint without entries has two lines.
        """
        text = self._read(name)
        return {} if text is None else parse_offsets(text, f"{self.path}/{name}") if text else None

    def contiguous_from(self) -> Mapping[TopicPartition, int] | None:
        """Return per log the offset above which Barnabas wrote all segments; 0 for a log that is not listed.

        Return None if another program may have written here last: after a clean shutdown, or if the file is missing or
        damaged.
        """
        text = None if self.clean else self._read(CONTIGUOUS_FROM)
        with suppress(CheckpointError):
            return parse_offsets(text, f"{self.path}/{CONTIGUOUS_FROM}") if text else None
        return None

    def save_contiguous_from(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Durably write what `contiguous_from` returns after a crash; raise KafkaError."""
        self.write_offsets(CONTIGUOUS_FROM, offsets, sync=True)

    def write_offsets(self, name: str, offsets: Mapping[TopicPartition, int], sync: bool = False) -> None:
        """Replace a checkpoint file, unless its content would be the same; with `sync`, durably.

        The cleaner checkpoint is always durable: after a crash, gaps in logs that it does not list count as data loss.
        """
        if sync or self._written.get(name) != offsets:
            sync = sync or name == CLEANED_TO
            # Unknown while it is being written.
            claimed, written = self._claimed.pop(name, None), self._written.pop(name, None)
            try:
                with self.storage_errors():
                    path, text = f"{self.path}/{name}", format_offsets(offsets).encode()
                    if written is None:
                        # A crash may have left one: a power cut could restore its content in place of `text`.
                        self._disk.remove(f"{path}.tmp")
                    self._disk.replace_file(path, text, sync)
            except KafkaError:
                if claimed is None and sync:
                    claimed = self._sync_offsets(name)
                if claimed is not None:
                    self._claimed[name] = _larger(claimed, offsets)  # the file has one of the two
                raise
            self._written[name] = offsets
            if sync:
                self._claimed[name] = offsets
            elif claimed is not None:
                self._claimed[name] = _larger(claimed, offsets)

    def _sync_offsets(self, name: str) -> Mapping[TopicPartition, int] | None:
        """Sync a checkpoint file as it is, which takes no space, and return its offsets; None if that fails.

        An I/O error takes the directory offline.
        """
        with suppress(KafkaError, CheckpointError), self.storage_errors():
            if self._disk.exists(path := f"{self.path}/{name}"):
                self._disk.open_file(path).sync()
            self._disk.sync_dir(self.path)
            return self.read_offsets(name)
        return None

    def written(self, name: str) -> Mapping[TopicPartition, int] | None:
        """Return what this process last wrote to a checkpoint file; None if it has not written it."""
        return self._written.get(name)

    def may_exceed(self, name: str, key: TopicPartition, offset: int | None) -> bool:
        """Return whether a checkpoint file, or one that a power cut may restore, has more than `offset` for a log.

        With None, return whether it lists the log at all.
        """
        claimed = self._claimed.get(name)
        if claimed is None:
            return True
        known = claimed.get(key)
        return known is not None and (offset is None or known > offset)

    def is_durable(self, name: str, key: TopicPartition, offset: int) -> bool:
        """Return whether the last write of a checkpoint file was synced and has this offset of a log."""
        written = self._written.get(name)
        return written is not None and self._claimed.get(name) is written and written.get(key) == offset

    def fail(self, error: OSError) -> KafkaError:
        """Return the KafkaError to raise for `error`, and take the directory offline.

        A full disk and a lack of descriptors leave it online.
        """
        if out_of_space(error):
            self.full = True
            self.refused_writes += 1
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} is full: {reason(error)}")
        if out_of_files(error):
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no file can be opened in {self.path}: {reason(error)}")
        return self.give_up(error)

    def has_room(self) -> bool:
        """Return whether there is space for more than a few records; if not, mark the directory as full."""
        with self.storage_errors():
            room = self._disk.free_bytes(self.path) >= _ROOM_BYTES
        self.full = self.full or not room
        return room

    def free_bytes(self) -> int:
        """Return the free bytes of the volume; 0 if that is unknown."""
        try:
            return self._disk.free_bytes(self.path)
        except OSError:
            return 0

    def space(self) -> Space:
        """Return the size of the volume; raise KAFKA_STORAGE_ERROR if the directory has failed."""
        with self.storage_errors():
            return Space(self._disk.total_bytes(self.path), self._disk.free_bytes(self.path))

    def give_up(self, error: OSError) -> KafkaError:
        """Take the directory offline for any error, and return the KafkaError to raise."""
        if self.failure is None:
            self.failure = error
        return self.offline()

    def offline(self) -> KafkaError:
        """Return the KafkaError that operations on a failed directory raise."""
        why = reason(self.failure) if self.failure is not None else "unknown"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} failed: {why}")

    @contextmanager
    def storage_errors(self) -> Iterator[None]:
        """Raise if the directory has failed; convert an OSError within by `fail`."""
        if self.failure is not None:
            raise self.offline()
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error

    @contextmanager
    def must_succeed(self) -> Iterator[None]:
        """Take the directory offline for any error within: a half-done change can be neither completed nor undone."""
        try:
            yield
        except OSError as error:
            raise self.give_up(error) from error
        except KafkaError as error:
            raise self.give_up(OSError(EIO, str(error))) from error

    def _read(self, name: str) -> str | None:
        try:
            return self._disk.read_file(f"{self.path}/{name}").decode(errors="replace")
        except FileNotFoundError:
            return None


def _larger(one: Mapping[TopicPartition, int], other: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    """Return the larger offset of each partition in either mapping."""
    return {**one, **{key: offset for key, offset in other.items() if offset > one.get(key, -1)}}


def new_directory_id(random: "Random") -> bytes:
    """Return a random uuid that Kafka does not reserve, and whose text does not look like an option."""
    while True:
        value = random.getrandbits(128).to_bytes(16, "big")
        if value[0] >> 2 != _DASH and int.from_bytes(value, "big") >= _RESERVED_IDS:
            return value


def no_directory(disk: Disk, path: str) -> LogDirectory:
    """Return the failed directory of a deleted log at `path`, which refuses every operation."""
    directory = LogDirectory(disk, path)
    directory.give_up(DELETED)
    return directory
