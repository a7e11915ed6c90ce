"""The deletion queue: directories of deleted logs, renamed at once and deleted after a delay.

A rename removes a log in one step. Deleting its files may take long, and reads in flight continue meanwhile. In a full
directory there is no delay. If the rename fails, or a power cut may undo it, the next log of that name in another data
directory must supersede the former one at the next start (`former_replicas.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


class _Former(NamedTuple):
    """A deleted or stray log that may be found under its own name at the next start.

    It could not be renamed (`renamed` is False), or its data directory has not been synced since. `path` is where it is
    now, `moves` the number in its `partition.moves`.
    """

    directory: LogDirectory
    path: str
    moves: int
    suffix: str
    delay_ms: int
    renamed: bool = False


class DeletionQueue:
    """The directories to delete in one manager's data directories."""

    def __init__(self, disk: Disk, *, now_ms: Callable[[], int], random: Random) -> None:
        self._disk = disk
        self._now_ms = now_ms
        self._random = random
        # Path -> when it is due, in ms, and its data directory.
        self._pending: dict[str, tuple[int, LogDirectory]] = {}
        self._former: dict[TopicPartition, _Former] = {}

    def retire(self, directory: LogDirectory, key: TopicPartition, path: str, suffix: str, delay_ms: int) -> str:
        """Rename a partition's log as `rename_away`; `make_way` separates it from the next log.

        Raise KafkaError if it cannot be renamed.
        """
        moves = 0
        with suppress(OSError):  # the rename raises that error too
            moves = moves_of(self._disk, path)
        former = self._former[key] = _Former(directory, path, moves, suffix, delay_ms)
        target = self.rename_away(directory, key, path, suffix, delay_ms)
        self._former[key] = former._replace(path=target, renamed=True)
        return target

    def make_way(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Separate a former log of `key` from the one created next in `directory`; raise KafkaError."""
        former = self._former.get(key)
        if former is None:
            return
        path = f"{directory.path}/{log_name(key)}"
        with directory.storage_errors():
            if former.directory is not directory:
                if not (former.renamed and self._sync(former.directory)):
                    temporary = f"{directory.path}/{unique_name(key, DELETE_SUFFIX, self._random)}"
                    supersede(self._disk, former.moves, path, temporary)
            elif not former.renamed and self._disk.exists(path):
                self.rename_away(directory, key, path, former.suffix, former.delay_ms)
        del self._former[key]

    def _sync(self, directory: LogDirectory) -> bool:
        """Make the renames in a data directory durable; return whether they are."""
        if directory.failure is None:
            with suppress(KafkaError), directory.storage_errors():
                self._disk.sync_dir(directory.path)
                return True
        return False

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
        """Delete the directories that are due, or in a full data directory, one per step; yield its error or None.

        If logs were retired, sync their data directories at the end, in a step each.
        """
        due = [(path, directory) for path, (ms, directory) in self._pending.items() if ms <= now_ms or directory.full]
        removed: set[str] = set()
        for path, directory in due:
            failed = self.remove(directory, path)
            if failed is None or directory.failure is not None:
                del self._pending[path]
            if failed is None:
                removed.add(path)
            yield failed
        gone = {key: former for key, former in self._former.items() if former.path in removed}
        for directory in dict.fromkeys(former.directory for former in gone.values()):
            if self._sync(directory):
                for key, former in gone.items():
                    if former.directory is directory and self._former.get(key) is former:
                        del self._former[key]
            yield None

    def remove(self, directory: LogDirectory, path: str) -> KafkaError | None:
        """Delete a directory at once; return the error, or None."""
        try:
            with directory.storage_errors():
                self._disk.remove_tree(path)
        except KafkaError as error:
            return error
        return None
