"""Consumers, as tasks of simulated client processes: they compare what they read with the history."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.record_batch import iter_batches, iter_records
from simulation.violation import Invariant
from tests.simulation.client import Address, Client, Lost
from tests.simulation.history import Content, History

PATIENCE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors after which a client retries."""

_SESSION_ERRORS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class Topic:
    """A topic that exists all the time."""

    def __init__(self, name: str, topic_id: bytes, partitions: int, *, compacted: bool = False) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.compacted = compacted


class Session:
    """A fetch session with one broker, of the partitions that it leads."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self.at = (0, 0)
        self.named: dict[int, int] = {}


class Consumer:
    """Read a topic from its start by fetch sessions; records that were read must never change."""

    def __init__(self, client: Client, history: History, topic: Topic) -> None:
        self.client = client
        self.history = history
        self.topic = topic
        random = client.random
        self._version = random.choice((7, 11, 12, 13, 16))
        self._max_bytes = random.choice((100, 4000, 100_000))
        self._sessions: dict[Address, Session] = {}
        self._high_watermarks: dict[int, tuple[int, object]] = {}
        self._generations = {index: self._known(index).generation for index in range(topic.partitions)}
        self.positions = dict.fromkeys(range(topic.partitions), 0)
        self.found: dict[int, dict[int, Content]] = {index: {} for index in self.positions}
        self._last: dict[tuple[int, bytes], int] = {}
        self.starts = dict.fromkeys(self.positions, 0)

    def _known(self, index: int) -> Any:
        return self.history.partition(self.topic.name, index)

    async def run(self) -> None:
        while not self.client.world.stopping:
            await self.fetch()
            await self.client.pause(0.02)
            if self.client.world.clustered or self.client.random.random() < 0.1:
                index, chance = self.client.random.randrange(self.topic.partitions), self.client.random.random()
                if chance < 0.4:
                    await self.latest(index)
                elif chance < 0.45:
                    await self.fetch_with_other_leader_epoch(index)

    async def read_all(self, ends: dict[int, int]) -> None:
        """Read until the positions are `ends`."""
        while unread := [index for index, end in ends.items() if self.positions[index] < end]:
            await self.fetch(unread)

    async def ends(self) -> dict[int, int]:
        """Return the current end of each partition."""
        ends: dict[int, int] = {}
        for index in self.positions:
            while (end := await self.latest(index)) is None:
                await self.client.pause()
            ends[index] = end
        return ends

    async def latest(self, index: int) -> int | None:
        """Return the current end of a partition, None if no broker returns it; it must not be before a known offset."""
        wanted = ListOffsetsRequest.Topic.Partition(partition_index=index, timestamp=-1)
        topics = [ListOffsetsRequest.Topic(name=self.topic.name, partitions=[wanted])]
        try:
            address = await self.client.leader(self.topic.name, index)
            epoch = self.client.world.leader_epoch(address, self.topic.name, index)
            floor = max(self._known(index).records, default=-1) + 1
            answer = await self.client.call(address, ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=topics)
        except Lost:
            self.client.forget()
            return None
        [[one]] = [topic.partitions for topic in answer.topics]
        if one.error_code != ErrorCode.NONE:
            self.client.forget()
            return None
        committed = self.client.world.committed.get((self.topic.name, index), 0)
        self.client.world.check(
            Invariant.LATEST_IS_COMMITTED,
            one.offset <= committed,
            f"{self.topic.name}-{index} ends at {one.offset} for {address[0]}, and is committed up to {committed}",
        )
        if self.client.world.clustered and epoch >= 0 and one.leader_epoch >= epoch:
            shown = f"{self.topic.name}-{index} ends at {one.offset} for {address[0]}"
            self.client.world.check(
                Invariant.LATEST_IS_NOT_BEHIND, one.offset >= floor, f"{shown}, and was known up to {floor}"
            )
        return int(one.offset)

    async def fetch_with_other_leader_epoch(self, index: int) -> None:
        """Fetch with an old or future leader epoch: no broker may return records (KIP-320)."""
        try:
            address = await self.client.leader(self.topic.name, index)
            host = self.client.world.host_at(address)
            starts, epoch = host.starts, self.client.world.leader_epoch(address, self.topic.name, index)
            if epoch < 1:
                return
            epoch += self.client.random.choice((-1, 1000))
            wanted = FetchRequest.Topic.Partition(
                partition=index, fetch_offset=0, partition_max_bytes=1, current_leader_epoch=epoch
            )
            topics = [FetchRequest.Topic(topic_id=self.topic.topic_id, partitions=[wanted])]
            answer = await self.client.call(address, ApiKey.FETCH, 13, max_wait_ms=0, min_bytes=0, topics=topics)
        except Lost:
            self.client.forget()
            return
        [[one]] = [topic.partitions for topic in answer.responses]
        self.client.world.check(
            Invariant.LEADER_EPOCHS_ARE_FENCED,
            one.error_code or host.starts != starts,  # a process that has just started may have an old epoch
            f"{self.topic.name}-{index} is read in leader epoch {epoch}",
        )

    async def fetch(self, unread: Sequence[int] = ()) -> None:
        """Fetch once from the leader of one of `unread` (default: of any partition); a failure starts a new session."""
        self._follow_losses()
        first = self.client.random.choice(unread or range(self.topic.partitions)) if self.client.world.clustered else 0
        try:
            address = await self.client.leader(self.topic.name, first)
        except Lost:
            self.client.forget()
            self._sessions.clear()
            await self.client.pause(0.3)
            return
        wanted = {index for index in self.positions if self.client.known_leader(self.topic.name, index) == address}
        session = self._sessions.get(address)
        if session is None or session.wanted != wanted:
            session = self._sessions[address] = Session(wanted)
        session_id, epoch = session.at
        wrong = session_id != 0 and self.client.random.random() < 0.02
        if wrong:
            epoch += self.client.random.choice((-1, 1, 5))
            epoch = 7 if epoch <= 0 else epoch
        named = {index: self.positions[index] for index in self.positions if index in wanted}
        if session_id:
            named = {index: at for index, at in named.items() if session.named.get(index) != at}
        floors = {index: self._known(index).start_floor for index in self.positions}
        host = self.client.world.host_at(address)
        starts = host.starts
        led = {index for index in wanted if self.client.world.leader_epoch(address, self.topic.name, index) >= 0}
        try:
            response = await self.client.call(
                address, ApiKey.FETCH, self._version, **self._request(session_id, epoch, named)
            )
        except Lost:
            self.client.forget()
            self._sessions.clear()
            await self.client.pause(0.3)
            return
        process: object = (address, starts)
        if host.starts != starts:  # connected after another start: another process has answered
            process, led = object(), set()
        code = ErrorCode(response.error_code)
        check = self.client.world.check
        if code is not ErrorCode.NONE:
            check(
                Invariant.FETCH_ANSWERS,
                session_id and code in _SESSION_ERRORS,
                f"{self.client.name} got {code.name} for a Fetch",
            )
            session.at = (0, 0)
            return
        check(
            Invariant.FETCH_SESSION_EPOCHS,
            not wrong,
            f"{self.client.name} was answered in epoch {epoch} of a fetch session, not {session.at[1]}",
        )
        if response.session_id:
            session.at = (response.session_id, epoch + 1)
            session.named = {**(session.named if session_id else {}), **named}
        else:
            session.at = (0, 0)
        for topic in response.responses:
            for partition in topic.partitions:
                self._take(partition, floors, process, led)

    def _request(self, session_id: int, epoch: int, named: dict[int, int]) -> dict[str, Any]:
        partitions = [
            FetchRequest.Topic.Partition(partition=index, fetch_offset=at, partition_max_bytes=self._max_bytes)
            for index, at in named.items()
        ]
        topic = FetchRequest.Topic(topic=self.topic.name, topic_id=self.topic.topic_id, partitions=partitions)
        return {
            "max_wait_ms": 200,
            "min_bytes": 1,
            "session_id": session_id,
            "session_epoch": epoch,
            "topics": [topic] if partitions else [],
        }

    def _follow_losses(self) -> None:
        """Read again from where records may have been lost and replaced."""
        for index, generation in self._generations.items():
            known = self._known(index)
            if known.generation > generation:
                self._generations[index] = known.generation
                self.positions[index] = min(self.positions[index], known.durable_end)
                self.found[index] = {at: v for at, v in self.found[index].items() if at < self.positions[index]}
                self._high_watermarks.pop(index, None)
                self._last = {key: at for key, at in self._last.items() if key[0] != index}

    def _take(self, partition: Any, floors: dict[int, int], process: object, led: set[int]) -> None:
        """Compare a partition's response with the history; `process` leads the partitions in `led`."""
        index, code = partition.partition_index, ErrorCode(partition.error_code)
        known, check, name = (
            self._known(index),
            self.client.world.check,
            f"{self.topic.name}-{partition.partition_index}",
        )
        if known.generation > self._generations[index]:
            return
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            below = self.positions[index] < max(known.start_ceiling, 1)
            if self.client.world.clustered and index not in led:
                self.client.forget()
                return  # a broker that does not lead may have less
            check(
                Invariant.READS_ARE_IN_RANGE,
                below,
                f"{name}: {self.positions[index]} is out of range, and nothing was deleted there",
            )
            self.positions[index] = max(self.positions[index], self.starts[index])
            if partition.log_start_offset >= 0:
                self.positions[index] = max(self.positions[index], partition.log_start_offset)
            else:
                self.positions[index] += 1
            self.starts[index] = self.positions[index]
            return
        if code is not ErrorCode.NONE:
            check(Invariant.FETCH_ANSWERS, code in PATIENCE, f"{self.client.name} got {code.name} for {name}")
            self.client.forget()
            return
        # A new leader may lag behind the high watermark of its predecessor.
        high_watermark = partition.high_watermark
        before, process_before = self._high_watermarks.get(index, (0, process))
        back = high_watermark < before and process == process_before
        check(
            Invariant.FETCHED_HIGH_WATERMARK_RISES,
            not back,
            f"{name}: the high watermark went back from {before} to {high_watermark}",
        )
        self._high_watermarks[index] = high_watermark, process
        if not self.client.world.clustered or index in led:
            known.started(partition.log_start_offset, floors[index])
        self.starts[index] = partition.log_start_offset
        damage: KafkaError | None = None
        try:
            self._read(index, bytes(partition.records or b""), high_watermark)
        except KafkaError as error:
            damage = error
        check(Invariant.RECORDS_ARE_WHOLE, damage is None, f"{name}: {damage}")

    def _read(self, index: int, data: bytes, high_watermark: int) -> None:
        known, check, name = self._known(index), self.client.world.check, f"{self.topic.name}-{index}"
        for at, header in iter_batches(data):
            for record in iter_records(memoryview(data)[at : at + header.size_bytes]):
                offset = record.offset
                if offset < self.positions[index]:
                    continue
                follows = offset == self.positions[index] or self.topic.compacted
                check(Invariant.READS_HAVE_NO_GAPS, follows, f"{name}: {offset} follows on {self.positions[index] - 1}")
                check(
                    Invariant.READS_ARE_COMMITTED,
                    offset < high_watermark,
                    f"{name}: read {offset} at the high watermark {high_watermark}",
                )
                content = Content(record.key, record.value, record.headers, record.timestamp)
                known.read(offset, content, header.partition_leader_epoch)
                self.found[index][offset] = content
                self.positions[index] = offset + 1
                self.client.world.count("read records")
                if self.history.attempted.get(content) and content not in known.repeated:
                    self._in_order(index, name, content)
            if self.topic.compacted:  # the last records of the batch may be gone
                self.positions[index] = max(self.positions[index], header.next_offset)

    def _in_order(self, index: int, name: str, content: Content) -> None:
        producer, _, number = content.identity.rpartition(b"/")
        last = self._last.get((index, producer), 0)
        self.client.world.check(
            Invariant.RECORDS_ARE_IN_ORDER, int(number) > last, f"{name}: {content} comes after number {last}"
        )
        self._last[index, producer] = int(number)


async def within(world: Any, limit_s: float, what: str, *work: Any) -> None:
    """Await `work`; report a violation after `limit_s`."""
    done = False
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await asyncio.gather(*work)
            done = True
    world.check(Invariant.PROGRESS, done, f"no progress within {limit_s:.0f} s after everything was healed: {what}")
