"""Transactional producers, as tasks of simulated client processes.

A session begins with InitProducerId and has one transaction after the other: Produce to some partitions, then a commit,
an abort, or nothing, as a process that was killed; the coordinator then aborts the transaction after its timeout, or at
the InitProducerId of the next session. Several producers may share a transactional id, and fence each other. Clients of
transaction.version 1 add partitions with AddPartitionsToTxn and keep their epoch; those of version 2 let Produce add
them, and every EndTxn returns the epoch of the next transaction (KIP-890).

A session ends at the first error that is not retriable, after an abort of its transaction. In version 1 it also ends
after a lost response: a request of one transaction that arrives late may take effect in the next one, which has the
same epoch. That is so in Kafka, and one of the reasons for version 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.api import ApiKey
from protocol.compression import Compression
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.produce import ProduceRequest
from protocol.record import Record
from protocol.record_batch import build_batch
from simulation.violation import Invariant
from tests.simulation.client import Address, Client, Lost
from tests.simulation.groups import is_retriable_for
from tests.simulation.history import ID_HEADER
from tests.simulation.transaction_history import (
    TRANSACTION_HEADER,
    Headers,
    Place,
    Producer,
    Transaction,
    TransactionHistory,
)
from tests.simulation.workload import Topic

TRANSACTIONAL_ID = 1
"""The key type of a transactional id in FindCoordinator."""

FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_ABORTABLE = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
_RETRIABLE = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT})
_ATTEMPTS = 8
_TIMEOUT_S = 1.0


class SessionEnded(Exception):  # noqa: N818 - expected
    """The producer has to begin anew with InitProducerId; `fenced`: another producer has its transactional id."""

    def __init__(self, what: str, *, fenced: bool = False) -> None:
        super().__init__(what)
        self.fenced = fenced


class Abandoned(SessionEnded):
    """The producer leaves its transaction open, as a process that was killed."""


class TransactionalActor:
    """A producer with a transactional id: the steps of a transaction, with retries."""

    def __init__(
        self, client: Client, history: TransactionHistory, transactional_id: str, version: int, timeout_ms: int
    ) -> None:
        self.client = client
        client.timeout_s = _TIMEOUT_S
        self.history = history
        self.transactional_id = transactional_id
        self.version = version
        self.timeout_ms = timeout_ms
        self.producer = Producer(-1, -1)
        self.unsure = False
        """Whether a response was lost in this session."""
        self._sequences: dict[Place, int] = {}
        self._added: set[Place] = set()
        self._sessions = self._numbers = 0

    async def run(self) -> None:
        while not self.client.world.stopping:
            await self.session()
            await self.client.pause(0.1)

    async def session(self) -> None:
        """Begin with InitProducerId, and have transactions until an error or the end of the run."""
        try:
            await self.initialize()
            while not self.client.world.stopping:
                await self.work()
                if self.unsure and self.version == 1:
                    return
                await self.client.pause(0.01)
        except SessionEnded as ended:
            self.client.world.count("ended sessions of transactional producers")
            if ended.fenced:
                await self.client.pause(0.5)  # let the producer work that has the transactional id now

    async def work(self) -> None:
        """Have one transaction."""
        raise NotImplementedError

    # The steps of a transaction

    async def initialize(self) -> None:
        """Get a producer id and epoch; the coordinator aborts the transaction of the producer before."""
        self.unsure = False
        recovers = self.producer.producer_id >= 0 and self.client.random.random() < 0.3
        own = self.producer if recovers else Producer(-1, -1)
        for _ in range(_ATTEMPTS * 4):
            before = self.history.newest(self.transactional_id)
            answer = await self._call(
                ApiKey.INIT_PRODUCER_ID,
                4,
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.timeout_ms,
                producer_id=own.producer_id,
                producer_epoch=own.epoch,
            )
            if answer is None or not self._succeeded(answer.error_code, "InitProducerId"):
                await self.client.pause(0.05)
                continue
            self.begin_session(Producer(answer.producer_id, answer.producer_epoch))
            if not recovers:  # a retry of a recovery gets the same epoch again
                self.history.initialized(self.transactional_id, self.producer, before)
            else:
                self.history.accepted(self.transactional_id, self.producer, before, "InitProducerId")
                self.history.initialized(self.transactional_id, self.producer, Producer(-1, -1))
            return
        self.producer = Producer(-1, -1)
        raise SessionEnded("no producer id")

    def begin_session(self, producer: Producer) -> None:
        """Continue with the id and epoch that InitProducerId has returned."""
        self.producer = producer
        self.client.world.producer_id(producer.producer_id, self.transactional_id)
        self._sequences.clear()
        self.unsure = False
        self._sessions += 1
        self.client.world.count("initialized transactional producers")

    def begin(self) -> Transaction:
        """Begin a transaction; no request is sent."""
        self._numbers += 1
        self._added.clear()
        name = f"{self.client.name}/{self._sessions}/{self._numbers}"
        return self.history.begin(name, self.transactional_id, self.producer, self.version)

    async def produce(self, transaction: Transaction, topics: dict[Place, Topic], values: dict[Place, Any]) -> None:
        """Send a batch to each partition, until all are acknowledged; `values` are the additional headers."""
        places = list(topics)
        if self.version == 1 and not self._added.issuperset(places):
            await self._add(places)
        unsent = {place: self._batch(transaction, place, values[place]) for place in places}
        for _ in range(_ATTEMPTS):
            newest = self.history.newest(self.transactional_id)
            requests = await self._send(unsent, topics)
            for link, answer in requests:
                try:
                    response = await self.client.answer(link, answer)
                except Lost:
                    self._lost()
                    continue
                for topic in response.responses:
                    for found in topic.partition_responses:
                        place = Place(topic.name, found.index)
                        if self._succeeded(found.error_code, "Produce"):
                            self.history.accepted(self.transactional_id, self.producer, newest, "Produce")
                            self._acknowledged(transaction, unsent.pop(place)[1], found.base_offset)
            if not unsent:
                return
            self.client.forget()
            if self.client.random.random() < 0.1:
                break  # as after delivery.timeout.ms; the request may still arrive
            await self.client.pause(0.1)
        raise SessionEnded("no response to Produce")

    async def abort_and_produce(self, transaction: Transaction, topics: dict[Place, Topic], *, late: bool) -> None:
        """Abort, with a batch for each partition on its way, sent before or after the abort; await no response to it.

        Such a batch may be held back by the network. No leader may append it after its marker.
        """
        if self.version == 1 and not self._added.issuperset(topics):
            await self._add(list(topics))
        batches = {place: self._batch(transaction, place, [()]) for place in topics}
        self.unsure = True
        if not late:
            await self._send(batches, topics)
        await self.end(transaction, commit=False)
        if late:
            self.client.world.count("batches sent after an abort", len(await self._send(batches, topics)))

    def _acknowledged(self, transaction: Transaction, identities: list[bytes], base_offset: int) -> None:
        for offset, identity in enumerate(identities, base_offset):
            transaction.offsets[identity] = offset
        self.client.world.count("acknowledged transactional records", len(identities))

    async def _send(
        self, unsent: dict[Place, tuple[bytes, list[bytes]]], topics: dict[Place, Topic]
    ) -> list[tuple[Any, Any]]:
        """Send the batches to the leaders of their partitions; return connections and future responses."""
        by_leader: dict[Address, list[Place]] = {}
        for place in unsent:
            try:
                by_leader.setdefault(await self.client.leader(*place), []).append(place)
            except Lost:
                self.client.forget()
        requests = []
        for address, places in by_leader.items():
            data = []
            for place in places:
                part = ProduceRequest.Topic.Partition(index=place.partition, records=memoryview(unsent[place][0]))
                topic = topics[place]
                data.append(ProduceRequest.Topic(name=topic.name, topic_id=topic.topic_id, partition_data=[part]))
            fields = {"transactional_id": self.transactional_id, "acks": -1, "timeout_ms": 2000, "topic_data": data}
            try:
                link = await self.client.link(address)
                version = 11 if self.version == 1 else 12
                requests.append((link, link.send(self.client.loop, ApiKey.PRODUCE, version, fields)))
            except Lost:
                self.client.forget()
        return requests

    def _batch(self, transaction: Transaction, place: Place, headers: Sequence[Headers]) -> tuple[bytes, list[bytes]]:
        """Return the bytes of a batch with one record for each of `headers`, and the records' identities."""
        random = self.client.random
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(headers)
        records, identities = [], []
        for more in headers:
            self._numbers += 1
            identity = b"%s:%d" % (transaction.name.encode(), self._numbers)
            transaction.sent[identity] = place
            identities.append(identity)
            own = ((ID_HEADER, identity), (TRANSACTION_HEADER, transaction.name.encode()))
            value = b"." * random.choice((0, 10, 200))
            records.append(Record(0, self.client.world.hosts[0].now_ms(), None, value, (*own, *more)))
        batch = build_batch(
            records,
            compression=random.choice((Compression.NONE, Compression.NONE, Compression.LZ4)),
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        return bytes(batch), identities

    async def _add(self, places: list[Place]) -> None:
        for _ in range(_ATTEMPTS):
            newest = self.history.newest(self.transactional_id)
            by_topic: dict[str, list[int]] = {}
            for place in places:
                by_topic.setdefault(place.topic, []).append(place.partition)
            answer = await self._call(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                3,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer.producer_id,
                v3_and_below_producer_epoch=self.producer.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnRequest.Topic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic.items()
                ],
            )
            if answer is not None:
                found = [one for topic in answer.results_by_topic_v3_and_below for one in topic.results_by_partition]
                codes = sorted({one.partition_error_code for one in found} - {ErrorCode.OPERATION_NOT_ATTEMPTED})
                if all(self._succeeded(code, "AddPartitionsToTxn") for code in codes):
                    self.history.accepted(self.transactional_id, self.producer, newest, "AddPartitionsToTxn")
                    self._added.update(places)
                    return
            await self.client.pause(0.1)
        raise SessionEnded("no response to AddPartitionsToTxn")

    async def end(self, transaction: Transaction, *, commit: bool) -> None:
        """Commit or abort; after an error that is not retriable, the result may be unknown."""
        if transaction.requested is None:
            transaction.requested = commit
        attempts = 0
        while True:
            attempts += 1
            newest = self.history.newest(self.transactional_id)
            answer = await self._call(
                ApiKey.END_TXN,
                4 if self.version == 1 else 5,
                transactional_id=self.transactional_id,
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                committed=commit,
            )
            if answer is not None:
                try:
                    succeeded = self._succeeded(answer.error_code, "EndTxn")
                except SessionEnded:
                    if attempts == 1 and transaction.requested == commit:
                        transaction.result = False
                    raise
                if succeeded:
                    break
            elif commit and self.client.random.random() < 0.05:
                commit = False  # a client that breaks the protocol: the response decides
            if attempts > _ATTEMPTS and self.client.random.random() < 0.2:
                raise SessionEnded("no response to EndTxn")  # as a process that dies
            await self.client.pause(0.1)
        self.history.accepted(self.transactional_id, self.producer, newest, "EndTxn")
        transaction.result = commit
        self.client.world.count("committed transactions" if commit else "aborted transactions")
        if self.version > 1:
            after = Producer(answer.producer_id, answer.producer_epoch)
            self.history.continued(self.transactional_id, after, self.producer)
            self.producer = after
            self._sequences.clear()

    async def _call(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Send a request to the transaction coordinator; return None without a response."""
        try:
            address = await self.client.coordinator(self.transactional_id, TRANSACTIONAL_ID)
            return await self.client.call(address, key, version, **fields)
        except Lost:
            self._lost()
            return None

    def _lost(self) -> None:
        self.client.forget()
        self.client.world.count("lost transactional requests")
        self.unsure = True

    def _succeeded(self, code: int, what: str) -> bool:
        """Return True for NONE, False for an error after which the request is sent again; else raise `SessionEnded`."""
        error = ErrorCode(code)
        if error is ErrorCode.NONE:
            return True
        self.client.world.count(f"{what}: {error.name}")
        if error in FENCED or error in _ABORTABLE:
            if error in FENCED or error is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                self.producer = Producer(-1, -1) if what == "InitProducerId" else self.producer
            raise SessionEnded(f"{error.name} for {what}", fenced=error in FENCED)
        expected = error in _RETRIABLE or is_retriable_for(self.client.world, error)
        self.client.world.check(
            Invariant.TRANSACTION_ANSWERS, expected, f"{self.client.name} got {error.name} for {what}"
        )
        if error not in _RETRIABLE:
            self.client.forget()
        return False


class TransactionalProducer(TransactionalActor):
    """Write transactions to the partitions of some topics."""

    def __init__(
        self,
        client: Client,
        history: TransactionHistory,
        topics: list[Topic],
        transactional_id: str,
        *,
        abandons: bool = False,
    ) -> None:
        """With `abandons`, most transactions are left open, for the coordinator to abort them."""
        super().__init__(
            client, history, transactional_id, client.random.choice((1, 2, 2)), client.random.choice((1_000, 4_000))
        )
        self._abandons = abandons
        self._topics = topics

    async def work(self) -> None:
        random, transaction = self.client.random, self.begin()
        try:
            for _ in range(random.choice((1, 1, 2, 3))):
                topics = self._some_places()
                await self.produce(transaction, topics, {place: [()] * random.choice((1, 1, 2)) for place in topics})
                await self.client.pause(0.01)
            chance = random.random()
            if chance < (0.6 if self._abandons else 0.08):
                self.client.world.count("abandoned transactions")
                await self.client.pause(random.choice((0.1, 2.0, 4.0)))
                raise Abandoned("abandoned")
            if chance > 0.92:
                await self.abort_and_produce(transaction, self._some_places(), late=chance > 0.95)
            else:
                await self.end(transaction, commit=chance < 0.8)
        except SessionEnded as ended:
            gone = ended.fenced or isinstance(ended, Abandoned)
            if transaction.requested is None and not gone and random.random() < 0.7:
                await self.end(transaction, commit=False)
            raise
        if random.random() < 0.3:
            await self._write_plainly()

    def _some_places(self) -> dict[Place, Topic]:
        random = self.client.random
        found = [(Place(topic.name, index), topic) for topic in self._topics for index in range(topic.partitions)]
        return dict(random.sample(found, min(random.choice((1, 1, 2, 3)), len(found))))

    async def _write_plainly(self) -> None:
        """Write one record outside of any transaction, once."""
        topic = self.client.random.choice(self._topics)
        place = Place(topic.name, self.client.random.randrange(topic.partitions))
        self._numbers += 1
        identity = b"%s!%d" % (self.client.name.encode(), self._numbers)
        self.history.plain[identity] = place
        record = Record(0, self.client.world.hosts[0].now_ms(), None, b"plain", ((ID_HEADER, identity),))
        part = ProduceRequest.Topic.Partition(index=place.partition, records=memoryview(build_batch([record])))
        data = [ProduceRequest.Topic(name=topic.name, topic_id=topic.topic_id, partition_data=[part])]
        try:
            address = await self.client.leader(*place)
            answer = await self.client.call(address, ApiKey.PRODUCE, 9, acks=-1, timeout_ms=2000, topic_data=data)
        except Lost:
            self.client.forget()
            return
        [[found]] = [one.partition_responses for one in answer.responses]
        if self._succeeded(found.error_code, "a plain Produce"):
            self.history.acknowledged[identity] = found.base_offset
