"""The deletion queue: directories of deleted logs, renamed at once and deleted after a delay.

A rename removes a log in one step. Deleting its files may take long, and reads in flight continue meanwhile. In a full
directory there is no delay. If the rename fails, or a power cut may undo it, the next log of that name in another data
directory must supersede the former one at the next start (`former_replicas.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import KafkaError
from storage.checkpoint import TopicPartition
from storage.disk import Disk
from storage.former_replicas import moves_of, supersede
from storage.log.names import DELETE_SUFFIX, log_name, unique_name

if TYPE_CHECKING:
    from random import Random

    from storage.log_directory import LogDirectory


class Former(NamedTuple):
    """A deleted or stray log that may be found under its own name at the next start.

    It could not be renamed (`renamed` is False), or its data directory may not have been synced since. `path` is where
    it is now, `moves` the number in its `partition.moves`.
    """

    key: TopicPartition
    directory: LogDirectory
    path: str
    moves: int
    suffix: str
    delay_ms: int
    renamed: bool = False


class DeletionQueue:
    """The directories to delete in one manager's data directories."""

    def __init__(
        self, disk: Disk, *, now_ms: Callable[[], int], random: Random, has_one_directory: bool = False
    ) -> None:
        """With one data directory, the next log of a name is in that of the former one, which a rename separates."""
        self._disk = disk
        self._has_one_directory = has_one_directory
        self._now_ms = now_ms
        self._random = random
        # Path -> when it is due, in ms, and its data directory.
        self._pending: dict[str, tuple[int, LogDirectory]] = {}
        self._formers: dict[TopicPartition, list[Former]] = {}
        self._removed: list[Former] = []

    def retire(self, directory: LogDirectory, key: TopicPartition, path: str, suffix: str, delay_ms: int) -> str:
        """Rename a partition's log as `rename_away`; `make_way` separates it from the next log.

        Raise KafkaError if it cannot be renamed.
        """
        moves = 0
        if not self._has_one_directory:
            with suppress(OSError):  # the rename raises that error too
                moves = moves_of(self._disk, path)
        former = Former(key, directory, path, moves, suffix, delay_ms)
        formers = self._formers.setdefault(key, [])
        formers.append(former)
        target = self.rename_away(directory, key, path, suffix, delay_ms)
        if self._has_one_directory:
            del self._formers[key]
        else:
            formers[-1] = former._replace(path=target, renamed=True)
        return target

    def make_way(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Separate the former logs of `key` from the one created next in `directory`; raise KafkaError."""
        formers = self._formers.get(key)
        if formers is None:
            return
        path = f"{directory.path}/{log_name(key)}"
        elsewhere = [former for former in formers if former.directory is not directory]
        moved = {one for one in dict.fromkeys(one.directory for one in elsewhere) if self._sync(one)}
        kept = [former for former in elsewhere if not (former.renamed and former.directory in moved)]
        with directory.storage_errors():
            if kept:
                temporary = f"{directory.path}/{unique_name(key, DELETE_SUFFIX, self._random)}"
            for former in formers:
                if former.directory is directory and not former.renamed and self._disk.exists(path):
                    self.rename_away(directory, key, path, former.suffix, former.delay_ms)
            if kept:
                supersede(self._disk, max(former.moves for former in kept), path, temporary)
        self._formers[key] = kept
        if not kept:
            del self._formers[key]

    def _sync(self, directory: LogDirectory) -> bool:
        """Make the renames in a data directory durable; return whether they are."""
        if directory.failure is None:
            with suppress(KafkaError), directory.storage_errors():
                directory.sync_names()
                return True
        return False

    def take_removed(self) -> Mapping[LogDirectory, list[Former]]:
        """Return the logs whose files have been deleted since the last call, by the data directory to sync."""
        removed: dict[LogDirectory, list[Former]] = {}
        for former in self._removed:
            removed.setdefault(former.directory, []).append(former)
        self._removed = []
        return removed

    def synced(self, formers: Iterable[Former]) -> None:
        """Forget these logs: their data directory was synced, so that no power cut can restore them."""
        for former in formers:
            others = [one for one in self._formers.pop(former.key, ()) if one != former]
            if others:
                self._formers[former.key] = others

    def rename_away(
        self, directory: LogDirectory, key: TopicPartition, path: str, suffix: str = DELETE_SUFFIX, delay_ms: int = 0
    ) -> str:
        """Rename the files of a partition to a unique name with `suffix`, and return it; raise KafkaError.

        With the suffix `-delete`, `delete_due` deletes them after `delay_ms`.
        """
        target = f"{directory.path}/{unique_name(key, suffix, self._random)}"
        with directory.storage_errors():
            self._disk.rename(path, target)
        if suffix == DELETE_SUFFIX:
            self._pending[target] = (self._now_ms() + delay_ms, directory)
        return target

    def enqueue(self, directory: LogDirectory, path: str) -> None:
        """Queue a directory that an earlier process renamed, without delay."""
        self._pending[path] = (self._now_ms(), directory)

    def delete_due(self, now_ms: int) -> Iterator[KafkaError | None]:
        """Delete the directories that are due, or in a full data directory, one per step; yield its error or None."""
        due = [(path, directory) for path, (ms, directory) in self._pending.items() if ms <= now_ms or directory.full]
        removed: set[str] = set()
        for path, directory in due:
            failed = self.remove(directory, path)
            if failed is None or directory.failure is not None:
                del self._pending[path]
            if failed is None:
                removed.add(path)
            yield failed
        if removed:
            self._removed += [one for formers in self._formers.values() for one in formers if one.path in removed]

    def remove(self, directory: LogDirectory, path: str) -> KafkaError | None:
        """Delete a directory at once; return the error, or None."""
        try:
            with directory.storage_errors():
                self._disk.remove_tree(path)
        except KafkaError as error:
            return error
        return None
