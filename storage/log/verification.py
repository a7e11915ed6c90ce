"""Verification of transactions before their first records are appended to a partition (KIP-890).

A producer's batch may arrive after its transaction has ended: appended, it would begin a transaction that the
coordinator does not know, and that no marker ever ends. So the first batch of a transaction in a partition is appended
only after the coordinator has confirmed that the partition belongs to the open transaction:

1. `ProducerStateManager.start_verification` returns a guard, unless the transaction is open in the partition already.
2. The coordinator verifies the transaction, or adds the partition to it.
3. The batch is appended with the guard (`AppendOrigin`), if that still is the partition's guard for the producer. Any
   marker or transactional batch of the producer in between has removed it: the coordinator's response may be about a
   former transaction.

The guard of a failed verification stays, with the lowest sequence that was refused: a later batch must not be appended
before that one, which the producer sends again. It does not stay for a producer id that the partition does not know
and that no coordinator may know, for a client can make up any number of ids; and of those that stay, the oldest are
removed beyond `MAX_VERIFICATIONS` of the partition. In Kafka all stay until they expire.

A removed verification loses only its lowest sequence: it is finished in the step of the event loop that appends its
batch, so no other one removes its guard in between. At worst, with Produce 11 or lower: batch 0 is refused with a
retriable error, its verification is removed, batch 10 is verified and appended, and batch 0, sent again, gets
OUT_OF_ORDER_SEQUENCE_NUMBER. The transaction aborts; nothing acknowledged is lost. From Produce 12 on, a producer
without state in the partition has to begin at sequence 0.

Kafka: `VerificationGuard`, `VerificationStateEntry`.
"""

MAX_VERIFICATIONS = 1_000
"""The most verifications of a partition, besides those that wait for a coordinator; about 250 bytes each."""


class VerificationGuard:
    """The identity of one verification (Kafka: `VerificationGuard`)."""

    __slots__ = ()


NOT_VERIFIED = VerificationGuard()
"""Instead of the guard where transactions are not verified."""


class VerificationStateEntry:
    """A producer's verification in one partition (Kafka: `VerificationStateEntry`)."""

    __slots__ = ("epoch", "guard", "in_flight", "is_known", "lowest_sequence", "supports_epoch_bump", "timestamp")

    def __init__(self, timestamp: int, sequence: int, epoch: int, *, supports_epoch_bump: bool) -> None:
        """`timestamp` is the wall clock's; `supports_epoch_bump` is that of the first request."""
        self.timestamp = timestamp
        self.guard = VerificationGuard()
        self.supports_epoch_bump = supports_epoch_bump
        """Whether each transaction has an epoch of its own (transaction.version 2)."""
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.in_flight = 1
        """The number of its requests that the coordinator has not responded to."""
        self.is_known = False
        """Whether a response to one of them may be that of a coordinator that knows the producer id."""

    def begin(self, sequence: int, epoch: int) -> None:
        """Record another batch that is verified: a higher epoch starts its sequences anew."""
        self.in_flight += 1
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
