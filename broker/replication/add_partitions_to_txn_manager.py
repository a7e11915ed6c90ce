"""Verification of transactions with their coordinators before their first batches are appended (KIP-890).

`verify` starts the verification in each partition (`storage.log.verification`), and sends the partitions in which the
transaction is not open to the coordinator: it verifies that they are in the transaction or, from Produce 12 and
TxnOffsetCommit 5 on, adds them. The coordinator is the leader of the transactional id's partition of
`__transaction_state`; if that is this broker, it is called without a socket. The result has the guards to append with,
and the errors. `verify_produce` retries for a short time while the coordinator completes the previous transaction: the
client's backoff would be longer.

A request that waits has copies of its batches, which count as request memory. `MAX_PENDING_REQUESTS` and
`MAX_PENDING_BYTES` limit them: above, `check_room` refuses further ones with a retriable error. A later Produce of the
same producer to one of its partitions waits until they are appended (`pending`): batches are appended in the order of
their requests.

`verification_queue` has the rules of the requests. Kafka: `AddPartitionsToTxnManager`,
`ReplicaManager.maybeSendPartitionsToTransactionCoordinator`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.coordinator_runtime import partition_for
from broker.monitoring.request_times import Times
from broker.replication.verification_queue import (
    PartitionErrors,
    PendingVerification,
    TransactionOperation,
    VerificationQueue,
    complete,
    produce_operation,
    request_of,
)
from controller.topic_names import TRANSACTION_STATE
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from storage.log.verification import NOT_VERIFIED, VerificationGuard

if TYPE_CHECKING:
    from broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from broker.network.network_client import NetworkClient
    from broker.replication.partition import Partition
    from controller.image import MetadataImage
    from protocol.record_batch import BatchHeader
    from protocol.request_memory import RequestMemory
    from storage.checkpoint import TopicPartition

    CallHere = Callable[
        [AddPartitionsToTxnRequest, int], AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]
    ]

BROKER_VERSION = 4
"""From this version on, AddPartitionsToTxn is a request of brokers."""

MAX_PENDING_REQUESTS = 4096
MAX_PENDING_BYTES = 128 * 1024 * 1024

_LATEST_VERSION = AddPartitionsToTxnRequest.VERSIONS[1]
_RETRIABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_MAY_BE_KNOWN = frozenset(
    {
        None,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The results, None for no error, after which the producer repeats a batch whose id a coordinator may know.

COORDINATOR_NOT_AVAILABLE is not among them: a cluster without transactions returns it for every made-up id.
"""

_log = logging.getLogger("broker.replication.transactions")


class Verified(NamedTuple):
    """The result: errors, and the guards of the partitions that were verified.

    A partition in neither has the transaction open already.
    """

    errors: dict[Partition, KafkaError]
    guards: dict[Partition, VerificationGuard]


class Transaction(NamedTuple):
    """The transaction of a request, and what the request's version supports."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    operation: TransactionOperation


class PendingBatches(NamedTuple):
    """The batches of one producer for one partition that wait for a verification."""

    partition: Partition
    producer_id: int
    producer_epoch: int


class AddPartitionsToTxnManager:
    """The verifications that this broker requests of coordinators, one request to each at a time."""

    def __init__(
        self,
        node_id: int,
        *,
        image: Callable[[], MetadataImage],
        connect_broker: Callable[[int], NetworkClient],
        call_here: CallHere,
        config: Callable[[str], Any],
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        request_memory: RequestMemory,
    ) -> None:
        """`call_here(request, version)` handles a request as the coordinator; `config` returns a setting's value."""
        self._node_id = node_id
        self._image = image
        self._connect_broker = connect_broker
        self._call_here = call_here
        self._config = config
        self._loop = loop
        self._now_ms = now_ms
        self._request_memory = request_memory
        self._queue = VerificationQueue()
        self._clients: dict[int, NetworkClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # the loop holds only weak references
        self._is_stopped = False
        self.pending_requests = 0
        self.pending_bytes = 0
        self.pending: dict[PendingBatches, asyncio.Future[None]] = {}
        """The future of the last Produce with pending batches; done when they are appended or refused."""
        self.times = Times(loop.time())
        """Seconds until a coordinator verified or added the partitions of a transaction."""
        self.failures = 0
        """The number of partitions that were neither verified nor added."""

    def stop(self) -> None:
        """Close the connections; pending and later verifications by other brokers fail with NETWORK_EXCEPTION."""
        self._is_stopped = True
        for client in self._clients.values():
            client.close()

    # Memory of waiting requests.

    def check_room(self, size_bytes: int) -> None:
        """Raise NOT_ENOUGH_REPLICAS, which is retriable, if a request with `size_bytes` of batches cannot wait.

        While none waits, a request of any size can.
        """
        full = self.pending_requests >= MAX_PENDING_REQUESTS or self.pending_bytes + size_bytes > MAX_PENDING_BYTES
        if full and self.pending_requests:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, "too many batches wait for the verification of transactions"
            )

    def add_request(self, size_bytes: int) -> None:
        """Count a waiting request and the copies of its batches."""
        self.pending_requests += 1
        self.pending_bytes += size_bytes
        self._request_memory.take(size_bytes)

    def remove_request(self, size_bytes: int) -> None:
        """Undo `add_request` once the batches are appended or refused."""
        self.pending_requests -= 1
        self.pending_bytes -= size_bytes
        self._request_memory.give(size_bytes)

    def add_pending(self, batches: Iterable[PendingBatches], *, is_next: bool = False) -> asyncio.Future[None]:
        """Make later Produces with such batches wait until `remove_pending` is called with the future.

        `is_next`: these batches wait for those that are pending already, and later ones wait for these.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        for each in batches:
            if is_next or each not in self.pending:
                self.pending[each] = future
        return future

    def remove_pending(self, batches: Iterable[PendingBatches], future: asyncio.Future[None]) -> None:
        """Complete the future of batches that are appended or refused: the Produces that wait for them continue."""
        for each in batches:
            if self.pending.get(each) is future:
                del self.pending[each]
        if not future.done():
            future.set_result(None)

    # Verification.

    def verify_produce(
        self, transaction: Transaction, sequences: Mapping[Partition, int]
    ) -> Verified | Awaitable[Verified]:
        """Verify the batches of a Produce, given by partition and first sequence; the errors are those of its response.

        If partitions are added while the previous transaction is completing, retry for
        `add.partitions.to.txn.retry.backoff.max.ms`.
        """
        outcome = self.verify(transaction, sequences)
        if isinstance(outcome, Verified) and not _must_retry(transaction, outcome):
            return _for_produce(transaction, outcome)
        return self._verify_again(transaction, sequences, outcome)

    async def _verify_again(
        self, transaction: Transaction, sequences: Mapping[Partition, int], outcome: Verified | Awaitable[Verified]
    ) -> Verified:
        most_ms = min(self._config("add.partitions.to.txn.retry.backoff.max.ms"), self._config("request.timeout.ms"))
        backoff_s = self._config("add.partitions.to.txn.retry.backoff.ms") / 1000
        deadline = self._loop.time() + most_ms / 1000
        while True:
            verified = outcome if isinstance(outcome, Verified) else await outcome
            if not _must_retry(transaction, verified) or self._loop.time() >= deadline:
                return _for_produce(transaction, verified)
            await asyncio.sleep(backoff_s)
            outcome = self.verify(transaction, sequences)

    def verify(self, transaction: Transaction, sequences: Mapping[Partition, int]) -> Verified | Awaitable[Verified]:
        """Verify that partitions, each with the first sequence of its batch, are in the transaction, or add them to it.

        The result is not awaitable if no coordinator is needed, or this broker coordinates and need not wait.
        """
        verifies: bool = self._config("transaction.partition.verification.enable")
        _, producer_id, epoch, operation = transaction
        adds = operation is TransactionOperation.ADD
        errors: dict[Partition, KafkaError] = {}
        guards: dict[Partition, VerificationGuard] = {}
        if not (adds or verifies):
            return Verified(errors, dict.fromkeys(sequences, NOT_VERIFIED))
        for partition, sequence in sequences.items():
            try:
                partition.check()
                guard = partition.log.producers.start_verification(
                    producer_id, epoch, sequence, self._now_ms(), supports_epoch_bump=adds
                )
            except KafkaError as error:
                errors[partition] = error
                continue
            if guard is not None:
                guards[partition] = guard
        decided: PartitionErrors | asyncio.Future[PartitionErrors] = {}
        if guards:
            decided = self._add_or_verify(transaction, [(one.topic, one.index) for one in guards])
            if isinstance(decided, dict):
                _finish(producer_id, guards, decided)
            else:
                decided.add_done_callback(partial(_finish_when_decided, producer_id, dict(guards)))
        if not verifies:
            guards = {partition: NOT_VERIFIED for partition in sequences if partition not in errors}
        if isinstance(decided, dict):
            return _verified(errors, guards, decided)
        return self._when_decided(errors, guards, decided)

    def verify_here(
        self,
        coordinator: TransactionCoordinator,
        version: int,
        transactional_id: str,
        partition: Partition,
        header: BatchHeader,
    ) -> VerificationGuard | None:
        """Return the guard for a batch of a Produce, verified by this broker's own `coordinator`.

        None if `verify_produce` is needed: another broker coordinates the transaction, verification is disabled, the
        partition has to be added, or the batch is refused.
        """
        if produce_operation(version) is TransactionOperation.ADD:
            return None
        if not self._config("transaction.partition.verification.enable"):
            return None
        producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        place = partition.topic, partition.index
        if coordinator.verify_partitions(transactional_id, producer, (place,))[place] != ErrorCode.NONE:
            return None
        producers = partition.log.producers
        try:
            partition.check()
            guard = producers.start_verification(
                *producer, header.base_sequence, self._now_ms(), supports_epoch_bump=False
            )
        except KafkaError:
            return None
        if guard is not None:
            producers.finish_verification(header.producer_id, guard, is_known=True)
        return guard

    async def verify_one(
        self, transaction: Transaction, partition: Partition, sequence: int
    ) -> VerificationGuard | None:
        """Return the guard for one partition, None if the transaction is open there; raise the error of `verify`.

        Kafka: `ReplicaManager.maybeSendPartitionToTransactionCoordinator`.
        """
        outcome = self.verify(transaction, {partition: sequence})
        errors, guards = outcome if isinstance(outcome, Verified) else await outcome
        if partition in errors:
            raise errors[partition]
        return guards.get(partition)

    async def _when_decided(
        self,
        errors: dict[Partition, KafkaError],
        guards: dict[Partition, VerificationGuard],
        decided: asyncio.Future[PartitionErrors],
    ) -> Verified:
        return _verified(errors, guards, await decided)

    # Requests to coordinators.

    def _add_or_verify(
        self, transaction: Transaction, partitions: Sequence[TopicPartition]
    ) -> PartitionErrors | asyncio.Future[PartitionErrors]:
        """Return the coordinator's error code for each partition that it refuses."""
        coordinator = self._coordinator(transaction.transactional_id)
        if coordinator is None:
            self.failures += len(partitions)
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        decided: asyncio.Future[PartitionErrors] = self._loop.create_future()
        transactional_id, producer_id, epoch, operation = transaction
        pending = PendingVerification(
            transactional_id,
            producer_id,
            epoch,
            partitions,
            operation,
            partial(self._decided, decided, self._loop.time()),
        )
        if coordinator == self._node_id:
            self._decide_here(pending)
        else:
            self._queue.add(coordinator, pending)
            # In the next turn of the loop: together with what follows in this one.
            self._loop.call_soon(self._send, coordinator)
        return decided.result() if decided.done() else decided

    def _decided(self, decided: asyncio.Future[PartitionErrors], began: float, errors: PartitionErrors) -> None:
        now = self._loop.time()
        self.times.add(now - began, now)
        self.failures += len(errors)
        if not decided.done():
            decided.set_result(errors)

    def _coordinator(self, transactional_id: str) -> int | None:
        """Return the id of the broker that coordinates a transactional id; None if its partition has no leader."""
        image = self._image()
        topic = image.topic(TRANSACTION_STATE)
        if topic is None or not topic.partitions:
            return None
        state = topic.partitions.get(partition_for(transactional_id, len(topic.partitions)))
        broker = None if state is None else image.brokers.get(state.leader)
        return None if broker is None or broker.fenced else broker.broker_id

    def _decide_here(self, pending: PendingVerification) -> None:
        try:
            response = self._call_here(request_of([pending]), _LATEST_VERSION)
        except Exception as error:
            _fail([pending], error)
            return
        if isinstance(response, AddPartitionsToTxnResponse):
            complete([pending], response)
        else:
            self._start(self._complete([pending], response))

    def _send(self, coordinator: int) -> None:
        batch = self._queue.take(coordinator)
        if batch:
            client = self._clients.get(coordinator)
            if client is None:
                client = self._clients[coordinator] = self._connect_broker(coordinator)
                if self._is_stopped:
                    client.close()
            self._start(self._call(coordinator, batch, client.call(request_of(batch), min_version=BROKER_VERSION)))

    async def _call(self, coordinator: int, batch: list[PendingVerification], response: Awaitable[Any]) -> None:
        try:
            await self._complete(batch, response)
        finally:
            self._queue.finished(coordinator)
        self._send(coordinator)

    async def _complete(self, batch: list[PendingVerification], response: Awaitable[Any]) -> None:
        try:
            complete(batch, await response)
        except Exception as error:
            _fail(batch, error)

    def _start(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _fail(batch: Iterable[PendingVerification], error: Exception) -> None:
    """Complete the transactions of a request that failed with `error`."""
    if not isinstance(error, KafkaError):
        _log.error("The verification of transactions failed", exc_info=error)
    for pending in batch:
        if not isinstance(error, KafkaError):
            pending.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        elif error.code is ErrorCode.UNSUPPORTED_VERSION:
            pending.complete({})  # as in Kafka: a coordinator of an older version verifies nothing
        else:
            pending.fail(error.code)


def _finish_when_decided(
    producer_id: int, guards: Mapping[Partition, VerificationGuard], decided: asyncio.Future[PartitionErrors]
) -> None:
    _finish(producer_id, guards, {} if decided.cancelled() else decided.result())


def _finish(producer_id: int, guards: Mapping[Partition, VerificationGuard], codes: PartitionErrors) -> None:
    """Finish the verifications in the partitions, for which the coordinator has returned `codes`."""
    for partition, guard in guards.items():
        code = codes.get((partition.topic, partition.index))
        partition.log.producers.finish_verification(producer_id, guard, is_known=code in _MAY_BE_KNOWN)


def _verified(
    errors: dict[Partition, KafkaError], guards: dict[Partition, VerificationGuard], decided: PartitionErrors
) -> Verified:
    for partition in list(guards):
        code = decided.get((partition.topic, partition.index))
        if code is not None:
            errors[partition] = KafkaError(code)
            del guards[partition]
    return Verified(errors, guards)


def _must_retry(transaction: Transaction, verified: Verified) -> bool:
    return transaction.operation is TransactionOperation.ADD and any(
        error.code is ErrorCode.CONCURRENT_TRANSACTIONS for error in verified.errors.values()
    )


def _for_produce(transaction: Transaction, verified: Verified) -> Verified:
    """Return the result with the errors that producers of the request's version handle.

    Retriable errors of coordinators become NOT_ENOUGH_REPLICAS: older producers do not retry those, and this one does
    not make them refresh their metadata.
    """
    adds = transaction.operation is TransactionOperation.ADD
    errors = {}
    for partition, error in verified.errors.items():
        code = error.code
        if code in _RETRIABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
            text = f"the transaction could not be verified: {code.name}"
            errors[partition] = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, text)
        elif code is ErrorCode.INVALID_TXN_STATE:
            errors[partition] = KafkaError(code, "the partition was not added to the transaction")
        else:
            errors[partition] = error
    return Verified(errors, verified.guards)
