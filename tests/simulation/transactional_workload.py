"""The transactional clients of a run, their topics and settings, and what they must find once all faults have healed.

    txn0, txn1            written by transactional producers, some of which share a transactional id; read by consumers
    processed             written by processors, which read txn0 and commit its offsets in the same transaction

A run with these clients has fewer of the others. It draws from random streams of its own: the seeds of runs without
transactions stay what they are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from controller.topic_names import TRANSACTION_STATE
from simulation.cluster import World
from simulation.loop import Loop
from simulation.violation import Invariant
from tests.simulation.administration import create_topic, set_config
from tests.simulation.client import Client
from tests.simulation.committed_reader import CommittedReader
from tests.simulation.processors import SOURCE_HEADER, OffsetsReader, Processor, source_of
from tests.simulation.transaction_history import Place, TransactionHistory
from tests.simulation.transaction_invariants import TransactionInvariants
from tests.simulation.transactional_producers import SessionEnded, TransactionalActor, TransactionalProducer
from tests.simulation.two_phase_producers import TwoPhaseProducer
from tests.simulation.workload import Topic

_REPLICAS = 3
_COMPLETED_S = 30.0


class TransactionalWorkload:
    """The transactional part of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random("transactions")
        self.history = TransactionHistory(world)
        self.invariants = TransactionInvariants(world, self.history)
        self.topics: list[Topic] = []
        self.actors: list[Any] = []
        self._producers: list[TransactionalActor] = []
        self._processors: list[Processor] = []

    def settings(self, brokers: int) -> dict[str, object]:
        """Return the brokers' settings for transactions."""
        return {
            "transaction.state.log.num.partitions": self._random.choice((1, 2, 3)),
            "transaction.state.log.replication.factor": min(brokers, _REPLICAS),
            "transaction.state.log.min.isr": min(brokers, 2),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": self._random.choice((200, 1_000)),
            "transaction.two.phase.commit.enable": "true",
        }

    async def prepare(self, setup: Client, replicas: int, client: Callable[[str], Client]) -> None:
        """Create the topics, and the clients by their names."""
        random = self._random
        for name, most in (("txn0", 2), ("txn1", 3), ("processed", 2)):
            config = {"internal.segment.bytes": str(random.choice((2_000, 30_000, 1 << 20)))}
            self.topics.append(await create_topic(setup, name, random.randint(1, most), replicas, config))
        inputs, other, outputs = self.topics
        ids = ["shared", "shared", "alone", "abandoned"]
        for number, name in enumerate(ids):
            self._producers.append(
                TransactionalProducer(
                    client(f"transactional{number}"), self.history, [inputs, other], name, abandons=name == "abandoned"
                )
            )
        self._producers.append(TwoPhaseProducer(client("prepared"), self.history, [inputs, other], "prepared"))
        await self._initialize(TransactionalProducer(setup, self.history, [inputs], "first"))
        bytes_of = random.choice((1_500, 6_000, 1 << 20))
        await set_config(setup, TRANSACTION_STATE, "internal.segment.bytes", str(bytes_of))
        self._processors = [
            Processor(client(f"processor{number}"), self.history, inputs, outputs, "processor") for number in range(2)
        ]
        readers = [
            CommittedReader(client(f"reader of {topic.name}"), self.history, topic)
            for topic in (inputs, other, outputs)
        ]
        observer = OffsetsReader(client("observer"), self.history, self._processors[0].group, inputs)
        self.actors = [*self._producers, *self._processors, *readers, observer]

    async def _initialize(self, actor: TransactionalActor) -> None:
        """Get a producer id, so that `__transaction_state` exists."""
        while True:
            try:
                return await actor.initialize()
            except SessionEnded:
                await asyncio.sleep(0.1)

    async def last_round(self, loop: Loop) -> None:
        """Require one more transaction of every producer; the coordinator must abort abandoned ones by itself.

        A transaction's age is measured with the wall clocks of the coordinator and its predecessors. If one of them has
        been set, it may take too long, and the transaction is left to the next InitProducerId. So are the transactions
        of two-phase commit, which no coordinator aborts.
        """
        for actor in self._producers:
            if isinstance(actor, TwoPhaseProducer) and self.invariants.states.is_ongoing(actor.transactional_id):
                await self._succeed_with(loop, actor)
        if not any(host.clock_offset_ms for host in self._world.hosts):
            await self._wait_for_completion()
        for actor in (*self._producers, *self._processors):
            await self._succeed_with(loop, actor)
        await self._wait_for_completion()

    async def _succeed_with(self, loop: Loop, actor: TransactionalActor) -> None:
        actor.client.loop = loop
        actor.client.drop_links()
        [place, topic] = Place(self.topics[1].name, 0), self.topics[1]
        while True:
            try:
                await actor.initialize()
                transaction = actor.begin()
                await actor.produce(transaction, {place: topic}, {place: [()]})
                if isinstance(actor, TwoPhaseProducer):
                    await actor.keep(transaction)
                await actor.end(transaction, commit=True)
            except SessionEnded:
                await asyncio.sleep(0.1)
            else:
                return

    async def _wait_for_completion(self) -> None:
        """Wait until no transaction is open in the committed logs, and every coordinator is idle."""
        until_s = self._world.schedule.now + _COMPLETED_S
        while self.invariants.open_transactions or self.invariants.states.unfinished:
            self._world.check(
                Invariant.TRANSACTIONS_COMPLETE,
                self._world.schedule.now < until_s,
                f"{_COMPLETED_S:.0f} s after everything was healed: {self.invariants.states.unfinished} are not"
                f" completed, and open are {self.invariants.open_transactions}",
            )
            await asyncio.sleep(0.1)

    async def verify(self, client: Callable[[str], Client]) -> None:
        """Read everything, and compare it with the history."""
        self.invariants.check_all_complete()
        self.invariants.check_coordinators()
        found: dict[Place, dict[int, bytes]] = {}
        sources: Counter[bytes] = Counter()
        for topic in self.topics:
            reader = CommittedReader(client("reader"), self.history, topic)
            for place in reader.positions:
                while (ends := await reader.latest(place)) is None:
                    await asyncio.sleep(0.1)
                self._world.check(
                    Invariant.TRANSACTIONS_COMPLETE,
                    ends[0] == ends[1],
                    f"{place} has the last stable offset {ends[0]} and the high watermark {ends[1]}",
                )
                while reader.positions[place] < ends[0]:
                    for record in await reader.read(place):
                        sources.update(value or b"" for key, value in record.headers if key == SOURCE_HEADER)
            found |= reader.found
        self.history.complete(found)
        offsets = OffsetsReader(client("reader"), self.history, self._processors[0].group, self.topics[0])
        while (committed := await offsets.offsets()) is None:
            await asyncio.sleep(0.1)
        expected = Counter(
            source_of(place, offset) for place, end in committed.items() for offset in found[place] if offset < end
        )
        wrong = (expected - sources) + (sources - expected)
        self._world.check(
            Invariant.PROCESSED_ONCE,
            not wrong,
            f"committed are {committed}, and not processed exactly once are {sorted(wrong)[:5]}",
        )
        self._world.count("records processed once", sources.total())
