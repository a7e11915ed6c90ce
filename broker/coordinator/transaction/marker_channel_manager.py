"""Sending of the markers that end transactions to the partitions' leaders (Kafka: `TransactionMarkerChannelManager`).

`add` takes a transaction whose decision is committed. Its partitions are grouped by leader, and each leader gets one
WriteTxnMarkers request at a time, with the markers of all transactions that wait for it. `markers_written` is called
when each partition has its marker, or was deleted with its topic. What fails is sent again after `_RETRY_S`, or when
the metadata changes, to the leader of that time; so are the markers of partitions without a leader. Partitions that
this broker leads get their markers without a socket.

Nothing is sent for a transaction that is no longer coordinated here. If a partition has seen a newer epoch, of the
coordinator or the producer, the markers are obsolete, and the transaction is left to the coordinator that sent those.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from broker.coordinator.transaction.transaction_metadata import PREPARE_COMMIT
from broker.runtime.alarm import Alarm
from controller.image import NO_LEADER
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from storage.disk import reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.coordinator.transaction.transaction_metadata import TopicPartition, TransactionalId
    from broker.network.network_client import NetworkClient

_RETRY_S = 0.1
_ROUTED_A_TURN = 2_000
_PARTITIONS_A_REQUEST = 2_000

_DONE = frozenset(
    {
        ErrorCode.NONE,
        # The producer's records were refused for the same reason, so there is nothing to end.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_EXPECTED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

_log = logging.getLogger("broker.coordinator.transaction")


class PendingMarkers:
    """A prepared transaction, and the partitions that lack its marker (Kafka: `PendingCompleteTxn`)."""

    __slots__ = ("missing", "transaction")

    def __init__(self, transaction: TransactionalId) -> None:
        self.transaction = transaction
        self.missing = set(transaction.metadata.partitions)

    def __str__(self) -> str:
        return f"the markers of {self.transaction.name!r}"


class Unsent:
    """The partitions that get a transaction's marker by the next request to one leader."""

    __slots__ = ("marker", "partitions")

    def __init__(self, marker: PendingMarkers, partitions: list[TopicPartition]) -> None:
        self.marker = marker
        self.partitions = partitions


class Coordination(Protocol):
    """What the markers' sender uses of the coordinator."""

    def coordinator_epoch(self, transaction: TransactionalId) -> int | None:
        """Return the leader epoch in which the transaction is coordinated here; None if it is not."""

    def markers_written(self, transaction: TransactionalId) -> None:
        """Complete the transaction."""


class TransactionMarkerChannelManager:
    """The markers that wait to be written."""

    def __init__(
        self,
        coordination: Coordination,
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
        self._coordination = coordination
        self._node_id = node_id
        self._loop = loop
        self._leader_of = leader_of
        self._connect_broker = connect_broker
        self._write_here = write_here
        self._pending: dict[TransactionalId, PendingMarkers] = {}
        self._unrouted: deque[Unsent] = deque()
        self._queues: dict[int, deque[Unsent]] = {}
        self._in_flight: set[int] = set()
        self._failed: list[Unsent] = []
        self._clients: dict[int, NetworkClient] = {}
        self._tasks: set[asyncio.Future[None]] = set()
        self._router = Alarm(loop, self._route)
        self._retries = Alarm(loop, self.retry)

    def __len__(self) -> int:
        """Return the number of transactions whose markers are not all written."""
        return len(self._pending)

    @property
    def unknown_destination_count(self) -> int:
        """Return the number of transactions' markers that wait for partitions without a leader."""
        return sum(
            any(self._leader_of(topic, index) == NO_LEADER for topic, index in unsent.partitions)
            for unsent in self._failed
        )

    def add(self, transaction: TransactionalId) -> None:
        """Write the markers of a transaction whose decision is committed; start in the next turn of the loop."""
        marker = self._pending[transaction] = PendingMarkers(transaction)
        self._unrouted.append(Unsent(marker, sorted(marker.missing)))
        self._router.schedule()

    def retry(self) -> None:
        """Send again what failed: the leaders may have changed."""
        self._unrouted.extend(self._failed)
        self._failed.clear()
        if self._unrouted:
            self._router.schedule()

    def stop(self) -> None:
        """Send nothing more."""
        self._router.cancel()
        self._retries.cancel()
        for task in self._tasks:
            task.cancel()
        for client in self._clients.values():
            client.close()
        self._pending.clear()
        self._unrouted.clear()
        self._queues.clear()
        self._failed.clear()

    # Leaders

    def _route(self) -> None:
        """Queue the markers for the leaders, some in this turn of the loop, and send them."""
        left = _ROUTED_A_TURN
        while self._unrouted and left > 0:
            unsent = self._unrouted.popleft()
            if len(unsent.partitions) > left:
                self._unrouted.appendleft(Unsent(unsent.marker, unsent.partitions[left:]))
                unsent.partitions = unsent.partitions[:left]
            left -= len(unsent.partitions) + 1
            if self._is_pending(unsent.marker):
                self._route_one(unsent)
        if self._unrouted:
            self._router.schedule()
        for broker_id, queue in self._queues.items():
            if queue and broker_id not in self._in_flight:
                self._send(broker_id, queue)

    def _route_one(self, unsent: Unsent) -> None:
        marker = unsent.marker
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic, index in unsent.partitions:
            leader = self._leader_of(topic, index)
            if leader is None:
                marker.missing.discard((topic, index))  # deleted
            else:
                by_leader.setdefault(leader, []).append((topic, index))
        for leader, partitions in by_leader.items():
            if leader == NO_LEADER:
                self._retry_later(Unsent(marker, partitions))
            else:
                self._queues.setdefault(leader, deque()).append(Unsent(marker, partitions))
        self._complete_if_written(marker)

    def _is_pending(self, marker: PendingMarkers) -> bool:
        """Return whether the transaction still needs these markers from here; forget them if not."""
        transaction = marker.transaction
        if self._pending.get(transaction) is not marker:
            return False
        if self._coordination.coordinator_epoch(transaction) is None:
            del self._pending[transaction]
            return False
        return True

    def _complete_if_written(self, marker: PendingMarkers) -> None:
        if not marker.missing and self._pending.get(marker.transaction) is marker:
            del self._pending[marker.transaction]
            self._coordination.markers_written(marker.transaction)

    def _retry_later(self, unsent: Unsent) -> None:
        self._failed.append(unsent)
        if not self._retries.is_set:
            self._retries.schedule_at(self._loop.time() + _RETRY_S)

    # Requests

    def _send(self, broker_id: int, queue: deque[Unsent]) -> None:
        sent: dict[PendingMarkers, list[TopicPartition]] = {}
        epochs: dict[PendingMarkers, int] = {}
        left = _PARTITIONS_A_REQUEST
        while queue and left > 0:
            unsent = queue.popleft()
            epoch = self._coordination.coordinator_epoch(unsent.marker.transaction)
            if not self._is_pending(unsent.marker) or epoch is None:
                continue
            left -= len(unsent.partitions)
            epochs[unsent.marker] = epoch
            sent.setdefault(unsent.marker, []).extend(unsent.partitions)
        if not sent:
            return
        self._in_flight.add(broker_id)
        request = WriteTxnMarkersRequest(
            markers=[_marker(marker, partitions, epochs[marker]) for marker, partitions in sent.items()]
        )
        if broker_id == self._node_id:
            self._write_locally(request, sent, epochs)
            return

        def answered(answer: asyncio.Future[Any]) -> None:
            response = None
            if not answer.cancelled():
                error = answer.exception()
                if error is None:
                    response = answer.result()
                else:
                    _log.warning("Markers were not sent to broker %d: %s", broker_id, error)
            self._answered(broker_id, sent, epochs, response)

        self._client(broker_id).call(request, min_version=1).add_done_callback(answered)

    def _client(self, broker_id: int) -> NetworkClient:
        client = self._clients.get(broker_id)
        if client is None:
            client = self._clients[broker_id] = self._connect_broker(broker_id)
        return client

    def _write_locally(
        self,
        request: WriteTxnMarkersRequest,
        sent: dict[PendingMarkers, list[TopicPartition]],
        epochs: dict[PendingMarkers, int],
    ) -> None:
        try:
            written = self._write_here(request)
        except InvariantError:
            raise
        except Exception as error:  # the markers must be sent again, whatever it was
            _log.warning("Markers were not written: %s", reason(error), exc_info=not isinstance(error, KafkaError))
            self._answered(self._node_id, sent, epochs, None)
            return
        if isinstance(written, WriteTxnMarkersResponse):
            self._answered(self._node_id, sent, epochs, written)
        else:
            task = asyncio.ensure_future(self._await_local(written, sent, epochs), loop=self._loop)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _await_local(
        self,
        written: Awaitable[WriteTxnMarkersResponse],
        sent: dict[PendingMarkers, list[TopicPartition]],
        epochs: dict[PendingMarkers, int],
    ) -> None:
        response = None
        try:
            response = await written
        except InvariantError:
            raise
        except Exception as error:  # the markers must be sent again, whatever it was
            _log.warning("Markers were not written: %s", reason(error), exc_info=not isinstance(error, KafkaError))
        self._answered(self._node_id, sent, epochs, response)

    def _answered(
        self,
        broker_id: int,
        sent: dict[PendingMarkers, list[TopicPartition]],
        epochs: dict[PendingMarkers, int],
        response: WriteTxnMarkersResponse | None,
    ) -> None:
        """Complete the transactions that have all markers; None as response: send all of them again."""
        self._in_flight.discard(broker_id)
        errors: dict[int, dict[TopicPartition, int]] = {}
        if response is not None:
            for one in response.markers:
                found = errors.setdefault(one.producer_id, {})
                for topic in one.topics:
                    found.update({(topic.name, each.partition_index): each.error_code for each in topic.partitions})
        for marker, partitions in sent.items():
            if self._is_pending(marker):
                found = errors.get(marker.transaction.metadata.producer_id, {})
                self._acknowledge(marker, partitions, found, epochs[marker], has_answer=response is not None)
        self._router.schedule()

    def _acknowledge(
        self,
        marker: PendingMarkers,
        partitions: Iterable[TopicPartition],
        errors: dict[TopicPartition, int],
        sent_epoch: int,
        *,
        has_answer: bool,
    ) -> None:
        failed = []
        for partition in partitions:
            error = errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR if has_answer else None)
            if error in _DONE:
                marker.missing.discard(partition)
                continue
            if error in (ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
                current = self._coordination.coordinator_epoch(marker.transaction)
                if error == ErrorCode.INVALID_PRODUCER_EPOCH or current == sent_epoch:
                    # Another coordinator ends the transaction, or it has ended.
                    _log.info("Stopped sending %s: %s on %s-%d", marker, ErrorCode(error).name, *partition)
                    del self._pending[marker.transaction]
                    return
            elif error is not None and error not in _EXPECTED:
                _log.warning("Retrying to send %s: %s on %s-%d", marker, ErrorCode(error).name, *partition)
            failed.append(partition)
        if failed:
            self._retry_later(Unsent(marker, failed))
        self._complete_if_written(marker)


def _marker(
    marker: PendingMarkers, partitions: Iterable[TopicPartition], coordinator_epoch: int
) -> WriteTxnMarkersRequest.Marker:
    metadata = marker.transaction.metadata
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
        transaction_version=metadata.client_version,
    )
