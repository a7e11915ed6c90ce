"""Rule 10: the producer state after a restart equals a scan of the whole log, on leaders and on followers.

Epoch, batch window, last timestamp and open transaction of each producer: after a crash, whatever was synced,
checkpointed, truncated and rolled before it, and wherever the last write was torn; and after a clean shutdown. The
snapshots on disk equal a scan up to their offsets.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.record_batch import ControlType, assign, build_batch, control_record_key, end_txn_marker, iter_batches
from storage.log.log import Log, LogConfig
from storage.log.producer_snapshot import decode_snapshot
from storage.log.producer_state import ProducerStateManager
from tests.examples import examples
from tests.logs import NOW_MS, batch, content, open_log

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100)

DOINGS = [
    *(
        "plain",
        "plain",
        "transactional",
        "commit",
        "abort",
        "commit_and_bump",
        "abort_and_bump",
        "bump",
        "unknown_client",
    ),
    *("flush", "roll", "restart", "crash", "truncate"),
]
# (producer, action, number of records)
ACTIONS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from(DOINGS),
        st.integers(1, 3),
    ),
    max_size=40,
)


class Writer:
    """Writes to a log as the leader for clients and the transaction coordinator, or as a follower that copies them."""

    def __init__(self, folder: Path, follower: bool) -> None:
        self.folder = folder
        self.follower = follower
        self.log = open_log(folder, CONFIG)
        self.epochs = dict.fromkeys((1, 2, 3), 0)
        self.sequences = dict.fromkeys((1, 2, 3), 0)
        self.in_transaction: set[int] = set()

    def do(self, producer: int, action: str, count: int) -> None:
        if action == "flush":
            self.log.flush(NOW_MS)
        elif action == "roll":
            self.log.roll(NOW_MS)
        elif action == "restart":
            self.log.close(NOW_MS)
            self.log = open_log(self.folder, CONFIG, clean=True)
        elif action == "crash":
            self.log = open_log(self.folder, CONFIG, clean=False, recovery_point=self.log.recovery_point)
        elif action == "truncate":
            self.truncate(self.log.log_end_offset - 3 * count)
        elif action == "bump":
            if producer not in self.in_transaction:
                self.epochs[producer] += 1
                self.sequences[producer] = 0
        elif action == "unknown_client":
            self.append(batch(count))
        elif action in ("commit", "abort", "commit_and_bump", "abort_and_bump"):
            self.end_transaction(producer, committed=action.startswith("commit"), bumps=action.endswith("bump"))
        else:
            self.write(producer, count, transactional=action == "transactional" or producer in self.in_transaction)

    def truncate(self, offset: int) -> None:
        """Truncate to `offset` as a follower does; the producers continue from the remaining batches."""
        self.log.truncate_to(max(offset, 0))
        for producer in self.epochs:
            known = self.log.producers.producers.get(producer)
            self.epochs[producer] = known.epoch if known else 0
            self.sequences[producer] = known.batches[-1].last_sequence + 1 if known and known.batches else 0
            self.in_transaction.discard(producer)
            if known and known.txn_first_offset >= 0:
                self.in_transaction.add(producer)

    def write(self, producer: int, count: int, *, transactional: bool) -> None:
        fields = {"producer_id": producer, "producer_epoch": self.epochs[producer]}
        self.append(batch(count, base_sequence=self.sequences[producer], is_transactional=transactional, **fields))
        self.sequences[producer] += count
        if transactional:
            self.in_transaction.add(producer)

    def end_transaction(self, producer: int, *, committed: bool, bumps: bool) -> None:
        """Append a marker; with transaction.version 2 it has the epoch of the next transaction."""
        if producer not in self.in_transaction:
            return
        self.in_transaction.discard(producer)
        if bumps:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        marker = build_batch(
            [(control_record_key(kind), bytes(6))],
            timestamp_ms=NOW_MS,
            is_control=True,
            is_transactional=True,
            producer_id=producer,
            producer_epoch=self.epochs[producer],
        )
        assign(marker, self.log.log_end_offset, 0)
        self.log.append_as_follower(marker, 0, NOW_MS)

    def append(self, records: bytearray) -> None:
        if self.follower:
            assign(records, self.log.log_end_offset, 0)
            self.log.append_as_follower(records, 0, NOW_MS)
        else:
            self.log.append_as_leader(records, 0, NOW_MS)


def known(state: ProducerStateManager) -> dict[int, tuple[Any, ...]]:
    return {
        producer: (entry.epoch, entry.last_timestamp, entry.txn_first_offset, entry.batches)
        for producer, entry in state.producers.items()
    }


def check_snapshots(log: Log) -> None:
    paths = list(Path(log.directory).glob("*.snapshot"))
    for path in paths:
        offset = int(path.stem)
        held = decode_snapshot(path.read_bytes(), offset)
        full = scanned(log, offset)
        assert known(held) == {producer: (*all_but, last[-1:]) for producer, (*all_but, last) in known(full).items()}
    bases = {segment.base_offset for segment in log.segments[1:]}
    assert bases <= {int(path.stem) for path in paths}


def scanned(log: Log, end_offset: int = 1 << 62) -> ProducerStateManager:
    """Return the producer state of a scan of the whole log, or up to an offset."""
    state, data = ProducerStateManager(), content(log)
    for at, header in iter_batches(data):
        if header.base_offset >= end_offset:
            break
        marker = end_txn_marker(data[at : at + header.size_bytes]) if header.is_control else None
        state.update(header, marker)
    return state


@settings(max_examples=examples(150), deadline=None)
@given(actions=ACTIONS, follower=st.booleans(), torn_bytes=st.integers(0, 300), clean=st.booleans())
def test_rule_10_producer_state_after_a_restart_equals_a_full_scan(
    actions: list[tuple[int, str, int]], follower: bool, torn_bytes: int, clean: bool
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        writer = Writer(folder, follower)
        for action in actions:
            writer.do(*action)
        if clean:
            writer.log.close(NOW_MS)
        else:
            newest = max(Path(writer.log.directory).glob("*.log"))
            data = newest.read_bytes()
            newest.write_bytes(data[: max(0, len(data) - torn_bytes)])
        again = open_log(folder, CONFIG, clean=clean, recovery_point=writer.log.recovery_point)
        full = scanned(again)
        assert known(again.producers) == known(full)
        for state in (again.producers, full):
            state.high_watermark_moved(again.log_end_offset)
        assert again.producers.first_unstable_offset == full.first_unstable_offset
        assert again.producers.end_offset == again.log_end_offset
        check_snapshots(again)
