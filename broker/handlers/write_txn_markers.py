"""WriteTxnMarkers: append the markers of ended transactions to partitions (KIP-98, KIP-890, KIP-1228).

Transaction coordinators send it to the leaders of a transaction's partitions, and administrators to abort a hanging
transaction (KIP-664). A coordinator calls `write_markers` for the partitions that its own broker leads.

Behaviour
- Each marker is appended to each of its partitions, and the response is sent once all are committed by the ISR, as with
  acks=all, or after `request.timeout.ms`. Partitions fail independently:
  UNKNOWN_TOPIC_OR_PARTITION without an online replica here, NOT_LEADER_OR_FOLLOWER from a follower,
  INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED as `ProducerStateManager.check_marker`, and those of a
  Produce with acks=all. INVALID_PRODUCER_ID_MAPPING and INVALID_PRODUCER_EPOCH for a negative producer id or epoch,
  which no transaction has; for -1 Kafka answers the whole request with UNKNOWN_SERVER_ERROR.
- A partition of `__consumer_offsets` is completed by the group coordinator, which applies or drops the transaction's
  offsets. Its coordinator errors are NOT_LEADER_OR_FOLLOWER: the transaction coordinator repeats the marker.
- A marker without a transaction in the partition is appended too: the coordinator repeats markers whose responses it
  has not received.
- The markers of one producer id have one result for each partition, that of the last.
- A request of many markers is a cooperative task (`broker.runtime.cooperative`).

Version notes
- 2 added the transaction version, by which markers of the current epoch are refused (KIP-1228); 1 has version 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.replication.partition import Partition
from broker.runtime.cooperative import start_steps
from controller.topic_names import CONSUMER_OFFSETS
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from protocol.record_batch import EndTxnMarker

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext
    from storage.steps import Steps

_MARKERS_A_STEP = 32  # about a millisecond

_COORDINATOR_ERRORS = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)

_Marker: TypeAlias = WriteTxnMarkersRequest.Marker
_Results: TypeAlias = "dict[str, dict[int, ErrorCode]]"
_Row = WriteTxnMarkersResponse.Marker


class _Write(NamedTuple):
    """An appended marker that is not committed yet."""

    results: _Results
    partition: Partition
    end_offset: int


class _Completion(NamedTuple):
    """The pending completion of a transaction by the group coordinator."""

    results: _Results
    partition: int
    outcome: asyncio.Future[None]


class _Appended(NamedTuple):
    """The results by producer id, topic and partition, and what the response waits for."""

    producers: dict[int, _Results]
    writes: list[_Write]
    completions: list[_Completion]


def handle(
    broker: BrokerServer, _context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Append the markers of a request."""
    return write_markers(broker, request)


def write_markers(
    broker: BrokerServer, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Append the markers to the partitions led here, and return the response once they are committed."""
    appended = start_steps(_append(broker, request), broker.loop)
    if isinstance(appended, Awaitable) or appended.writes or appended.completions:
        return _committed(broker, appended)
    return _response(appended)


def _append(broker: BrokerServer, request: WriteTxnMarkersRequest) -> Steps[_Appended]:
    appended = _Appended({}, [], [])
    count = 0
    for marker in request.markers:
        results = appended.producers.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            codes = results.setdefault(topic.name, {})
            for index in topic.partition_indexes:
                codes[index] = ErrorCode.NONE
                try:
                    if marker.producer_id < 0:
                        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
                    if marker.producer_epoch < 0:
                        raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
                    if topic.name == CONSUMER_OFFSETS:
                        completion = _complete_one(broker, marker, index, results)
                        if completion is not None:
                            appended.completions.append(completion)
                    elif (write := _append_one(broker, marker, topic.name, index, results)) is not None:
                        appended.writes.append(write)
                except KafkaError as error:
                    codes[index] = error.code
                count += 1
                if count % _MARKERS_A_STEP == 0:
                    yield None
    return appended


def _append_one(broker: BrokerServer, marker: _Marker, topic: str, index: int, results: _Results) -> _Write | None:
    """Append a marker to one partition; return the write unless it is committed at once."""
    partition = _online(broker, topic, index)
    info = broker.replicas.append_marker(
        partition,
        marker.producer_id,
        marker.producer_epoch,
        EndTxnMarker(marker.transaction_result, marker.coordinator_epoch),
        marker.transaction_version,
    )
    committed = partition.log.high_watermark > info.last_offset
    return None if committed else _Write(results, partition, info.last_offset + 1)


def _online(broker: BrokerServer, topic: str, index: int) -> Partition:
    partition = broker.replicas.find_named(topic, index)
    if partition is None or partition.log.offline:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partition


def _complete_one(broker: BrokerServer, marker: _Marker, index: int, results: _Results) -> _Completion | None:
    """Complete a transaction in one partition of `__consumer_offsets`; return it unless it is committed at once."""
    _online(broker, CONSUMER_OFFSETS, index)
    try:
        outcome = broker.groups.complete_transaction(
            index,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            marker.transaction_version,
        )
    except KafkaError as error:
        results[CONSUMER_OFFSETS][index] = _partition_error(error.code)
        return None
    return None if outcome is None else _Completion(results, index, outcome)


def _partition_error(code: ErrorCode) -> ErrorCode:
    """Return the partition error that a transaction coordinator handles instead of one of the group coordinator."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _COORDINATOR_ERRORS else code


async def _committed(broker: BrokerServer, appended: _Appended | Awaitable[_Appended]) -> WriteTxnMarkersResponse:
    if isinstance(appended, Awaitable):
        appended = await appended
    # One wait a partition: the last marker in it is committed last.
    ends = {write.partition: write.end_offset for write in appended.writes}
    codes = await broker.replicas.await_commit(list(ends.items()), broker.settings["request.timeout.ms"])
    outcomes = dict(zip(ends, codes, strict=True))
    for results, partition, _ in appended.writes:
        code = outcomes[partition]
        if code != ErrorCode.NONE:
            results[partition.topic][partition.index] = code
    for completion in appended.completions:
        try:
            await completion.outcome
        except KafkaError as error:
            completion.results[CONSUMER_OFFSETS][completion.partition] = _partition_error(error.code)
    return _response(appended)


def _response(appended: _Appended) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            _Row(
                producer_id=producer_id,
                topics=[
                    _Row.Topic(
                        name=topic,
                        partitions=[
                            _Row.Topic.Partition(partition_index=index, error_code=code)
                            for index, code in codes.items()
                        ],
                    )
                    for topic, codes in results.items()
                ],
            )
            for producer_id, results in appended.producers.items()
        ]
    )
