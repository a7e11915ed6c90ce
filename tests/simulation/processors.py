"""Read-process-write with transactions: each input record leads to one output record, exactly once.

A processor reads committed input records from the group's offset on, writes an output record for each, and commits the
next offset in the same transaction. Processors with the same transactional id fence each other, and each begins at
the group's offset after its InitProducerId, when the transaction of the processor before is completed.
"""

from __future__ import annotations

from broker.coordinator.runtime.coordinator_runtime import partition_for
from controller.topic_names import CONSUMER_OFFSETS
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from simulation.violation import Invariant
from tests.simulation.client import Client, Lost
from tests.simulation.committed_reader import Committed, CommittedReader
from tests.simulation.groups import is_retriable_for
from tests.simulation.transaction_history import Place, Transaction, TransactionHistory
from tests.simulation.transactional_producers import Abandoned, SessionEnded, TransactionalActor
from tests.simulation.workload import Topic

SOURCE_HEADER = b"source"
_ATTEMPTS = 8
_BATCH_RECORDS = 4  # a batch has to fit into a segment


def source_of(place: Place, offset: int) -> bytes:
    """Return the value of the header that names an output record's input record."""
    return b"%s@%d" % (str(place).encode(), offset)


class OffsetsReader:
    """Read the offsets of a group, and check that each is of a committed transaction."""

    def __init__(self, client: Client, history: TransactionHistory, group: str, inputs: Topic) -> None:
        self.client = client
        self.history = history
        self.group = group
        self._inputs = inputs

    async def run(self) -> None:
        """Read the offsets now and then, also while a transaction is about to commit some."""
        while not self.client.world.stopping:
            await self.offsets(stable=False)
            await self.client.pause(0.1)

    async def offsets(self, *, stable: bool = True) -> dict[Place, int] | None:
        """Return the offset of each input partition, -1 for none; None if the coordinator does not return them.

        With `stable`, an offset that a transaction is about to commit is an error (KIP-447).
        """
        world = self.client.world
        indexes = list(range(self._inputs.partitions))
        wanted = OffsetFetchRequest.Group.Topic(name=self._inputs.name, partition_indexes=indexes)
        groups = [OffsetFetchRequest.Group(group_id=self.group, topics=[wanted])]
        partition = partition_for(self.group, world.hosts[0].settings["offsets.topic.num.partitions"])
        try:
            address = await self.client.coordinator(self.group)
            await self.client.link(address)
            epoch = world.leader_epoch(address, CONSUMER_OFFSETS, partition)
            answer = await self.client.call(address, ApiKey.OFFSET_FETCH, 8, groups=groups, require_stable=stable)
        except Lost:
            self.client.forget()
            return None
        [group] = answer.groups
        code = ErrorCode(group.error_code)
        if code is ErrorCode.NONE:
            code = max((ErrorCode(one.error_code) for one in group.topics[0].partitions), default=code)
        if code is not ErrorCode.NONE:
            expected = is_retriable_for(world, code) or (stable and code is ErrorCode.UNSTABLE_OFFSET_COMMIT)
            world.check(Invariant.GROUP_ANSWERS, expected, f"{self.client.name} got {code.name} for an OffsetFetch")
            world.count(f"OffsetFetch: {code.name}")
            self.client.forget()
            return None
        found = {
            Place(self._inputs.name, one.partition_index): one.committed_offset for one in group.topics[0].partitions
        }
        for place, offset in found.items():
            self._check(place, offset)
        # A former coordinator that does not know its successor yet returns what it has.
        led = 0 <= epoch == world.leader_epoch(address, CONSUMER_OFFSETS, partition) or not world.clustered
        return found if led else None

    def _check(self, place: Place, offset: int) -> None:
        commits = [
            one
            for one in self.history.transactions.values()
            if one.group_offsets.get(place) == offset and one.may_commit and one.marker is True
        ]
        self.client.world.check(
            Invariant.OFFSETS_ARE_OF_COMMITTED,
            offset == -1 or commits,
            f"{self.group} has {offset} of {place}, which no transaction has committed",
        )


class Processor(TransactionalActor):
    """Process the records of one topic into another."""

    def __init__(
        self, client: Client, history: TransactionHistory, inputs: Topic, outputs: Topic, transactional_id: str
    ) -> None:
        super().__init__(client, history, transactional_id, client.random.choice((1, 2, 2)), 3_000)
        self.group = f"group of {transactional_id}"
        self.reader = CommittedReader(client, history, inputs)
        self._offsets = OffsetsReader(client, history, self.group, inputs)
        self._outputs = outputs

    async def initialize(self) -> None:
        await super().initialize()
        for _ in range(_ATTEMPTS * 4):
            found = await self._offsets.offsets()
            if found is not None:
                for place, offset in found.items():
                    self.reader.positions[place] = max(offset, 0)
                return
            await self.client.pause(0.1)
        raise SessionEnded("no offsets of the group")

    async def work(self) -> None:
        """Process some records in one transaction; wait if there are none."""
        random, positions = self.client.random, self.reader.positions
        inputs = {place: await self.reader.read(place) for place in list(positions)}
        inputs = {place: records for place, records in inputs.items() if records}
        if not inputs:
            await self.client.pause(0.05)
            return
        transaction = self.begin()
        steps = [self._write, self._commit_offsets]
        if random.random() < 0.5:
            steps.reverse()
        try:
            for step in steps:
                await step(transaction, inputs)
                await self.client.pause(random.choice((0.01, 0.01, 0.5)))
            if random.random() < 0.1:
                self.client.world.count("abandoned transactions")
                raise Abandoned("abandoned")
            commit = random.random() < 0.9
            await self.end(transaction, commit=commit)
            if not transaction.result:  # also if the retry of a commit was an abort
                raise SessionEnded("aborted: the records are to be processed again")
        except SessionEnded as ended:
            gone = ended.fenced or isinstance(ended, Abandoned)
            if transaction.requested is None and not gone and random.random() < 0.7:
                await self.end(transaction, commit=False)
            raise
        self.client.world.count("processed records", sum(map(len, inputs.values())))

    async def _write(self, transaction: Transaction, inputs: dict[Place, list[Committed]]) -> None:
        for place, records in inputs.items():
            output = Place(self._outputs.name, self.client.random.randrange(self._outputs.partitions))
            sources = [((SOURCE_HEADER, source_of(place, record.offset)),) for record in records]
            for at in range(0, len(sources), _BATCH_RECORDS):
                batch = sources[at : at + _BATCH_RECORDS]
                await self.produce(transaction, {output: self._outputs}, {output: batch})

    async def _commit_offsets(self, transaction: Transaction, inputs: dict[Place, list[Committed]]) -> None:
        transaction.group_offsets |= {place: self.reader.positions[place] for place in inputs}
        if self.version == 1:
            await self._add_offsets()
        partitions = [
            TxnOffsetCommitRequest.Topic.Partition(
                partition_index=place.partition,
                committed_offset=self.reader.positions[place],
                committed_metadata=transaction.name,
            )
            for place in inputs
        ]
        topics = [TxnOffsetCommitRequest.Topic(name=next(iter(inputs)).topic, partitions=partitions)]
        for _ in range(_ATTEMPTS):
            newest = self.history.newest(self.transactional_id)
            try:
                answer = await self.client.call(
                    await self.client.coordinator(self.group),
                    ApiKey.TXN_OFFSET_COMMIT,
                    4 if self.version == 1 else 5,
                    transactional_id=self.transactional_id,
                    group_id=self.group,
                    producer_id=self.producer.producer_id,
                    producer_epoch=self.producer.epoch,
                    topics=topics,
                )
            except Lost:
                self._lost()
            else:
                codes = {one.error_code for topic in answer.topics for one in topic.partitions}
                if all(self._succeeded(code, "TxnOffsetCommit") for code in sorted(codes)):
                    self.history.accepted(self.transactional_id, self.producer, newest, "TxnOffsetCommit")
                    self.client.world.count("transactional offset commits")
                    return
            await self.client.pause(0.1)
        raise SessionEnded("no response to TxnOffsetCommit")

    async def _add_offsets(self) -> None:
        for _ in range(_ATTEMPTS):
            newest = self.history.newest(self.transactional_id)
            answer = await self._call(
                ApiKey.ADD_OFFSETS_TO_TXN,
                3,
                transactional_id=self.transactional_id,
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                group_id=self.group,
            )
            if answer is not None and self._succeeded(answer.error_code, "AddOffsetsToTxn"):
                self.history.accepted(self.transactional_id, self.producer, newest, "AddOffsetsToTxn")
                return
            await self.client.pause(0.1)
        raise SessionEnded("no response to AddOffsetsToTxn")
