"""A random history of a metadata log: the calls of the raft driver, in its order, and what it relies on after each.

After each step a mark in the trace records what is known (`Known`). The model is a `Branch`: all entries since the
log began, at 0 or behind a received snapshot. A power cut may drop unsynced entries from the end. A truncation by a
new leader starts another branch, and so does a received snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple, TypeAlias

import pytest

from broker.metadata.metadata_log import MetadataLog, Retention
from controller.batches import encode_entry
from controller.commands.bootstrap import bootstrap_records
from controller.raft.follower import scan
from controller.raft.log import Entry, SnapshotId
from controller.raft.messages import NO_NODE, ElectionState
from controller.raft.voters import Voter, VoterSet
from controller.snapshot import encode_snapshot
from protocol.records.metadata import ConfigRecord
from protocol.schema import Message
from simulation.memory_disk import Mark, MemoryDisk
from storage.checkpoint import MetaProperties
from storage.inspection.kinds import is_log_directory
from storage.log.config import LogConfig
from storage.log.flush import Flush
from storage.log_directory import LogDirectory
from storage.steps import finish
from tests.crash.broken import Broken, Invariant
from tests.typed import present

NOW_MS = 1_700_000_000_000
DIRECTORY = "/a"
PATH = f"{DIRECTORY}/__cluster_metadata-0"
META = MetaProperties("cluster", 1, b"directory-number")
NODE, OTHER = 1, 2
VOTERS = VoterSet([Voter(NODE, b"directory-number")])
CONFIG = LogConfig(
    cleanup_policy=frozenset(), segment_bytes=6000, segment_ms=5000, file_delete_delay_ms=0, index_interval_bytes=1024
)
RETENTIONS = (Retention(-1, -1), Retention(0, -1), Retention(15000, -1), Retention(-1, 500))


class Branch(NamedTuple):
    """The entries of a log that begins behind a snapshot; append-only."""

    base: SnapshotId
    entries: list[Entry]

    def end(self, count: int) -> int:
        """Return the end offset of the first `count` entries."""
        return self.entries[count - 1].next_offset if count else self.base.end_offset

    def epoch(self, count: int) -> int:
        """Return the epoch of the last of the first `count` entries."""
        return self.entries[count - 1].epoch if count else self.base.epoch


class Known(NamedTuple):
    """Bounds of what a start after a power cut may find.

    Between `durable` and `appended` entries; this quorum state and snapshot, or later ones.
    """

    branch: Branch
    durable: int
    appended: int
    quorum: ElectionState
    snapshot_end: int


# The records of each snapshot, of any branch.
Contents: TypeAlias = dict[SnapshotId, tuple[Message, ...]]
_FIRST = SnapshotId(0, 0)


class Workload:
    """A metadata log on `disk` under random actions; `branch` and `contents` come from an earlier workload, if any."""

    def __init__(
        self, disk: MemoryDisk, random: Random, branch: Branch | None = None, contents: Contents | None = None
    ) -> None:
        self.disk = disk
        self.random = random
        self.now = NOW_MS
        self.branch = Branch(_FIRST, []) if branch is None else branch
        self.contents: Contents = {_FIRST: ()} if contents is None else contents
        self.durable = len(self.branch.entries)
        if branch is None:
            _die_in_the_first_start(disk)
        self.directory, self.log = start(disk, self.now)
        self.quorum = self.log.read_quorum_state()
        self.committed = self.snapshot_end = newest(self.log).end_offset
        self.mark()
        self.campaign()

    def run(self, actions: int) -> None:
        """Run this many random actions."""
        kinds, weights = zip(*_ACTIONS, strict=True)
        for kind in self.random.choices(kinds, weights, k=actions):
            self.now += self.random.choice((1, 10, 400))
            kind(self)

    def known(self) -> Known:
        return Known(self.branch, self.durable, len(self.branch.entries), self.quorum, self.snapshot_end)

    def mark(self) -> None:
        """Record in the trace what is known now."""
        if self.disk.trace is not None:
            self.disk.trace.append(Mark(self.known()))

    def campaign(self) -> None:
        """Vote for itself in the next epoch, become leader, and append the epoch's first entry."""
        epoch = self._next_epoch()
        self._store(ElectionState(epoch, NO_NODE, NODE, VOTERS.by_id[NODE].directory_id))
        self._store(ElectionState(epoch, NODE, NODE, VOTERS.by_id[NODE].directory_id))
        self.append()

    def append(self) -> None:
        """Append entries as the leader; clients receive responses once the entries are synced."""
        if self.quorum.leader_id != NODE:
            self.campaign()
            return
        self._sync(self._append())
        self._commit(self.log.end_offset)

    def follow(self) -> None:
        """Append entries received from the leader; their commit is known later, if ever."""
        if self.quorum.leader_id != OTHER:
            self._follow_another()
        entries = self._entries(self.log.end_epoch)
        batches = b"".join(encode_entry(entry, self.now) for entry in entries)
        sent = present(scan(batches, self.log.raft_log(), self.quorum.epoch).received)
        _hold(Invariant.ENTRIES_ARE_THE_SAME, sent.entries == tuple(entries), "what was received is not what was sent")
        flush = self.log.receive(sent, self.now)
        self.branch.entries.extend(entries)
        self.mark()
        self._sync(flush)
        if self.random.random() < 0.3:
            self._commit(self.random.choice(entries).next_offset)

    def truncate(self) -> None:
        """Truncate to a point that another leader's log contains."""
        if self.log.end_offset == self._floor():
            self.follow()
        base, entries = self.branch
        kept = [count for count in range(len(entries)) if self.branch.end(count) >= self._floor()]
        if not kept:
            return
        self._follow_another()
        count = self.random.choice(kept)
        self.log.truncate(self.branch.end(count))
        self.branch = Branch(base, entries[:count])
        self.durable = count
        self.mark()

    def reset_to_snapshot(self) -> None:
        """Receive a snapshot beyond the log end, or of a diverged epoch, and reset the log to it."""
        parted = self.random.random() < 0.5
        if parted:
            self.follow()
        self._follow_another()
        end_offset = self.log.end_offset + self.random.choice((1, 5, 100))
        if parted and self.log.end_offset > self._floor():
            end_offset = self.random.randint(self._floor() + 1, self.log.end_offset)
        snapshot = SnapshotId(end_offset, self.quorum.epoch)
        records = tuple(_record(self.random, at, 300) for at in range(self.random.choice((0, 1, 30))))
        self.contents[snapshot] = records
        data = b"".join(
            encode_snapshot(records, epoch=snapshot.epoch, now_ms=0, last_timestamp_ms=0, voters=VOTERS),
        )
        if self.random.random() < 0.3:
            self.log.write_snapshot_part(SnapshotId(end_offset + 1, snapshot.epoch), 0, b"of another")
        if self.random.random() < 0.3:
            self.log.write_snapshot_part(snapshot, 0, data[: len(data) // 2])
            self._reopen()
        size = self.random.choice((300, 4096, 1 << 20))
        for at in range(0, len(data), size):
            self.log.write_snapshot_part(snapshot, at, data[at : at + size])
        _hold(
            Invariant.SNAPSHOTS_ARE_WHOLE,
            finish(self.log.reset_to_snapshot(snapshot)).records == records,
            f"{snapshot} holds something else",
        )
        self.branch = Branch(snapshot, [])
        self.durable = 0
        self.committed = self.snapshot_end = end_offset
        self.mark()

    def snapshot(self) -> None:
        """Write a snapshot while appends continue, then add it and apply retention."""
        snapshot = SnapshotId(self.log.end_offset, self.log.end_epoch)
        if snapshot.end_offset == self.snapshot_end:
            return
        self._commit(snapshot.end_offset)
        self.contents[snapshot] = tuple(record for entry in self.branch.entries for record in entry.records)[-50:]
        data = encode_snapshot(
            self.contents[snapshot],
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
        self.log.add_snapshot(snapshot, self.random.choice(RETENTIONS), self.now)
        self.mark()

    def stop(self) -> None:
        """Stop cleanly and restart."""
        self.log.close(self.now)
        self.directory.close(clean=True)
        self._restart()

    def kill(self) -> None:
        """Kill the process, which loses nothing, and restart."""
        self._restart()

    def die_before_the_sync(self) -> None:
        """Kill the process with written but unsynced entries or vote; the next start keeps them."""
        if self.quorum.leader_id == NODE:
            self._append()
        else:
            self._vote_and_die()
        self._restart()

    def _vote_and_die(self) -> None:
        state = ElectionState(self._next_epoch(), NO_NODE, OTHER)
        with pytest.MonkeyPatch.context() as within:
            within.setattr(self.disk, "sync_dir", lambda path: None)
            self.log.write_quorum_state(state, VOTERS, 1)
        self.quorum = state

    def _append(self) -> Flush | None:
        entries = self._entries(self.quorum.epoch)
        flush = self.log.append(entries, self.now)
        self.branch.entries.extend(entries)
        self.mark()
        return flush

    def _entries(self, epoch: int) -> list[Entry]:
        """Return entries that follow the log, of `epoch` and later ones up to the current epoch."""
        entries: list[Entry] = []
        offset = self.log.end_offset
        for _ in range(self.random.choice((1, 1, 1, 2, 5))):
            epoch = self.random.randint(epoch, self.quorum.epoch)
            size = self.random.choice((0, 40, 300, 1200))
            records = [_record(self.random, offset + at, size) for at in range(self.random.choice((1, 1, 2, 6)))]
            entries.append(Entry(offset, epoch, tuple(records)))
            offset = entries[-1].next_offset
        return entries

    def _sync(self, flush: Flush | None) -> None:
        if flush is not None:
            flush.sync()
            flush.finish()
        self.durable = len(self.branch.entries)
        self.mark()

    def _commit(self, offset: int) -> None:
        self.committed = max(self.committed, offset)
        self.log.committed(self.committed)

    def _floor(self) -> int:
        """Return the lowest offset that a truncation may go to."""
        return max(self.committed, self.snapshot_end)

    def _next_epoch(self) -> int:
        return max(self.quorum.epoch, self.log.end_epoch) + 1

    def _follow_another(self) -> None:
        self._store(ElectionState(self._next_epoch(), OTHER))

    def _store(self, state: ElectionState) -> None:
        self.log.write_quorum_state(state, VOTERS, 1)
        self.quorum = state
        self.mark()

    def _restart(self) -> None:
        self._reopen()
        self.campaign()

    def _reopen(self) -> None:
        self.directory, self.log = start(self.disk, self.now)
        everything = self.known()._replace(durable=len(self.branch.entries))
        check(self.disk, self.log, self.contents, everything, everything)
        self.durable = len(self.branch.entries)
        self.mark()


def start(disk: MemoryDisk, now_ms: int) -> tuple[LogDirectory, MetadataLog]:
    """Open the metadata log as a broker does."""
    directory = LogDirectory(disk, DIRECTORY)
    directory.open()
    if directory.meta is None:
        logs = [name for name in directory.names() if is_log_directory(name)]
        _hold(Invariant.STARTS, not logs, f"{logs} are found without meta.properties")
        directory.format(META)
    return directory, MetadataLog.open(disk, directory, VOTERS, config=CONFIG, now_ms=now_ms)


def _die_in_the_first_start(disk: MemoryDisk) -> None:
    """Kill the process of the first start while it syncs `meta.properties`: the next one finds the unsynced file."""
    directory = LogDirectory(disk, DIRECTORY)
    directory.open()
    with pytest.MonkeyPatch.context() as within:
        within.setattr(disk, "sync_dir", lambda path: None)
        directory.format(META)


def newest(log: MetadataLog) -> SnapshotId:
    """Return the newest snapshot; there always is one, since the first holds the initial voters."""
    if log.newest_snapshot is None:
        raise Broken(Invariant.SNAPSHOTS_STAY, "the first voters are gone")
    return log.newest_snapshot


def check(disk: MemoryDisk, log: MetadataLog, contents: Contents, before: Known | None, after: Known) -> Branch:
    """Raise `Broken` unless the log is as known at the mark before or after the cut, or between the two.

    Before the first mark only the existence of a new log is promised. Return the entries found.
    """
    least = before or Known(after.branch, 0, 0, ElectionState(), 0)
    snapshot = newest(log)
    _hold(
        Invariant.SNAPSHOTS_STAY,
        snapshot.end_offset >= least.snapshot_end,
        f"{snapshot} is before the snapshot of {least.snapshot_end}",
    )
    branch, durable, appended = after.branch, least.durable, after.appended
    if least.branch.base != branch.base:
        # During the download of a snapshot: the log is the old one, or begins behind the snapshot.
        branch, durable, appended = (branch, 0, 0) if snapshot == branch.base else least[:3]
    elif least.branch is not branch:
        # During a truncation.
        branch, durable, appended = least.branch, min(durable, appended), least.appended
    end = log.end_offset
    durable_end = branch.end(durable)
    _hold(Invariant.ENTRIES_STAY, end >= durable_end, f"the log ends at {end}, before {durable_end}")
    count = sum(entry.next_offset <= end for entry in branch.entries[:appended])
    _hold(Invariant.ENTRIES_STAY, end == branch.end(count), f"the log ends at {end}, amid an entry or past the last")
    _hold(
        Invariant.ENTRIES_ARE_THE_SAME,
        log.end_epoch == branch.epoch(count),
        f"epoch {log.end_epoch} is not the last entry's",
    )

    for name in disk.list_dir(PATH):
        _hold(Invariant.SNAPSHOTS_ARE_WHOLE, not name.endswith(".part"), f"{name} was never received to its end")
        if name.endswith(".checkpoint"):
            kept = SnapshotId(int(name[:20]), int(name[21:31]))
            found = log.read_snapshot(kept)
            _hold(Invariant.SNAPSHOTS_ARE_WHOLE, found.records == contents[kept], f"{name} holds something else")
            _hold(
                Invariant.SNAPSHOTS_ARE_WHOLE,
                found.voters is not None and found.voters.by_id == VOTERS.by_id,
                f"{name} has other voters",
            )
    oldest = log.oldest_snapshot
    _hold(
        Invariant.SNAPSHOT_COVERS_THE_START,
        oldest is not None and log.start_offset <= oldest.end_offset,
        f"the log begins at {log.start_offset}",
    )
    entries = branch.entries[:count]
    wanted = [entry for entry in entries if entry.base_offset >= snapshot.end_offset]
    _hold(
        Invariant.ENTRIES_ARE_THE_SAME,
        list(log.read_entries(snapshot.end_offset)) == wanted,
        f"the entries after {snapshot} are others",
    )

    quorum = log.read_quorum_state()
    _hold(
        Invariant.QUORUM_STATE_STAYS,
        quorum in (least.quorum, after.quorum),
        f"{quorum} is stored, not {least.quorum}, nor {after.quorum}",
    )
    _hold(
        Invariant.QUORUM_STATE_STAYS,
        quorum.epoch >= log.end_epoch,
        f"epoch {quorum.epoch} is stored, but entries are of {log.end_epoch}",
    )
    _hold(
        Invariant.BOOTSTRAP_RECORDS_STAY,
        log.bootstrap_records() == tuple(bootstrap_records()),
        "the bootstrap records are others",
    )
    return Branch(branch.base, entries)


def _hold(invariant: Invariant, condition: bool, problem: str) -> None:
    if not condition:
        raise Broken(invariant, problem)


def _record(random: Random, offset: int, size: int) -> ConfigRecord:
    value = f"{offset} " + random.randbytes(size // 2).hex()
    return ConfigRecord(resource_type=2, resource_name="topic", name="name", value=value)


_ACTIONS: tuple[tuple[Callable[[Workload], None], int], ...] = (
    (Workload.append, 30),
    (Workload.campaign, 3),
    (Workload.follow, 12),
    (Workload.truncate, 5),
    (Workload.reset_to_snapshot, 5),
    (Workload.snapshot, 6),
    (Workload.stop, 2),
    (Workload.kill, 2),
    (Workload.die_before_the_sync, 2),
)
