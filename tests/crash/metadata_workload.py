"""A random life of a metadata log: what the raft driver does to it, in its order, and relies on after each step.

After each step a mark in the trace says what is known (`Known`). The model is the list of all entries: nothing but a
power cut takes any back, and that only from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from broker.metadata_log import MetadataLog, Retention
from controller.commands.bootstrap import bootstrap_records
from controller.raft import NOBODY, Entry, QuorumState
from controller.snapshot import SnapshotId, encode_snapshot
from controller.voters import Voter, VoterSet
from protocol.records.metadata import ConfigRecord
from protocol.schema import Message
from storage.flush import Flush
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from tests.crash.checks import Broken
from tests.crash.memory_disk import Mark, MemoryDisk

NOW_MS = 1_700_000_000_000
DIRECTORY = "/a"
PATH = f"{DIRECTORY}/__cluster_metadata-0"
NODE = 1
VOTERS = VoterSet([Voter(NODE, b"directory-number")])
CONFIG = LogConfig(
    cleanup_policy=frozenset(), segment_bytes=6000, segment_ms=5000, file_delete_delay_ms=0, index_interval_bytes=1024
)
RETENTIONS = (Retention(-1, -1), Retention(0, -1), Retention(15000, -1), Retention(-1, 500))


class Known(NamedTuple):
    """What a start after a power cut may find: entries up to either number, and this or a later state and snapshot."""

    durable: int
    appended: int
    quorum: QuorumState
    snapshot_end: int


class Workload:
    """A metadata log on `disk` under random actions; `entries` are those of an earlier life of the same directory."""

    def __init__(self, disk: MemoryDisk, random: Random, entries: list[Entry] | None = None) -> None:
        self.disk = disk
        self.random = random
        self.now = NOW_MS
        self.entries = entries if entries is not None else []
        self.durable = len(self.entries)
        self.directory, self.log = start(disk, self.now)
        self.quorum = self.log.read_quorum_state()
        self.snapshot_end = newest(self.log).end_offset
        self.mark()
        self.campaign()

    def run(self, actions: int) -> None:
        """Do so many things."""
        kinds, weights = zip(*_ACTIONS, strict=True)
        for kind in self.random.choices(kinds, weights, k=actions):
            self.now += self.random.choice((1, 10, 400))
            kind(self)

    def known(self) -> Known:
        return Known(self.durable, len(self.entries), self.quorum, self.snapshot_end)

    def mark(self) -> None:
        """Say in the trace what is known now."""
        if self.disk.trace is not None:
            self.disk.trace.append(Mark(self.known()))

    def campaign(self) -> None:
        """Vote for itself in the next epoch, lead, and begin the epoch with an entry."""
        epoch = max(self.quorum.epoch, self.log.end_epoch) + 1
        for state in (
            QuorumState(epoch, NOBODY, NODE, VOTERS.by_id[NODE].directory_id),
            QuorumState(epoch, NODE, NODE, VOTERS.by_id[NODE].directory_id),
        ):
            self.log.write_quorum_state(state, VOTERS, 1)
            self.quorum = state
            self.mark()
        self.append()

    def append(self) -> None:
        """Append some entries; whoever sent their commands is answered once they are synced."""
        flush = self._append()
        if flush is not None:
            flush.sync()
            flush.finish()
        self.durable = len(self.entries)
        self.mark()
        self.log.committed(self.log.end_offset)

    def _append(self) -> Flush | None:
        entries = []
        offset = self.log.end_offset
        for _ in range(self.random.choice((1, 1, 1, 2, 5))):
            size = self.random.choice((0, 40, 300, 1200))
            records = [_record(self.random, offset + at, size) for at in range(self.random.choice((1, 1, 2, 6)))]
            entries.append(Entry(offset, self.quorum.epoch, tuple(records)))
            offset = entries[-1].next_offset
        flush = self.log.append(entries, self.now)
        self.entries += entries
        self.mark()
        return flush

    def snapshot(self) -> None:
        """Store a snapshot in the thread while the loop goes on, then count it and drop what is before one."""
        snapshot = SnapshotId(self.log.end_offset, self.entries[-1].epoch)
        if snapshot.end_offset == self.snapshot_end:
            return
        data = encode_snapshot(
            snapshot_records(self.entries, snapshot.end_offset),
            epoch=snapshot.epoch,
            now_ms=self.now,
            last_timestamp_ms=self.now,
            voters=VOTERS,
        )
        self.log.write_snapshot(snapshot, b"".join(data))
        self.snapshot_end = snapshot.end_offset
        self.mark()
        if self.random.random() < 0.5:
            self.append()
        self.log.added_snapshot(snapshot, self.random.choice(RETENTIONS), self.now)
        self.mark()

    def stop(self) -> None:
        """Stop in order, and start again."""
        self.log.close(self.now)
        self.directory.close(clean=True)
        self._restart()

    def kill(self) -> None:
        """Let the process die, which loses nothing, and start again."""
        self._restart()

    def die_before_the_sync(self) -> None:
        """Let the process die with entries that are written but not synced: the next one finds and counts them."""
        self._append()
        self._restart()

    def _restart(self) -> None:
        self.directory, self.log = start(self.disk, self.now)
        everything = self.known()._replace(durable=len(self.entries))
        check(self.disk, self.log, self.entries, everything, everything)
        self.campaign()


def start(disk: MemoryDisk, now_ms: int) -> tuple[LogDirectory, MetadataLog]:
    """Open the metadata log as a broker does."""
    directory = LogDirectory(disk, DIRECTORY)
    directory.open()
    return directory, MetadataLog.open(disk, directory, VOTERS, config=CONFIG, now_ms=now_ms)


def newest(log: MetadataLog) -> SnapshotId:
    """Return the newest snapshot: there is one from the start, with the first voters."""
    if log.newest_snapshot is None:
        raise Broken("the first voters are gone")
    return log.newest_snapshot


def snapshot_records(entries: list[Entry], end_offset: int) -> list[Message]:
    """Return what a snapshot of the first entries holds: here, all of their last fifty records."""
    records = [record for entry in entries if entry.base_offset < end_offset for record in entry.records]
    return records[-50:]


def check(disk: MemoryDisk, log: MetadataLog, entries: list[Entry], before: Known | None, after: Known) -> None:
    """Raise `Broken` unless the log is as was known at the mark before or the mark after, or between the two.

    Before the first mark of all nothing was promised, but that there is a new log.
    """
    least = before or Known(0, 0, QuorumState(), 0)
    end = log.end_offset
    durable_end = _end(entries, least.durable)
    _hold(end >= durable_end, f"the log ends at {end}, before {durable_end}")
    expected = [entry for entry in entries[: after.appended] if entry.next_offset <= end]
    _hold(end == _end(expected, len(expected)), f"the log ends at {end}, amid an entry or past the last")
    _hold(log.end_epoch == (expected[-1].epoch if expected else 0), f"epoch {log.end_epoch} is not the last entry's")

    snapshot = newest(log)
    _hold(snapshot.end_offset >= least.snapshot_end, f"{snapshot} is before the snapshot of {least.snapshot_end}")
    for name in disk.list_dir(PATH):
        if name.endswith(".checkpoint"):
            end_offset = int(name[:20])
            found = log.read_snapshot(SnapshotId(end_offset, int(name[21:31])))
            _hold(found.records == tuple(snapshot_records(entries, end_offset)), f"{name} holds something else")
            _hold(found.voters is not None and found.voters.by_id == VOTERS.by_id, f"{name} has other voters")
    wanted = [entry for entry in expected if entry.base_offset >= snapshot.end_offset]
    _hold(list(log.read_entries(snapshot.end_offset)) == wanted, f"the entries after {snapshot} are others")

    quorum = log.read_quorum_state()
    _hold(quorum in (least.quorum, after.quorum), f"{quorum} is stored, not {least.quorum}, nor {after.quorum}")
    _hold(quorum.epoch >= log.end_epoch, f"epoch {quorum.epoch} is stored, but entries are of {log.end_epoch}")
    _hold(log.bootstrap_records() == tuple(bootstrap_records()), "the bootstrap records are others")


def _hold(condition: bool, problem: str) -> None:
    if not condition:
        raise Broken(problem)


def _end(entries: list[Entry], count: int) -> int:
    return entries[count - 1].next_offset if count else 0


def _record(random: Random, offset: int, size: int) -> ConfigRecord:
    value = f"{offset} " + random.randbytes(size // 2).hex()
    return ConfigRecord(resource_type=2, resource_name="topic", name="name", value=value)


_ACTIONS: tuple[tuple[Callable[[Workload], None], int], ...] = (
    (Workload.append, 30),
    (Workload.campaign, 3),
    (Workload.snapshot, 6),
    (Workload.stop, 2),
    (Workload.kill, 2),
    (Workload.die_before_the_sync, 2),
)
