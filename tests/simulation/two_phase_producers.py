"""Producers in two-phase commit, and the external coordinator that decides on their transactions (KIP-939).

A producer prepares its transaction: all its records are acknowledged. Then it crashes, perhaps several times; each next
one keeps the transaction, which must be the same as before, however long the decision takes and whatever fails
meanwhile. The last one commits or aborts, as the external coordinator has decided, while a producer that has crashed
may still send a decision of its own.
"""

from __future__ import annotations

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from simulation.violation import Invariant
from tests.simulation.client import Client
from tests.simulation.transaction_history import Producer, Transaction, TransactionHistory
from tests.simulation.transactional_producers import SessionEnded, TransactionalProducer
from tests.simulation.workload import Topic

_ATTEMPTS = 60
_VERSION = 6
"""Of InitProducerId, which brokers serve with `transaction.two.phase.commit.enable`."""
_TIMEOUT_MS = 1
"""In the requests; transactions of two-phase commit have none."""


class TwoPhaseProducer(TransactionalProducer):
    """Write transactions, of which most are prepared and ended by a later producer."""

    def __init__(self, client: Client, history: TransactionHistory, topics: list[Topic], transactional_id: str) -> None:
        super().__init__(client, history, topics, transactional_id)
        self.version = 2

    async def initialize(self) -> None:
        """Get a producer id and epoch; a transaction that is not prepared is aborted."""
        await self._start(keep=False)

    async def work(self) -> None:
        random, transaction = self.client.random, self.begin()
        topics = self._some_places()
        await self.produce(transaction, topics, {place: [()] for place in topics})
        commit = random.random() < 0.7
        if random.random() < 0.7:
            for _ in range(random.choice((1, 1, 2, 3))):
                await self.client.pause(random.choice((0.01, 0.1, 3.0)))
                await self.keep(transaction)
            if random.random() < 0.3:
                await self._decide_as_zombie(transaction, commit=not commit)
        await self.end(transaction, commit=commit)

    async def keep(self, transaction: Transaction) -> None:
        """Crash, and start again with the prepared transaction."""
        ongoing = await self._start(keep=True)
        self.client.world.check(
            Invariant.PREPARED_TRANSACTIONS_STAY,
            ongoing == transaction.producer,
            f"{transaction} was prepared by {transaction.producer}; kept is that of {ongoing}",
        )
        self.client.world.count("kept transactions")

    async def _decide_as_zombie(self, transaction: Transaction, *, commit: bool) -> None:
        """End the transaction as the producer that prepared it."""
        answer = await self._call(
            ApiKey.END_TXN,
            5,
            transactional_id=self.transactional_id,
            producer_id=transaction.producer.producer_id,
            producer_epoch=transaction.producer.epoch,
            committed=commit,
        )
        if answer is not None and answer.error_code == ErrorCode.NONE:
            self.history.accepted(self.transactional_id, transaction.producer, self.producer, "EndTxn")

    async def _start(self, *, keep: bool) -> Producer:
        """Get a producer id and epoch; return those of the transaction that was kept, -1 if there is none."""
        for _ in range(_ATTEMPTS):
            before = self.history.newest(self.transactional_id)
            answer = await self._call(
                ApiKey.INIT_PRODUCER_ID,
                _VERSION,
                transactional_id=self.transactional_id,
                transaction_timeout_ms=_TIMEOUT_MS,
                enable_2pc=True,
                keep_prepared_txn=keep,
            )
            if answer is None or not self._succeeded(answer.error_code, "InitProducerId"):
                await self.client.pause(0.05)
                continue
            self.begin_session(Producer(answer.producer_id, answer.producer_epoch))
            self.history.initialized(self.transactional_id, self.producer, before)
            return Producer(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        raise SessionEnded("no producer id")
