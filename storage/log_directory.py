"""One directory of `log.dirs`: its identity, its lock, its checkpoint files, and whether it still works.

A directory fails as a whole: after an I/O error nothing in it is trusted until the broker is started again, since
what the kernel dropped after a failed write-back cannot be known. Its logs refuse every operation from then on with
KAFKA_STORAGE_ERROR. Running out of space is the exception, where the failed write is cut off and all before it is
as good as ever (`full` says so until somebody finds room again), and so is running out of descriptors, which clients
that connect can bring about; Apache Kafka gives the directory up there too.

Checkpoints are replaced in one step but synced only at a clean stop, so that they do not stall the loop: a stale
or lost one costs time in recovery, never acknowledged records. But for one, of which a loss would (`write_offsets`).
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

# A directory with less space than this gets nothing new: twice the largest batch of Kafka's defaults.
_ROOM_BYTES = 2 << 20

_DASH = 62  # in base64
_RESERVED_IDS = 100


DELETED: Final = FileNotFoundError(ENOENT, "the log is deleted")
"""The failure of the directory that a deleted log is in from then on."""


class Space(NamedTuple):
    """How much a volume holds, and how much of it may still be written."""

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
        # By file, the largest offsets that it may say after a power cut; of those that were synced since the start.
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
        """The id by which the controller knows this directory; zeros before it has one."""
        return (self.meta.directory_id if self.meta else None) or bytes(16)

    def open(self) -> None:
        """Make the directory if it is missing, lock it, and read who it belongs to and how it was left.

        `AlreadyLocked` names the process that holds it. The mark of a clean stop is removed at once: until the
        next one, any end is unclean.
        """
        self._make()
        self._lock = self._disk.lock(f"{self.path}/{_LOCK}")
        meta = self._read(_META_PROPERTIES)
        if meta is not None:
            self.meta = parse_meta_properties(meta, f"{self.path}/{_META_PROPERTIES}")
        path = f"{self.path}/{_CLEAN_SHUTDOWN}"
        if self._disk.exists(path):
            # A mark that cannot be read says nothing.
            with suppress(OSError, CheckpointError):
                self.previous_broker_epoch = parse_clean_shutdown(self._read(_CLEAN_SHUTDOWN) or "", path)
                self.clean = True
            self._disk.remove(path)
            # Were it back after a power cut, a torn log would pass for one that was closed in order.
            self._disk.sync_dir(self.path)
        else:
            self._check_writable(f"{path}.tmp")

    def _check_writable(self, path: str) -> None:
        """Raise OSError if no file can be made in the directory, unless it is full; `path` is made and removed."""
        try:
            self._disk.open_file(path, create=True)
            self._disk.remove(path)
        except OSError as error:
            if not out_of_space(error):
                raise OSError(error.errno, error.strerror, self.path) from error

    def _make(self) -> None:
        """Make the directory and its parents where they are missing, durably: all that is in it depends on its name."""
        disk, path, parents = self._disk, self.path, []
        while path and not disk.is_dir(path):
            path = path.rpartition("/")[0]
            parents.append(path or ("/" if self.path.startswith("/") else "."))
        if parents:
            disk.make_dirs(self.path)
            for parent in parents:
                with suppress(PermissionError):  # one may put something there without being allowed to look
                    disk.sync_dir(parent)

    def names(self) -> list[str]:
        """Return the names of what is in the directory."""
        with self.storage_errors():
            return self._disk.list_dir(self.path)

    def nested(self) -> list[str]:
        """Return the paths of data directories within this one, in order."""
        paths = (f"{self.path}/{name}" for name in self.names())
        with self.storage_errors():
            return sorted(path for path in paths if self._disk.exists(f"{path}/{_META_PROPERTIES}"))

    def format(self, meta: MetaProperties) -> None:
        """Durably write down to which cluster and node the directory belongs."""
        self._disk.replace_file(f"{self.path}/{_META_PROPERTIES}", format_meta_properties(meta).encode())
        self.meta = meta

    def close(self, *, clean: bool, broker_epoch: int = -1) -> None:
        """Unlock; with `clean`, leave the mark which says that every log was closed in order, and in which epoch.

        Without an epoch, nothing was written since the stop before, and what that said of it still holds.
        """
        if clean and self.failure is None:
            # Another program may be next to write here.
            self._disk.remove(f"{self.path}/{CONTIGUOUS_FROM}")
            epoch = self.previous_broker_epoch if broker_epoch < 0 else broker_epoch
            mark = format_clean_shutdown(epoch).encode()
            self._disk.replace_file(f"{self.path}/{_CLEAN_SHUTDOWN}", mark)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_offsets(self, name: str) -> dict[TopicPartition, int] | None:
        """Return the offsets in a checkpoint file, none if it is missing; CheckpointError if it is damaged.

        None if it has no content, which is what a power cut leaves of one: that of no log has two lines.
        """
        text = self._read(name)
        return {} if text is None else parse_offsets(text, f"{self.path}/{name}") if text else None

    def contiguous_from(self) -> Mapping[TopicPartition, int] | None:
        """Return behind which segment this product made those of each log, 0 for a log that is not named.

        None if another program may have written here last: after a clean stop, or where the file is not there, or is
        damaged.
        """
        text = None if self.clean else self._read(CONTIGUOUS_FROM)
        with suppress(CheckpointError):
            return parse_offsets(text, f"{self.path}/{CONTIGUOUS_FROM}") if text else None
        return None

    def save_contiguous_from(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Durably write what `contiguous_from` returns after a crash; KafkaError."""
        self.write_offsets(CONTIGUOUS_FROM, offsets, sync=True)

    def write_offsets(self, name: str, offsets: Mapping[TopicPartition, int], sync: bool = False) -> None:
        """Replace a checkpoint file, unless it says the same already; with `sync`, durably.

        What says which logs are compacted is always durable: of others, gaps are taken for losses after a crash.
        """
        if sync or self._written.get(name) != offsets:
            sync = sync or name == CLEANED_TO
            # Not known while it is being written.
            claimed, written = self._claimed.pop(name, None), self._written.pop(name, None)
            try:
                with self.storage_errors():
                    path, text = f"{self.path}/{name}", format_offsets(offsets).encode()
                    if written is None:
                        # A crash may have left one, and a power cut would bring back what it says, not `text`.
                        self._disk.remove(f"{path}.tmp")
                    self._disk.replace_file(path, text, sync)
            except KafkaError:
                if claimed is None and sync:
                    claimed = self._sync_offsets(name)
                if claimed is not None:
                    self._claimed[name] = _larger(claimed, offsets)  # the file holds one of the two
                raise
            self._written[name] = offsets
            if sync:
                self._claimed[name] = offsets
            elif claimed is not None:
                self._claimed[name] = _larger(claimed, offsets)

    def _sync_offsets(self, name: str) -> Mapping[TopicPartition, int] | None:
        """Sync a checkpoint file as it is, which takes no space, and return its offsets; None if that fails.

        An I/O error takes the directory offline, as everywhere.
        """
        with suppress(KafkaError, CheckpointError), self.storage_errors():
            if self._disk.exists(path := f"{self.path}/{name}"):
                self._disk.open_file(path).sync()
            self._disk.sync_dir(self.path)
            return self.read_offsets(name)
        return None

    def written(self, name: str) -> Mapping[TopicPartition, int] | None:
        """Return what this process wrote to a checkpoint file last, None if it has not written it."""
        return self._written.get(name)

    def may_say_more(self, name: str, key: TopicPartition, offset: int | None) -> bool:
        """Tell whether a checkpoint file, or what a power cut may bring back of it, says more of a log than `offset`.

        With None, whether it says anything.
        """
        claimed = self._claimed.get(name)
        if claimed is None:
            return True
        known = claimed.get(key)
        return known is not None and (offset is None or known > offset)

    def is_durable(self, name: str, key: TopicPartition, offset: int) -> bool:
        """Return whether a checkpoint file has this offset of a log, durably: its last write was synced."""
        written = self._written.get(name)
        return written is not None and self._claimed.get(name) is written and written.get(key) == offset

    def fail(self, error: OSError) -> KafkaError:
        """Return what callers raise for `error`, and give the directory up unless it is only full, or files are out."""
        if out_of_space(error):
            self.full = True
            self.refused_writes += 1
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} is full: {reason(error)}")
        if out_of_files(error):
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no file can be opened in {self.path}: {reason(error)}")
        return self.give_up(error)

    def has_room(self) -> bool:
        """Tell whether there is space for more than a few records; where there is none, the directory is full."""
        with self.storage_errors():
            room = self._disk.free_bytes(self.path) >= _ROOM_BYTES
        self.full = self.full or not room
        return room

    def free_bytes(self) -> int:
        """Return how much may still be written; nothing where nobody can tell."""
        try:
            return self._disk.free_bytes(self.path)
        except OSError:
            return 0

    def space(self) -> Space:
        """Return the size of the volume; KafkaError KAFKA_STORAGE_ERROR if the directory has failed."""
        with self.storage_errors():
            return Space(self._disk.total_bytes(self.path), self._disk.free_bytes(self.path))

    def give_up(self, error: OSError) -> KafkaError:
        """Take the directory offline, whatever the error, and return what callers raise."""
        if self.failure is None:
            self.failure = error
        return self.offline()

    def offline(self) -> KafkaError:
        """Return what an operation on a failed directory raises."""
        why = reason(self.failure) if self.failure is not None else "unknown"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} failed: {why}")

    @contextmanager
    def storage_errors(self) -> Iterator[None]:
        """Refuse what is within if the directory has failed, and turn an OSError within by `fail`."""
        if self.failure is not None:
            raise self.offline()
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error

    @contextmanager
    def must_succeed(self) -> Iterator[None]:
        """Take the directory offline by any error within: what is done by half can be neither ended nor undone."""
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
    """Return the larger offset of each partition that either names."""
    return {**one, **{key: offset for key, offset in other.items() if offset > one.get(key, -1)}}


def new_directory_id(random: "Random") -> bytes:
    """Return a random uuid that is none of those that Kafka reserves, nor looks like an option in text."""
    while True:
        value = random.getrandbits(128).to_bytes(16, "big")
        if value[0] >> 2 != _DASH and int.from_bytes(value, "big") >= _RESERVED_IDS:
            return value


def no_directory(disk: Disk, path: str) -> LogDirectory:
    """Return the directory that a deleted log of the one at `path` is in: every operation is refused."""
    directory = LogDirectory(disk, path)
    directory.give_up(DELETED)
    return directory
