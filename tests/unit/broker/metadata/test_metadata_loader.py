"""From the entries of a real metadata log to images and subscribers, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Never

import pytest

from broker.metadata.controller_event_queue import ControllerEventQueue
from broker.metadata.metadata_loader import MetadataLoader
from broker.metadata.metadata_log import MetadataLog
from broker.metadata.metadata_recovery import recover_metadata
from controller.batches import encode_entry
from controller.image import MetadataImage
from controller.raft.follower import scan
from controller.raft.log import Entry, SnapshotId
from controller.raft.voters import Voter, VoterSet
from controller.snapshot import encode_snapshot
from protocol.errors import InvariantError
from protocol.records.control import LeaderChangeMessage
from protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
)
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log_directory import LogDirectory
from storage.steps import finish
from tests.typed import present
from tests.unit.broker.node import VirtualLoop

BROKER = 4
CONFIG = LogConfig(cleanup_policy=frozenset(), file_delete_delay_ms=0)
EMPTY = MetadataImage(cluster_id="cluster")


def setting(value: int) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER, resource_name="", name="log.cleaner.threads", value=str(value))


def value(image: MetadataImage) -> str | None:
    return image.configs(BROKER, "").get("log.cleaner.threads")


class Applied:
    """A metadata log on a real disk, its loader, and what a subscriber has received."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.loop = VirtualLoop()
        self.failed: list[Any] = []
        self.caught_up = 0
        self.published: list[Any] = []
        self.open()

    def open(self) -> None:
        self.log = MetadataLog.open(
            OsDisk(), LogDirectory(OsDisk(), self.path), VoterSet([Voter(1)]), config=CONFIG, now_ms=1
        )
        self.commands = ControllerEventQueue(self.loop)
        self.applier = MetadataLoader(
            "cluster", self.commands, self.loop, applied=self.note_caught_up, failed=self.failed.append
        )
        self.applier.begin(self.log, recover_metadata(self.log, EMPTY))
        self.applier.subscribe(self.on_publish)  # type: ignore[arg-type]  # narrower than declared

    def note_caught_up(self) -> None:
        self.caught_up += 1

    def on_publish(self, before: MetadataImage, after: MetadataImage, records: tuple[ConfigRecord, ...]) -> None:
        self.published.append((value(before), value(after), len(records)))

    def append(self, *values: int, epoch: int = 1) -> None:
        """Append an uncommitted entry with a record for each value."""
        entry = Entry(self.log.end_offset, epoch, tuple(map(setting, values)))
        self.store(entry)

    def store(self, *entries: Entry) -> None:
        flush = self.log.append(entries, 1000)
        if flush is not None:
            flush.sync()
            flush.finish()
        self.applier.appended(entries)

    def commit(self, high_watermark: int) -> None:
        if self.log.committed(high_watermark):
            self.applier.apply_committed()
        self.loop.run_until_complete(self.applier.finish())

    @property
    def value(self) -> str | None:
        return value(self.applier.image)


@pytest.fixture
def applied(tmp_path: Path) -> Iterator[Applied]:
    made = Applied(tmp_path)
    yield made
    made.log.close(1)
    made.loop.close()


def test_uncommitted_records_are_not_applied(applied: Applied) -> None:
    applied.append(1)
    applied.append(2)
    applied.commit(1)
    assert applied.value == "1"
    assert applied.applier.next_offset == 1
    applied.commit(2)
    assert applied.value == "2"


def test_subscribers_receive_images_before_and_after_each_entry(applied: Applied) -> None:
    applied.append(1)
    applied.append(2, 3)
    applied.commit(3)
    assert applied.published == [(None, "1", 1), ("1", "3", 2)]
    assert applied.caught_up == 1


def test_image_carries_its_offset_and_epoch(applied: Applied) -> None:
    applied.append(1, 2, epoch=3)
    applied.commit(2)
    assert (applied.applier.image.offset, applied.applier.image.epoch) == (1, 3)


def test_control_records_advance_image_offset_without_notification(applied: Applied) -> None:
    change = LeaderChangeMessage(version=0, leader_id=1, voters=[], granting_voters=[])
    applied.store(Entry(0, 1, (change,)))
    applied.append(1)
    applied.commit(1)
    assert (applied.applier.image.offset, applied.published) == (0, [])


def test_transaction_is_published_as_whole_at_its_end(applied: Applied) -> None:
    applied.append(1)
    applied.store(Entry(1, 1, (BeginTransactionRecord(), setting(2))))
    applied.append(3)
    applied.commit(4)
    assert (applied.value, applied.applier.image.offset, applied.applier.in_transaction) == ("1", 3, True)
    applied.store(Entry(4, 1, (EndTransactionRecord(),)))
    applied.commit(5)
    assert applied.published == [(None, "1", 1), ("1", "3", 2)]
    assert not applied.applier.in_transaction


def test_metadata_transaction_continues_after_restart(applied: Applied) -> None:
    applied.append(1)
    applied.store(Entry(1, 1, (BeginTransactionRecord(), setting(2))))
    applied.append(3)
    applied.commit(4)
    applied.log.close(1)
    applied.open()
    applied.published.clear()
    applied.commit(4)
    assert (applied.value, applied.applier.in_transaction) == ("1", True)
    applied.store(Entry(4, 1, (AbortTransactionRecord(), setting(5))))
    applied.commit(6)
    assert (applied.published, applied.applier.in_transaction) == ([("1", "5", 1)], False)


def test_truncated_records_are_not_applied(applied: Applied) -> None:
    applied.append(1)
    applied.append(2)
    applied.log.truncate(1)
    applied.applier.truncate(1)
    applied.append(3, epoch=2)
    applied.commit(2)
    assert applied.published == [(None, "1", 1), ("1", "3", 1)]


def test_recovered_image_is_applied_once_known_committed(applied: Applied) -> None:
    applied.append(1)
    applied.append(2)
    applied.log.close(1)
    applied.open()
    assert applied.value is None
    applied.append(3)
    applied.commit(3)
    assert applied.value == "3"
    assert applied.published == [("2", "3", 1)], "a subscriber is not called for earlier records"  # type: ignore[unreachable]  # changed by the call above


def test_only_committed_part_of_recovered_log_is_applied(applied: Applied) -> None:
    applied.append(1)
    applied.append(2)
    applied.log.close(1)
    applied.open()
    applied.commit(1)
    assert (applied.value, applied.published) == ("1", [])
    applied.commit(2)
    assert applied.published == [("1", "2", 1)], "read from the log, as it was not noted"


def test_leader_snapshot_is_published_as_one_delta(applied: Applied) -> None:
    applied.append(1)
    applied.append(2)
    applied.commit(1)
    snapshot = SnapshotId(9, 4)
    data = b"".join(encode_snapshot([setting(7)], epoch=4, now_ms=1000, last_timestamp_ms=1000, voters=None))
    applied.log.write_snapshot_part(snapshot, 0, data)
    received = finish(applied.log.reset_to_snapshot(snapshot))
    applied.loop.run_until_complete(applied.applier.reset_to_snapshot(snapshot, received.records))
    assert applied.published[1:] == [("1", "7", 1)]
    assert (applied.applier.next_offset, applied.applier.image.epoch) == (9, 4)
    batch = bytes(encode_entry(Entry(9, 4, (setting(8),)), 1000))
    sent = present(scan(batch, applied.log.raft_log(), 4).received)
    flush = present(applied.log.receive(sent, 1000))
    flush.sync()
    flush.finish()
    applied.applier.appended(sent.entries)
    applied.commit(10)
    assert applied.value == "8"


def test_recovered_records_missing_at_leader_are_never_applied(applied: Applied) -> None:
    applied.append(1)
    applied.append(2)
    applied.log.close(1)
    applied.open()
    applied.log.truncate(1)
    applied.applier.truncate(1)
    applied.append(3, epoch=2)
    applied.append(4, epoch=2)
    seen = []
    applied.applier.subscribe(lambda _before, after, _records: seen.append(value(after)))
    applied.commit(3)
    assert seen == ["3", "4"]


def test_commands_complete_after_their_records_are_published(applied: Applied) -> None:
    seen = []
    answer = applied.loop.create_future()
    answer.add_done_callback(lambda _: seen.append(list(applied.published)))
    applied.commands.applied = lambda next_offset: next_offset == 1 and answer.set_result(None)  # type: ignore[assignment, func-returns-value, method-assign]  # replaced for this test; called for its effect
    applied.append(1)
    applied.commit(1)
    applied.loop.run_until_complete(asyncio.sleep(0))
    assert seen == [[(None, "1", 1)]]


def test_subscriber_steps_yield_to_loop(applied: Applied) -> None:
    taken = []

    def step_by_step(_before: MetadataImage, _after: MetadataImage, _records: tuple[ConfigRecord]) -> Iterator[None]:
        for number in range(3):
            applied.loop._jumping.passed_s += 0.02  # Each step takes longer than a time slice.
            taken.append(number)
            yield

    applied.applier.subscribe(step_by_step)  # type: ignore[arg-type]  # narrower than declared
    applied.append(1)
    applied.log.committed(1)
    applied.applier.apply_committed()
    between = []
    applied.loop.call_soon(lambda: applied.loop.call_soon(lambda: between.append(len(taken))))
    applied.loop.run_until_complete(applied.applier.finish())
    assert taken == [0, 1, 2]
    assert 0 < between[0] < 3


def test_unsubscribing_during_batch_skips_no_other_subscriber(applied: Applied) -> None:
    called: list[str] = []

    def leaving(_before: MetadataImage, _after: MetadataImage, _records: object) -> None:
        called.append("leaving")
        applied.applier.unsubscribe(leaving)

    def staying(_before: MetadataImage, _after: MetadataImage, _records: object) -> None:
        called.append("staying")

    applied.applier.subscribe(leaving)
    applied.applier.subscribe(staying)
    applied.append(1)
    applied.append(2)
    applied.commit(2)
    assert called == ["leaving", "staying", "staying"]


def test_waiter_for_record_resumes_before_later_records_are_applied(applied: Applied) -> None:
    first, given_up, third = (applied.loop.create_task(applied.applier.until_applied(offset)) for offset in (0, 0, 2))
    seen = []

    def slow(_before: MetadataImage, _after: MetadataImage, _records: tuple[ConfigRecord]) -> Iterator[None]:
        for _ in range(2):
            applied.loop._jumping.passed_s += 0.02  # Longer than a time slice.
            yield
        seen.append((applied.value, first.done()))

    applied.loop.call_soon(given_up.cancel)
    applied.applier.subscribe(slow)  # type: ignore[arg-type]  # narrower than declared
    applied.append(1)
    applied.append(2)
    applied.commit(2)
    assert seen == [("1", False), ("2", True)]
    assert not third.done()
    applied.append(3)
    applied.commit(3)
    applied.loop.run_until_complete(third)
    applied.loop.run_until_complete(applied.applier.until_applied(2))


def test_waiting_for_record_fails_after_loader_failure(applied: Applied) -> None:
    waiting = applied.loop.create_task(applied.applier.until_applied(0))
    applied.loop.call_soon(applied.applier.fail, InvariantError("no more"))
    for later in (waiting, applied.applier.until_applied(0)):
        with pytest.raises(InvariantError, match="no more"):
            applied.loop.run_until_complete(later)


def test_failing_subscriber_is_reported_and_stops_loader(applied: Applied) -> None:
    def fail(*_: tuple[ConfigRecord] | MetadataImage) -> Never:
        raise ValueError("a bug")

    applied.applier.subscribe(fail)  # type: ignore[arg-type]  # narrower than declared
    applied.append(1)
    applied.commit(1)
    assert [str(error) for error in applied.failed] == ["a bug"]
    assert applied.caught_up == 0
