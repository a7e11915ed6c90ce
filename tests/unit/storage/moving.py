"""A manager of two directories whose logs move from one to the other, step by step."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

from storage.disk import OsDisk
from storage.future_replicas import FutureReplica
from storage.log.log import Log, LogConfig
from storage.log_manager import LogManager
from storage.steps import Step
from tests.logs import NOW_MS, TOPIC_ID, content, fill

CONFIG = LogConfig(segment_bytes=200_000, file_delete_delay_ms=60)
KB = 1000


class Manager(LogManager):
    """A manager of directories a and b, with one log in a."""

    made: list[Manager]

    def __init__(self, folder: Path, disk: OsDisk | None = None, seed: int = 1) -> None:
        self.now = NOW_MS
        self.disk = disk or OsDisk()
        paths = [str(folder / name) for name in "ab"]
        super().__init__(self.disk, paths, CONFIG, now_ms=lambda: self.now, random=Random(seed))
        Manager.made.append(self)
        self.open()
        self.format("WV5yoIVIQ7q2wIB0pOwZQg", 1)
        for _ in self.load():
            pass
        self.first, self.second = self.directories

    def create_log(self, config: LogConfig = CONFIG) -> Log:
        return self.create("topic", TOPIC_ID, 0, config, self.first.directory_id)

    def started(self, log: Log) -> FutureReplica:
        move = self.moves.begin(log, self.second)
        assert move is not None
        return move

    def moved(self, log: Log, between: Callable[[], object] = lambda: None) -> None:
        """Move a log to the second directory; call `between` between every two steps."""
        steps = self.moves.steps(self.started(log))
        advance: Callable[[], Step] = partial(next, steps)
        with suppress(StopIteration):
            while True:
                step = advance()
                try:
                    advance = partial(steps.send, None if step is None else step())
                except OSError as error:
                    advance = partial(steps.throw, error)
                between()

    def crash(self) -> None:
        self.close(clean=False)

    def names(self) -> list[str]:
        """Return the partition directories, without those being deleted."""
        return [
            f"{Path(directory.path).name}/{re.sub('[.][0-9a-f]{32}', '…', path.name)}"
            for directory in self.directories
            for path in sorted(Path(directory.path).iterdir())
            if path.is_dir() and not path.name.endswith("-delete")
        ]


def restarted(manager: Manager, *, clean: bool = False) -> Manager:
    manager.close(clean=clean)
    return Manager(Path(manager.first.path).parent, seed=2)


def found(manager: Manager) -> Log:
    log = manager.get("topic", 0)
    assert log is not None
    return log


def state(log: Log) -> tuple[object, ...]:
    """Return the state of a log that a move must not change."""
    producers = {key: (entry.epoch, entry.batches) for key, entry in log.producers.producers.items()}
    return (
        content(log), log.log_start_offset, log.log_end_offset, log.high_watermark,
        log.leader_epochs.entries, producers, log.topic_id,
    )  # fmt: skip


def promoted(manager: Manager) -> Log:
    """Return a log whose future replica has just replaced it: the old files are still there under its name."""
    log = manager.create_log()
    fill(log, 3)
    move = manager.started(log)
    for step in manager.moves.steps(move):
        if move.promoted:
            break
        if step is not None:
            step()
    return log
