"""Sending of the markers that end transactions to the partitions' leaders (Kafka: `TransactionMarkerChannelManager`).

`add` takes a transaction whose decision is committed. Its partitions are grouped by leader, and each leader gets one
WriteTxnMarkers request at a time, with the markers of the transactions that wait for it. `markers_written` is called
when each partition has its marker, or was deleted with its topic. What fails is sent again after `_RETRY_S`, or when
the metadata changes, to the leader of that time. The markers of partitions without a leader wait for a change of the
metadata: no timer, because thousands of transactions may wait for one broker. Markers that wait for a leader's response
to an earlier request follow their partition to a new leader. Partitions that this broker leads get their markers
without a socket.

Nothing is sent for a transaction that is no longer coordinated here. A partition that refuses its marker does not keep
the others from getting theirs:

- INVALID_PRODUCER_EPOCH: the partition has a newer epoch of the producer, so the transaction is not open there any
  more: it was aborted by an admin, or another coordinator has ended it. The marker counts as written. In two cases a
  transaction may be open there nevertheless: verification is disabled, or an unclean election of
  `__transaction_state` has lost the completion.
- TRANSACTION_COORDINATOR_FENCED: another coordinator, or an admin in its name, has written the latest marker. The
  marker is sent again until this broker knows that it does not coordinate the transaction, or has a higher epoch: after
  `_RETRY_S`, twice as long each time, at most `_MAX_FENCED_RETRY_S`; at once when the coordinator's epoch has changed.
  Kafka has no backoff here: it repeats markers that failed with a retriable error in the next poll of its sender
  thread, and sends no more markers of the transaction after this error.

All work is done in turns of the event loop of a few milliseconds, whatever the number of transactions and partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from broker.coordinator.transaction.transaction_metadata import PREPARE_COMMIT
from broker.runtime.alarm import Alarm
from broker.runtime.deadline_queue import DeadlineQueue, Scheduled
from controller.image import NO_LEADER
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from storage.disk import reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.coordinator.transaction.transaction_metadata import TransactionalId
    from broker.network.network_client import NetworkClient
    from storage.checkpoint import TopicPartition

_RETRY_S = 0.1
_MAX_FENCED_RETRY_S = 10.0

# The work of a turn, and of a request, which is completed in one turn; in units of about 2 us: that of one partition.
_WORK_A_TURN = 2_000
_WORK_A_REQUEST = 2_000
_WORK_TO_ROUTE = 10
"""That of one transaction, besides its partitions."""
_WORK_TO_COMPLETE = 40
"""The same; the completion of each transaction is a record."""

_DONE = frozenset(
    {
        ErrorCode.NONE,
        # The producer's records were refused for the same reason, so there is nothing to end.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""Counts as written; the module's docstring names the two cases in which a transaction may stay open."""
_NOT_LOGGED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        # Expected during elections; retried.
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

_log = logging.getLogger("broker.coordinator.transaction")


class PendingCompleteTxn:
    """A prepared transaction, and the partitions that lack its marker (Kafka: `PendingCompleteTxn`)."""

    __slots__ = ("fenced_retry_s", "logged", "missing", "transaction")

    def __init__(self, transaction: TransactionalId) -> None:
        self.transaction = transaction
        self.logged: set[tuple[TopicPartition, int]] = set()
        """The errors of partitions that were logged."""
        self.fenced_retry_s: dict[TopicPartition, float] = {}
        """The latest backoff of the partitions whose last response was TRANSACTION_COORDINATOR_FENCED."""
        self.missing: set[TopicPartition] = set()
        """Empty until the markers are routed: a turn may add many transactions."""

    def __str__(self) -> str:
        return f"the markers of {self.transaction.name!r}"


class UnsentMarkers(NamedTuple):
    """The partitions that get a transaction's marker by the next request to one leader."""

    pending: PendingCompleteTxn
    partitions: list[TopicPartition]


class FencedMarkers(Scheduled):
    """Markers that TRANSACTION_COORDINATOR_FENCED refused, and the coordinator epoch in their request."""

    __slots__ = ("coordinator_epoch", "unsent")

    def __init__(self, coordinator_epoch: int, unsent: UnsentMarkers) -> None:
        super().__init__()
        self.coordinator_epoch = coordinator_epoch
        self.unsent = unsent


class InFlightMarkers(NamedTuple):
    """The markers in a request: their partitions, and the coordinator epoch of each transaction."""

    broker_id: int
    partitions: dict[PendingCompleteTxn, list[TopicPartition]]
    epochs: dict[PendingCompleteTxn, int]


class Coordinator(Protocol):
    """The part of the transaction coordinator that the marker channel manager uses."""

    def coordinator_epoch(self, transaction: TransactionalId) -> int | None:
        """Return the leader epoch in which the transaction is coordinated here; None if it is not."""

    def markers_written(self, transaction: TransactionalId) -> None:
        """Complete the transaction."""


class TransactionMarkerChannelManager:
    """The markers that wait to be written."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        node_id: int,
        loop: asyncio.AbstractEventLoop,
        leader_of: Callable[[str, int], int | None],
        connect_broker: Callable[[int], NetworkClient],
        write_here: Callable[[WriteTxnMarkersRequest], WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]],
    ) -> None:
        """Send nothing yet.

        `leader_of` returns the broker that leads a partition, `NO_LEADER`, or None if the partition does not exist.
        `write_here` writes markers to partitions that this broker leads.
        """
        self._coordinator = coordinator
        self._node_id = node_id
        self._loop = loop
        self._leader_of = leader_of
        self._connect_broker = connect_broker
        self._write_here = write_here
        self._pending: dict[TransactionalId, PendingCompleteTxn] = {}
        self._added: deque[PendingCompleteTxn] = deque()
        self._unrouted: deque[UnsentMarkers] = deque()
        self._queues: dict[int, deque[UnsentMarkers]] = {}
        self._in_flight: set[int] = set()
        self._failed: list[UnsentMarkers] = []
        self._without_leader: list[UnsentMarkers] = []
        self._clients: dict[int, NetworkClient] = {}
        self._tasks: set[asyncio.Future[None]] = set()
        self._router = Alarm(loop, self._route)
        self._retries = Alarm(loop, self._retry)
        self._fenced_retries = Alarm(loop, self._retry_fenced)
        self._fenced: DeadlineQueue[FencedMarkers] = DeadlineQueue(self._fenced_retries.schedule_at)

    def __len__(self) -> int:
        """Return the number of transactions whose markers are not all written."""
        return len(self._pending)

    def missing(self, transaction: TransactionalId) -> list[TopicPartition]:
        """Return the partitions that lack the marker of a transaction, in order."""
        pending = self._pending.get(transaction)
        if pending is None:
            return []
        return sorted(pending.missing or transaction.metadata.partitions)

    @property
    def unknown_destination_count(self) -> int:
        """Return the number of transactions with markers that wait for partitions without a leader."""
        return len({unsent.pending for unsent in self._without_leader})

    def add(self, transaction: TransactionalId) -> None:
        """Write the markers of a transaction whose decision is committed; start in the next turn of the loop."""
        pending = self._pending[transaction] = PendingCompleteTxn(transaction)
        self._added.append(pending)
        self._router.schedule()

    def leaders_changed(self) -> None:
        """Send what failed, or waits for a leader or a response to an earlier request, to the leaders of now.

        Markers that were fenced keep their backoff unless this coordinator's epoch is another one now.
        """
        for queue in self._queues.values():
            self._unrouted.extend(queue)
            queue.clear()
        for one in self._fenced:
            if self._coordinator.coordinator_epoch(one.unsent.pending.transaction) != one.coordinator_epoch:
                one.cancel()
                self._unrouted.append(one.unsent)
        self._unrouted.extend(self._without_leader)
        self._without_leader.clear()
        self._retry()

    def _retry(self) -> None:
        self._unrouted.extend(self._failed)
        self._failed.clear()
        if self._unrouted:
            self._router.schedule()

    def _retry_fenced(self) -> None:
        while (due := self._fenced.pop_due(self._loop.time())) is not None:
            self._unrouted.append(due.unsent)
        self._fenced_retries.schedule_at(self._fenced.next_at)
        if self._unrouted:
            self._router.schedule()

    def stop(self) -> None:
        """Send nothing more."""
        for alarm in (self._router, self._retries, self._fenced_retries):
            alarm.cancel()
        for task in self._tasks:
            task.cancel()
        for client in self._clients.values():
            client.close()
        for one in self._fenced:
            one.cancel()
        for waiting in (self._pending, self._added, self._unrouted, self._queues, self._failed, self._without_leader):
            waiting.clear()

    # Leaders

    def _route(self) -> None:
        """Queue the markers for the leaders, some in this turn of the loop, and send them."""
        left = _WORK_A_TURN
        while left > 0 and (self._unrouted or self._added):
            if not self._unrouted:
                added = self._added.popleft()
                if not self._is_pending(added):
                    continue
                added.missing = set(added.transaction.metadata.partitions)
                self._unrouted.append(UnsentMarkers(added, sorted(added.missing)))
            pending, partitions = self._unrouted.popleft()
            if len(partitions) > left:
                self._unrouted.appendleft(UnsentMarkers(pending, partitions[left:]))
                partitions = partitions[:left]
            left -= len(partitions) + _WORK_TO_ROUTE
            if self._is_pending(pending):
                self._route_one(pending, partitions)
        if self._unrouted or self._added:
            self._router.schedule()
        for broker_id, queue in self._queues.items():
            if queue and broker_id not in self._in_flight:
                self._send(broker_id, queue)

    def _route_one(self, pending: PendingCompleteTxn, partitions: list[TopicPartition]) -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic, index in partitions:
            leader = self._leader_of(topic, index)
            if leader is None:
                pending.missing.discard((topic, index))  # deleted
            else:
                by_leader.setdefault(leader, []).append((topic, index))
        for leader, led in by_leader.items():
            if leader == NO_LEADER:
                self._without_leader.append(UnsentMarkers(pending, led))
            else:
                self._queues.setdefault(leader, deque()).append(UnsentMarkers(pending, led))
        self._complete_if_written(pending)

    def _is_pending(self, pending: PendingCompleteTxn) -> bool:
        """Return whether the transaction still needs these markers from here; drop them if not."""
        transaction = pending.transaction
        if self._pending.get(transaction) is not pending:
            return False
        if self._coordinator.coordinator_epoch(transaction) is None:
            del self._pending[transaction]
            return False
        return True

    def _complete_if_written(self, pending: PendingCompleteTxn) -> None:
        if not pending.missing and self._pending.get(pending.transaction) is pending:
            del self._pending[pending.transaction]
            self._coordinator.markers_written(pending.transaction)

    def _retry_later(self, unsent: UnsentMarkers) -> None:
        self._failed.append(unsent)
        if not self._retries.is_set:
            self._retries.schedule_at(self._loop.time() + _RETRY_S)

    def _back_off(self, pending: PendingCompleteTxn, fenced: list[TopicPartition], epoch: int) -> None:
        """Send the markers of partitions that fenced this coordinator's `epoch` again, later each time."""
        if self._coordinator.coordinator_epoch(pending.transaction) != epoch:
            self._retry_later(UnsentMarkers(pending, fenced))
            return
        by_delay: dict[float, list[TopicPartition]] = {}
        for partition in fenced:
            delay_s = min(2 * pending.fenced_retry_s.get(partition, _RETRY_S / 2), _MAX_FENCED_RETRY_S)
            pending.fenced_retry_s[partition] = delay_s
            by_delay.setdefault(delay_s, []).append(partition)
        for delay_s, partitions in by_delay.items():
            markers = FencedMarkers(epoch, UnsentMarkers(pending, partitions))
            self._fenced.schedule(markers, self._loop.time() + delay_s)

    # Requests

    def _send(self, broker_id: int, queue: deque[UnsentMarkers]) -> None:
        sent = InFlightMarkers(broker_id, {}, {})
        left = _WORK_A_REQUEST
        while queue and left > 0:
            pending, partitions = queue.popleft()
            epoch = self._coordinator.coordinator_epoch(pending.transaction)
            if not self._is_pending(pending) or epoch is None:
                continue
            left -= len(partitions) + _WORK_TO_COMPLETE
            sent.epochs[pending] = epoch
            sent.partitions.setdefault(pending, []).extend(partitions)
        if not sent.partitions:
            return
        self._in_flight.add(broker_id)
        request = WriteTxnMarkersRequest(
            markers=[_marker(pending, each, sent.epochs[pending]) for pending, each in sent.partitions.items()]
        )
        if broker_id == self._node_id:
            self._write_locally(request, sent)
            return

        def responded(future: asyncio.Future[Any]) -> None:
            response = None
            if not future.cancelled():
                error = future.exception()
                if error is None:
                    response = future.result()
                else:
                    _log.warning("Markers were not sent to broker %d: %s", broker_id, error)
            self._handle_response(sent, response)

        self._client(broker_id).call(request, min_version=1).add_done_callback(responded)

    def _client(self, broker_id: int) -> NetworkClient:
        client = self._clients.get(broker_id)
        if client is None:
            client = self._clients[broker_id] = self._connect_broker(broker_id)
        return client

    def _write_locally(self, request: WriteTxnMarkersRequest, sent: InFlightMarkers) -> None:
        try:
            written = self._write_here(request)
        except InvariantError:
            raise
        except Exception as error:  # the markers must be sent again, whatever it was
            self._local_write_failed(sent, error)
            return
        if isinstance(written, WriteTxnMarkersResponse):
            self._handle_response(sent, written)
        else:
            task = asyncio.ensure_future(self._await_local(written, sent), loop=self._loop)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _await_local(self, written: Awaitable[WriteTxnMarkersResponse], sent: InFlightMarkers) -> None:
        try:
            response = await written
        except InvariantError:
            raise
        except Exception as error:  # the markers must be sent again, whatever it was
            self._local_write_failed(sent, error)
        else:
            self._handle_response(sent, response)

    def _local_write_failed(self, sent: InFlightMarkers, error: Exception) -> None:
        _log.warning("Markers were not written: %s", reason(error), exc_info=not isinstance(error, KafkaError))
        self._handle_response(sent, None)

    def _handle_response(self, sent: InFlightMarkers, response: WriteTxnMarkersResponse | None) -> None:
        """Complete the transactions that have all markers; None as response: send all of them again."""
        self._in_flight.discard(sent.broker_id)
        errors: dict[int, dict[TopicPartition, int]] = {}
        if response is not None:
            for one in response.markers:
                found = errors.setdefault(one.producer_id, {})
                for topic in one.topics:
                    found.update({(topic.name, each.partition_index): each.error_code for each in topic.partitions})
        for pending, partitions in sent.partitions.items():
            if self._is_pending(pending):
                found = errors.get(pending.transaction.metadata.producer_id, {})
                epoch = sent.epochs[pending]
                self._acknowledge(pending, partitions, found, epoch=epoch, has_response=response is not None)
        self._router.schedule()

    def _acknowledge(
        self,
        pending: PendingCompleteTxn,
        partitions: Iterable[TopicPartition],
        errors: dict[TopicPartition, int],
        *,
        epoch: int,
        has_response: bool,
    ) -> None:
        failed, fenced = [], []
        for partition in partitions:
            error = errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR if has_response else None)
            if error is not None and error not in _NOT_LOGGED and (partition, error) not in pending.logged:
                pending.logged.add((partition, error))
                level = logging.INFO if error == ErrorCode.INVALID_PRODUCER_EPOCH else logging.WARNING
                _log.log(level, "%s-%d refused %s: %s", *partition, pending, ErrorCode(error).name)
            if error == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                fenced.append(partition)
                continue
            if pending.fenced_retry_s:
                pending.fenced_retry_s.pop(partition, None)
            if error in _DONE:
                pending.missing.discard(partition)
            else:
                failed.append(partition)
        if fenced:
            self._back_off(pending, fenced, epoch)
        if failed:
            self._retry_later(UnsentMarkers(pending, failed))
        self._complete_if_written(pending)


def _marker(
    pending: PendingCompleteTxn, partitions: Iterable[TopicPartition], coordinator_epoch: int
) -> WriteTxnMarkersRequest.Marker:
    metadata = pending.transaction.metadata
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest.Marker(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_result=metadata.state is PREPARE_COMMIT,
        topics=[
            WriteTxnMarkersRequest.Marker.Topic(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic.items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=metadata.client_transaction_version,
    )
