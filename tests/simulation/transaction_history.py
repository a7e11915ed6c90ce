"""The transactions that clients began, and what must hold of them.

Every record names its transaction in a header, so that a record is assigned to its transaction wherever it is found.
The results that a client asked for and received restrict what may happen to a transaction:

    requested       response                              the transaction
    commit          NONE                                  is committed everywhere
    commit          refused at the first attempt          is aborted everywhere
    commit          none, or refused at a later attempt   is committed or aborted, and the same everywhere
    abort           any                                   is aborted everywhere
    nothing         -                                     is aborted everywhere

The result is the same in every partition: that of the markers in the logs, and that of the records which read_committed
consumers see. All records of a committed transaction are visible, once, at the offsets that Produce returned.
"""

from __future__ import annotations

from typing import NamedTuple

from simulation.cluster import World
from simulation.violation import Invariant

TRANSACTION_HEADER = b"transaction"

Headers = tuple[tuple[bytes, bytes | None], ...]


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Producer(NamedTuple):
    """A producer id and epoch."""

    producer_id: int
    epoch: int


class Transaction:
    """One transaction of one client."""

    def __init__(self, name: str, transactional_id: str, producer: Producer, version: int) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self.producer = producer
        self.version = version
        """The transaction.version of the client's protocol: 1 or 2."""
        self.sent: dict[bytes, Place] = {}
        """The identity of every record that was sent, and its partition."""
        self.offsets: dict[bytes, int] = {}
        """The offsets of acknowledged records."""
        self.group_offsets: dict[Place, int] = {}
        """The offsets that the transaction commits."""
        self.requested: bool | None = None
        """The result that the client requested first."""
        self.result: bool | None = None
        """The result that it has for certain, True for a commit; None if that is not known."""
        self.marker: bool | None = None
        """The result of its first marker in a committed log."""

    def __str__(self) -> str:
        return self.name

    @property
    def may_commit(self) -> bool:
        """Return whether it may be committed, as far as the client knows."""
        return self.requested is True and self.result is not False

    @property
    def may_abort(self) -> bool:
        """Return whether it may be aborted, as far as the client knows."""
        return self.result is not True


class TransactionHistory:
    """The transactions of all clients."""

    def __init__(self, world: World) -> None:
        self._check = world.check
        self.transactions: dict[bytes, Transaction] = {}
        self.plain: dict[bytes, Place] = {}
        """The identity of every record sent outside of transactions, and its partition."""
        self.acknowledged: dict[bytes, int] = {}
        """The offsets of acknowledged records outside of transactions."""
        self._newest: dict[str, Producer] = {}
        self._seen: dict[tuple[Place, int], bytes] = {}
        self._offsets: dict[bytes, int] = {}

    # Producers

    def begin(self, name: str, transactional_id: str, producer: Producer, version: int) -> Transaction:
        """Record a transaction that a client begins; names are unique."""
        assert name.encode() not in self.transactions
        transaction = self.transactions[name.encode()] = Transaction(name, transactional_id, producer, version)
        return transaction

    def newest(self, transactional_id: str) -> Producer:
        """Return the newest id and epoch that any producer of a transactional id received."""
        return self._newest.get(transactional_id, Producer(-1, -1))

    def initialized(self, transactional_id: str, producer: Producer, before: Producer) -> None:
        """Check the response of an InitProducerId; `before` was the newest producer when the request was sent."""
        rises = producer.epoch > before.epoch if producer.producer_id == before.producer_id else True
        self._check(
            Invariant.TRANSACTIONAL_EPOCHS_RISE,
            rises,
            f"{transactional_id} was initialized as {producer}, after {before}",
        )
        self._advance(transactional_id, producer)

    def _advance(self, transactional_id: str, producer: Producer) -> None:
        newest = self.newest(transactional_id)
        if producer.producer_id != newest.producer_id or producer.epoch > newest.epoch:
            self._newest[transactional_id] = producer

    def continued(self, transactional_id: str, producer: Producer, after: Producer) -> None:
        """Check the id and epoch that EndTxn returned to the producer `after` for its next transaction."""
        follows = (
            producer.epoch == after.epoch + 1 if producer.producer_id == after.producer_id else producer.epoch == 0
        )
        self._check(
            Invariant.TRANSACTIONAL_EPOCHS_RISE, follows, f"{transactional_id} continues as {producer}, after {after}"
        )
        self._advance(transactional_id, producer)

    def accepted(self, transactional_id: str, producer: Producer, newest: Producer, what: str) -> None:
        """Check a request that was accepted; `newest` was the newest producer when it was sent."""
        fenced = producer.producer_id == newest.producer_id and producer.epoch < newest.epoch
        self._check(
            Invariant.FENCED_PRODUCERS_STAY_FENCED,
            not fenced,
            f"{what} of {producer} was accepted, and {newest} is the producer of {transactional_id}",
        )

    # Records

    def transaction_of(self, headers: Headers) -> Transaction | None:
        """Return the transaction of a record; None for a record outside of transactions."""
        name = next((value for key, value in headers if key == TRANSACTION_HEADER), None)
        return None if name is None else self.transactions.get(name)

    def read(self, place: Place, offset: int, identity: bytes, headers: Headers) -> None:
        """Check a record that a read_committed consumer got."""
        transaction = self.transaction_of(headers)
        sent = self.plain if transaction is None else transaction.sent
        known = self._seen.setdefault((place, offset), identity)
        self._check(
            Invariant.TRANSACTIONAL_RECORDS_STAY,
            known == identity and sent.get(identity) == place,
            f"{place} has {identity!r} at {offset}, and {known!r} before; it was sent to {sent.get(identity)}",
        )
        at = self._offsets.setdefault(identity, offset)
        self._check(
            Invariant.TRANSACTIONAL_RECORDS_STAY, at == offset, f"{place} has {identity!r} at {at} and at {offset}"
        )
        if transaction is not None:
            self._check(
                Invariant.READ_COMMITTED_IS_COMMITTED,
                transaction.may_commit and transaction.marker is True,
                f"{place}: {identity!r} was read at {offset}; {_described(transaction)}",
            )

    def marked(self, place: Place, transaction: Transaction, committed: bool) -> None:
        """Check a marker that ends a transaction in a committed log."""
        if transaction.marker is None:
            transaction.marker = committed
        self._check(
            Invariant.ONE_OUTCOME,
            transaction.marker == committed,
            f"{place}: {transaction} is {_outcome(committed)}, and {_outcome(not committed)} elsewhere",
        )
        self._check(
            Invariant.OUTCOME_AS_ANSWERED,
            transaction.may_commit if committed else transaction.may_abort,
            f"{place}: {transaction} is {_outcome(committed)}; {_described(transaction)}",
        )

    def complete(self, found: dict[Place, dict[int, bytes]]) -> None:
        """Compare all visible records with all that must be visible, once every transaction is completed."""
        visible = {identity: (place, at) for place, records in found.items() for at, identity in records.items()}
        for transaction in self.transactions.values():
            count = sum(identity in visible for identity in transaction.sent)
            self._check(
                Invariant.TRANSACTIONS_ARE_ATOMIC,
                count in (0, len(transaction.sent)),
                f"{count} of {len(transaction.sent)} records of {transaction} are visible; {_described(transaction)}",
            )
            committed = count > 0
            self._check(
                Invariant.OUTCOME_AS_ANSWERED,
                not transaction.sent or (transaction.may_commit if committed else transaction.may_abort),
                f"{count} records of {transaction} are visible; {_described(transaction)}",
            )
            if committed:
                self._check_offsets(transaction.sent, transaction.offsets, visible)
        self._check_offsets(self.plain, self.acknowledged, visible)

    def _check_offsets(
        self, sent: dict[bytes, Place], offsets: dict[bytes, int], visible: dict[bytes, tuple[Place, int]]
    ) -> None:
        for identity, offset in offsets.items():
            self._check(
                Invariant.TRANSACTIONAL_RECORDS_STAY,
                visible.get(identity) == (sent[identity], offset),
                f"{identity!r} was acknowledged at {offset} of {sent[identity]}, and is at {visible.get(identity)}",
            )


def _outcome(committed: bool) -> str:
    return "committed" if committed else "aborted"


def _described(transaction: Transaction) -> str:
    results = {None: "nothing", True: "a commit", False: "an abort"}
    return (
        f"{transaction} requested {results[transaction.requested]}, has the response {results[transaction.result]}"
        f" and the marker {results[transaction.marker]}"
    )
