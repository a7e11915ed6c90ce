"""Producers and consumers, as tasks of simulated client processes that hold what they are told against the history."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from protocol.api import ApiKey
from protocol.compression import Compression
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch, iter_batches, iter_records
from tests.simulation.client import Address, Client, Lost
from tests.simulation.history import History
from tests.simulation.violation import Invariant

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
"""What a client waits out."""

_FORGOTTEN = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
_SESSION_ERRORS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class Topic:
    """A topic that is there all the time."""

    def __init__(self, name: str, topic_id: bytes, partitions: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class Batch:
    """What a producer sends to a partition in one piece, as often as it takes."""

    def __init__(self, values: list[bytes], records: bytes) -> None:
        self.values = values
        self.records = records


class Producer:
    """Sends records, and again until they are acknowledged."""

    def __init__(self, client: Client, history: History, topic: Topic, *, idempotent: bool, acks: int) -> None:
        self.client = client
        self.history = history
        self.topic = topic
        self.idempotent = idempotent
        self.acks = acks
        random = client.random
        self._version = random.choice((9, 11, 13))
        self._in_flight = random.choice((1, 3, 5)) if idempotent else 1
        self._producer_id, self._epoch, self._life = -1, -1, 0
        self._sequences: dict[int, int] = {}
        self._generations: dict[int, int] = {}
        self._acknowledged: set[int] = set()
        self._numbers = 0

    async def run(self) -> None:
        world = self.client.world
        while not world.stopping:
            await self.send(self.client.random.randrange(self.topic.partitions))
            await self.client.pause()

    async def send(self, partition: int) -> None:
        """Send some batches to a partition, in order, until all are acknowledged or the producer's life ends."""
        if self.idempotent and self._producer_id < 0:
            await self._begin_life()
        count = self.client.random.randint(1, self._in_flight)
        unsent = [self._batch(partition) for _ in range(count)]
        while unsent:
            try:
                address = await self.client.leader(self.topic.name, partition)
                link = await self.client.link(address)
                answers = [
                    link.send(self.client.loop, ApiKey.PRODUCE, self._version, self._request(partition, batch))
                    for batch in unsent
                ]
                if self.acks == 0:
                    return
                for answer in answers:
                    response = await self.client.answer(link, answer)
                    if not self._answered(partition, unsent[0], response):
                        break
                    del unsent[0]
                else:
                    continue
                if self._producer_id < 0:
                    return
            except Lost:
                self.client.world.count("lost produces")
            self.client.forget()
            await self.client.pause(0.3)

    def _answered(self, partition: int, batch: Batch, response: Any) -> bool:
        """Take an answer; False if the batch has to be sent again, or the producer has no life any more."""
        [[answer]] = [topic.partition_responses for topic in response.responses]
        code = ErrorCode(answer.error_code)
        known = self.history.partition(self.topic.name, partition)
        check = self.client.world.check
        if code is ErrorCode.NONE:
            self._acknowledged.add(partition)
            if self.acks == 1 and self.client.world.clustered:
                return True  # the next leader may not have it
            for offset, value in enumerate(batch.values, answer.base_offset):
                known.acknowledged(offset, value, firm=self.acks != 1)
            self.client.world.count("acknowledged records", len(batch.values))
            return True
        if self.idempotent and code in _FORGOTTEN:
            # Where nothing is known of a producer, its second batch is taken though its first was refused just before.
            begins = self.client.world.clustered and partition not in self._acknowledged
            lost = begins or self.acks == 1 or known.generation > self._generations.get(partition, known.generation)
            check(
                Invariant.SEQUENCES_ARE_KEPT,
                lost,
                f"{self.client.name} lost nothing and got {code.name}: {answer.error_message}",
            )
            self._producer_id = -1
            return False
        check(
            Invariant.PRODUCE_ANSWERS,
            code in PATIENCE,
            f"{self.client.name} got {code.name} for a Produce: {answer.error_message}",
        )
        return False

    async def _begin_life(self) -> None:
        while self._producer_id < 0:
            try:
                answer = await self.client.call(
                    self.client.any_broker(),
                    ApiKey.INIT_PRODUCER_ID,
                    4,
                    transactional_id=None,
                    transaction_timeout_ms=1000,
                )
            except Lost:
                await self.client.pause()
                continue
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                self.client.world.producer_id(answer.producer_id, self.client.name)
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                self._life += 1
                self._sequences.clear()
                self._acknowledged.clear()
                self._generations.clear()
            else:
                self.client.world.check(
                    Invariant.PRODUCE_ANSWERS, code in PATIENCE, f"{self.client.name} got no id: {code.name}"
                )
                await self.client.pause()

    def _batch(self, partition: int) -> Batch:
        random = self.client.random
        values = []
        for _ in range(random.choice((1, 1, 2, 3))):
            self._numbers += 1
            padding = b"." * random.choice((0, 10, 200, 2000))
            values.append(b"%s/%d/%d %s" % (self.client.name.encode(), self._life, self._numbers, padding))
        self.history.attempted.update(dict.fromkeys(values, self.idempotent))
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(values)
        known = self.history.partition(self.topic.name, partition)
        self._generations.setdefault(partition, known.generation)
        batch = build_batch(
            [(None, value) for value in values],
            timestamp_ms=self.client.world.hosts[0].now_ms(),
            compression=random.choice((Compression.NONE, Compression.NONE, Compression.LZ4)),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence if self.idempotent else -1,
        )
        return Batch(values, bytes(batch))

    def _request(self, partition: int, batch: Batch) -> dict[str, Any]:
        part = ProduceRequest.Topic.Partition(index=partition, records=memoryview(batch.records))
        topic = ProduceRequest.Topic(name=self.topic.name, topic_id=self.topic.topic_id, partition_data=[part])
        return {"acks": self.acks, "timeout_ms": 2000, "topic_data": [topic]}


class Session:
    """A fetch session with one broker, of the partitions that it leads."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self.at = (0, 0)
        self.named: dict[int, int] = {}


class Consumer:
    """Reads a topic from its start on, by fetch sessions, and never comes to see anything else there."""

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
        self.found: dict[int, dict[int, bytes]] = {index: {} for index in self.positions}
        self._last: dict[tuple[int, bytes], int] = {}
        self.starts = dict.fromkeys(self.positions, 0)

    def _known(self, index: int) -> Any:
        return self.history.partition(self.topic.name, index)

    async def run(self) -> None:
        while not self.client.world.stopping:
            await self.fetch()
            await self.client.pause(0.02)
            if self.client.world.clustered:
                index, chance = self.client.random.randrange(self.topic.partitions), self.client.random.random()
                if chance < 0.4:
                    await self.latest(index)
                elif chance < 0.45:
                    await self.believe_in_another_leader_epoch(index)

    async def read_all(self, ends: dict[int, int]) -> None:
        """Read until the positions are `ends`."""
        while unread := [index for index, end in ends.items() if self.positions[index] < end]:
            await self.fetch(unread)

    async def ends(self) -> dict[int, int]:
        """Return where each partition ends now."""
        ends: dict[int, int] = {}
        for index in self.positions:
            while (end := await self.latest(index)) is None:
                await self.client.pause()
            ends[index] = end
        return ends

    async def latest(self, index: int) -> int | None:
        """Return where a partition ends now, None if nobody says so; not before what anybody was told of already."""
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
        if self.client.world.clustered and epoch >= 0 and one.leader_epoch >= epoch:
            said = f"{self.topic.name}-{index} ends at {one.offset} for {address[0]}"
            self.client.world.check(
                Invariant.LATEST_IS_NOT_BEHIND, one.offset >= floor, f"{said}, and was known up to {floor}"
            )
        return int(one.offset)

    async def believe_in_another_leader_epoch(self, index: int) -> None:
        """Fetch in a leader epoch that is over, or none yet: nobody answers that (KIP-320)."""
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
            one.error_code or host.starts != starts,  # a process that has just begun may be in an epoch that is over
            f"{self.topic.name}-{index} is read in leader epoch {epoch}",
        )

    async def fetch(self, unread: Sequence[int] = ()) -> None:
        """Fetch once, of the leader of one of the `unread`, of any by default; a failure begins a session anew."""
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
        if host.starts != starts:  # the connection was made after another start: another process has answered
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
        """Read again what may be others' records now."""
        for index, generation in self._generations.items():
            known = self._known(index)
            if known.generation > generation:
                self._generations[index] = known.generation
                self.positions[index] = min(self.positions[index], known.durable_end)
                self.found[index] = {at: v for at, v in self.found[index].items() if at < self.positions[index]}
                self._high_watermarks.pop(index, None)
                self._last = {key: at for key, at in self._last.items() if key[0] != index}

    def _take(self, partition: Any, floors: dict[int, int], process: object, led: set[int]) -> None:
        """Hold what a partition's answer says against what is known; `process` leads those that are `led`."""
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
                return  # who does not lead any more, or never did, may have less than there is
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
        # A leader that has just begun may lag behind what its predecessor had committed.
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
        try:
            self._read(index, bytes(partition.records or b""), high_watermark)
        except KafkaError as error:
            check(Invariant.RECORDS_ARE_WHOLE, False, f"{name}: {error}")

    def _read(self, index: int, data: bytes, high_watermark: int) -> None:
        known, check, name = self._known(index), self.client.world.check, f"{self.topic.name}-{index}"
        for at, header in iter_batches(data):
            for record in iter_records(memoryview(data)[at : at + header.size_bytes]):
                offset = record.offset
                if offset < self.positions[index]:
                    continue
                check(
                    Invariant.READS_HAVE_NO_GAPS,
                    offset == self.positions[index],
                    f"{name}: {offset} follows on {self.positions[index] - 1}",
                )
                check(
                    Invariant.READS_ARE_COMMITTED,
                    offset < high_watermark,
                    f"{name}: read {offset} at the high watermark {high_watermark}",
                )
                value = bytes(record.value or b"")
                known.read(offset, value)
                self.found[index][offset] = value
                self.positions[index] = offset + 1
                self.client.world.count("read records")
                if self.history.attempted.get(value) and value not in known.repeated:
                    self._in_order(index, name, value)

    def _in_order(self, index: int, name: str, value: bytes) -> None:
        producer, _, number = value.split(b" ", 1)[0].rpartition(b"/")
        last = self._last.get((index, producer), 0)
        self.client.world.check(
            Invariant.RECORDS_ARE_IN_ORDER, int(number) > last, f"{name}: {value[:40]!r} comes after number {last}"
        )
        self._last[index, producer] = int(number)


async def within(world: Any, limit_s: float, what: str, *work: Any) -> None:
    """Wait for `work`, which has to be done within `limit_s`."""
    try:
        async with asyncio.timeout(limit_s):
            await asyncio.gather(*work)
    except TimeoutError:
        world.check(
            Invariant.PROGRESS, False, f"no progress within {limit_s:.0f} s after everything was healed: {what}"
        )
