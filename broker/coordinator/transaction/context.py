"""Values between the transaction coordinator and its shards: settings, requests, results, events and the context."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from broker.coordinator.runtime.context import CoordinatorContext
from broker.coordinator.transaction.transaction_metadata import NO_PRODUCER_EPOCH
from protocol.errors import ErrorCode
from protocol.record_batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from random import Random

    from broker.coordinator.runtime.context import CoordinatorLog
    from broker.coordinator.runtime.timers import Timers
    from broker.coordinator.transaction.transaction_metadata import TransactionalId


class TransactionSettings(NamedTuple):
    """The transaction settings of the broker, with Kafka's defaults (Kafka: `TransactionConfig`)."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`."""
    expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`."""
    two_phase_commit_enable: bool = False
    """`transaction.two.phase.commit.enable`."""


class ProducerResult(NamedTuple):
    """The result of an operation, and the id and epoch of the producer's next transaction, if the response has them.

    `ongoing_producer_id` and `ongoing_producer_epoch` are those of the transaction that was kept for the producer.
    """

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    ongoing_producer_id: int = NO_PRODUCER_ID
    ongoing_producer_epoch: int = NO_PRODUCER_EPOCH


class InitProducerId(NamedTuple):
    """An InitProducerId request with a transactional id.

    `producer_id` and `producer_epoch` are those of a producer that recovers (KIP-360); -1 for a new producer.
    `enable_2pc` and `keep_prepared` request two-phase commit (KIP-939).
    """

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    enable_2pc: bool = False
    keep_prepared: bool = False


class EndTransaction(NamedTuple):
    """An EndTxn request; `client_transaction_version` is the transaction.version of its request version: 0 or 2."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    client_transaction_version: int


class MarkersWritten(NamedTuple):
    """All partitions of a prepared transaction have its marker."""

    transactional_id: str


class MarkersToResume(NamedTuple):
    """These transactions were loaded in a prepared state."""

    transactional_ids: tuple[str, ...]


class AdditionTimedOut(NamedTuple):
    """A parked request to add partitions gets its response, though the transaction before has not ended."""

    transactional_id: str


class TransactionContext(CoordinatorContext):
    """The context of one request or timer event.

    `transaction_version` is the finalized level: 0, 1 or 2. `take_producer_id` returns a new producer id, None while
    the controller allocates a block. `send_markers` starts to send the markers of a prepared transaction; the event
    `MarkersWritten` follows when all are written.
    """

    __slots__ = ("send_markers", "settings", "take_producer_id", "transaction_version")

    def __init__(
        self,
        now: float,
        now_ms: int,
        timers: Timers,
        random: Random,
        log: CoordinatorLog,
        *,
        settings: TransactionSettings,
        transaction_version: int,
        take_producer_id: Callable[[], int | None],
        send_markers: Callable[[TransactionalId], None],
    ) -> None:
        super().__init__(now, now_ms, timers, random, log)
        self.settings = settings
        self.transaction_version = transaction_version
        self.take_producer_id = take_producer_id
        self.send_markers = send_markers
