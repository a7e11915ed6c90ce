"""A reader with a fetch session knows what a reader with full fetches would know (KIP-227; rule 25).

Whatever is appended, deleted and elected between its fetches, at any limit and even if its session is evicted, it
reads every record once and in order, and after a fetch without a limit it knows each partition's high watermark and
log start.
"""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.record_batch import iter_batches
from tests.examples import examples
from tests.unit.broker.node import Node, stored_bytes

PARTITIONS = 3
UNLIMITED = 1 << 20
INDEXES = st.integers(0, PARTITIONS - 1)
LIMITS = st.sampled_from([0, 1, 150, 400, UNLIMITED])

Wanted = FetchRequest.Topic.Partition


class Read:
    """The reader's state of one partition."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.high_watermark = -1
        self.log_start_offset = -1


class Reader(RuleBasedStateMachine):
    """`known` are the partitions to read; `changed` those to send with the next request of the session."""

    version = 12

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="sessions-"))
        self.node = Node(str(self.folder), max_incremental_fetch_session_cache_slots="2")
        self.node.start()
        self.topic_id = self.node.create("t", PARTITIONS)
        self.known: dict[int, Read] = {}
        self.changed: set[int] = set()
        self.forgotten: set[int] = set()
        self.session_id = self.epoch = 0

    def teardown(self) -> None:
        try:
            for _ in range(3):  # an error, then a new session, then a full fetch
                self.fetch(UNLIMITED, take=True, wait=False)
        finally:
            self.node.stop()
            rmtree(self.folder)

    # Changes to the partitions.

    @rule(index=INDEXES, size=st.sampled_from([1, 200]))
    def append(self, index: int, size: int) -> None:
        self.node.append("t", (None, bytes(size)), index=index)

    @rule(index=INDEXES)
    def delete_all_records(self, index: int) -> None:
        self.node.replicas.delete_records(self.node.partition("t", index), -1)

    @rule(index=INDEXES)
    def elect(self, index: int) -> None:
        self.node.elect("t", 1, index=index)

    @rule()
    def run_the_loop(self) -> None:
        self.node.pass_time(0)

    # The reader.

    @rule(index=INDEXES)
    def add(self, index: int) -> None:
        if index not in self.known and index not in self.forgotten:
            self.known[index] = Read(self.node.partition("t", index).log.log_start_offset)
            self.changed.add(index)

    @rule(index=INDEXES)
    def forget(self, index: int) -> None:
        if index in self.known and index not in self.changed and len(self.known) > 1:
            del self.known[index]
            self.forgotten.add(index)

    @rule()
    def evict_the_session(self) -> None:
        self.node.pass_time(121)
        for _ in range(2):
            self.query([Wanted(partition=0, fetch_offset=0, partition_max_bytes=0)], [], session_epoch=0)

    @rule(max_bytes=LIMITS, take=st.booleans(), wait=st.booleans())
    def fetch(self, max_bytes: int, take: bool, wait: bool) -> None:
        """Fetch; with `take`, advance past the records read, otherwise the next fetch must return them again."""
        full = self.epoch == 0
        named = self.known if full else self.changed
        response = self.query(
            [
                Wanted(partition=index, fetch_offset=self.known[index].offset, partition_max_bytes=UNLIMITED)
                for index in sorted(named)
            ],
            [] if full else sorted(self.forgotten),
            max_bytes=max_bytes,
            max_wait_ms=100 if wait else 0,
            session_id=self.session_id,
            session_epoch=self.epoch,
        )
        if response.error_code:
            assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self.session_id = self.epoch = 0
            return
        self.changed.clear()
        self.forgotten.clear()
        self.session_id = response.session_id
        self.epoch = self.epoch + 1 if self.session_id else 0
        answered = {part.partition_index: part for topic in response.responses for part in topic.partitions}
        for index, part in answered.items():
            self.take_in(index, part, take=take)
        if max_bytes == UNLIMITED and not any(part.error_code for part in answered.values()):
            for index, read in self.known.items():
                self.check_full_knowledge(index, read, answered.get(index), take=take)

    def query(self, wanted: list[Wanted], forgotten: list[int], **fields: Any) -> Any:
        topic: dict[str, Any] = {"topic": "t", "topic_id": self.topic_id}
        return self.node.answer(
            ApiKey.FETCH,
            self.version,
            topics=[FetchRequest.Topic(partitions=wanted, **topic)] if wanted else [],
            forgotten_topics_data=[FetchRequest.ForgottenTopic(partitions=forgotten, **topic)] if forgotten else [],
            **{"max_wait_ms": 0, "min_bytes": 1} | fields,
        )

    def take_in(self, index: int, part: Any, *, take: bool) -> None:
        assert index in self.known, "an answer about a partition that was not requested"
        read = self.known[index]
        if part.error_code:
            assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            read.offset = self.node.partition("t", index).log.log_start_offset
            self.changed.add(index)
            return
        read.high_watermark, read.log_start_offset = part.high_watermark, part.log_start_offset
        data = stored_bytes(part.records)
        offsets = [header.base_offset for _, header in iter_batches(data)]
        assert offsets == list(range(read.offset, read.offset + len(offsets)))
        if take and offsets:
            read.offset += len(offsets)
            self.changed.add(index)

    def check_full_knowledge(self, index: int, read: Read, part: Any, *, take: bool) -> None:
        log = self.node.partition("t", index).log
        assert (read.high_watermark, read.log_start_offset) == (log.high_watermark, log.log_start_offset)
        if take:
            assert read.offset == log.high_watermark
        else:
            assert bool(part and part.records) == (read.offset < log.high_watermark)


class ReaderByIds(Reader):
    """The same reader with topic ids instead of names."""

    version = 13


@pytest.mark.parametrize("reader", [Reader, ReaderByIds])
def test_rule_25_session_returns_what_full_fetches_would(reader: type[Reader]) -> None:
    run_state_machine_as_test(
        reader, settings=settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
    )
