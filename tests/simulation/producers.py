"""Producers, as tasks of simulated client processes: they send records, and check the responses against the history."""

from __future__ import annotations

from typing import Any

from protocol.api import ApiKey
from protocol.compression import Compression
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest
from protocol.record import Record
from protocol.record_batch import build_batch
from simulation.violation import Invariant
from tests.simulation.client import Client, Lost
from tests.simulation.history import ID_HEADER, Content, History
from tests.simulation.workload import PATIENCE, Topic

_KEYS = 6
_FORGOTTEN = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


class Batch:
    """A batch for one partition, sent until it is acknowledged."""

    def __init__(self, contents: list[Content], records: bytes, log_start: int, clean_stops: int) -> None:
        self.contents = contents
        self.records = records
        self.log_start = log_start
        """The largest log start that the partition may have had before the batch was sent."""
        self.clean_stops = clean_stops
        self.sent = 0
        """Number of times that it was sent."""


class Producer:
    """Send records, with retries until they are acknowledged."""

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
        self._keys = (
            tuple(b"key %d" % number for number in range(_KEYS)) if topic.compacted else (None, None, b"", b"k")
        )

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
                world = self.client.world
                leads = not world.clustered or world.leader_epoch(address, self.topic.name, partition) >= 0
                for batch in unsent:
                    batch.sent += 1
                answers = [
                    link.send(self.client.loop, ApiKey.PRODUCE, self._version, self._request(partition, batch))
                    for batch in unsent
                ]
                if self.acks == 0:
                    return
                for answer in answers:
                    response = await self.client.answer(link, answer)
                    if not self._answered(partition, unsent[0], response, leads=leads):
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

    def _answered(self, partition: int, batch: Batch, response: Any, *, leads: bool) -> bool:
        """Handle a response; return False if the batch has to be sent again or the producer's life has ended.

        `leads` is False if another broker led when the batch was sent: a former leader that does not know that yet uses
        its own producer state, which may have sequences that no other broker has, or lack later ones.
        """
        [[answer]] = [topic.partition_responses for topic in response.responses]
        code = ErrorCode(answer.error_code)
        known = self.history.partition(self.topic.name, partition)
        check = self.client.world.check
        if code is ErrorCode.NONE:
            self._acknowledged.add(partition)
            if self.acks == 1 and self.client.world.clustered:
                return True  # the next leader may not have it
            for offset, content in enumerate(batch.contents, answer.base_offset):
                known.acknowledged(offset, content, firm=self.acks != 1)
            self.client.world.count("acknowledged records", len(batch.contents))
            return True
        if self.idempotent and code in _FORGOTTEN:
            # Without producer state, the second batch is accepted although the first was just rejected.
            begins = self.client.world.clustered and partition not in self._acknowledged
            # The cleaner keeps only the last batch of a producer, as in Apache Kafka: a copied log has no other.
            compacted = self.topic.compacted and batch.sent > 1
            # A producer snapshot has only the last batch of each producer, as in Apache Kafka. After a clean shutdown,
            # batches that are no longer in the log or were not read again are known only from the snapshot.
            world = self.client.world
            deleted = known.retention_ms is not None or known.start_ceiling > batch.log_start
            snapshot = batch.sent > 1 and (deleted or world.clean_stops > batch.clean_stops)
            lost = (
                begins
                or compacted
                or snapshot
                or not leads
                or self.acks == 1
                or known.generation > self._generations.get(partition, known.generation)
            )
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
        contents = [self._content() for _ in range(random.choice((1, 1, 2, 3)))]
        self.history.attempted.update(dict.fromkeys(contents, self.idempotent))
        self.history.oldest_ms = min(self.history.oldest_ms, *(content.timestamp_ms for content in contents))
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(contents)
        known = self.history.partition(self.topic.name, partition)
        self._generations.setdefault(partition, known.generation)
        known.tombstones.update(content.key for content in contents if content.value is None)
        batch = build_batch(
            [Record(0, one.timestamp_ms, one.key, one.value, one.headers) for one in contents],
            compression=random.choice((Compression.NONE, Compression.NONE, Compression.LZ4)),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence if self.idempotent else -1,
        )
        return Batch(contents, bytes(batch), known.start_ceiling, self.client.world.clean_stops)

    def _content(self) -> Content:
        """Return a unique record: its first header is its identity."""
        random = self.client.random
        self._numbers += 1
        identity = b"%s/%d/%d" % (self.client.name.encode(), self._life, self._numbers)
        headers = ((ID_HEADER, identity), *random.choice(((), (), ((b"", None),), ((b"h", b""), (b"h", b"again")))))
        most = 200 if self.topic.compacted else 2000  # a batch has to fit into the segments of compacted topics
        value = None if random.random() < 0.15 else b"." * random.choice((0, 10, 200, most))
        timestamp_ms = self.client.world.hosts[0].now_ms() - random.choice((0, 0, 0, 1, 500, 60_000))
        return Content(random.choice(self._keys), value, headers, timestamp_ms)

    def _request(self, partition: int, batch: Batch) -> dict[str, Any]:
        part = ProduceRequest.Topic.Partition(index=partition, records=memoryview(batch.records))
        topic = ProduceRequest.Topic(name=self.topic.name, topic_id=self.topic.topic_id, partition_data=[part])
        return {"acks": self.acks, "timeout_ms": 2000, "topic_data": [topic]}
