"""Produce: append one batch to each of some partitions.

Behaviour
- Each partition takes exactly one batch of magic 2, checked by its header and appended as received; if the topic's
  settings require more, `broker.replication.record_validation` checks the records. Partitions fail independently.
- acks=0: no response; an error closes the connection, the only sign of failure for such a producer. acks=1: the
  response is sent after the append. acks=-1: NOT_ENOUGH_REPLICAS before the append if the ISR is too small; the
  response is sent once the batch is below the high watermark, with `barnabas.fsync=always` once it is on disk too. Any
  other value is INVALID_REQUIRED_ACKS.
- A batch that repeats one of the producer's last five gets the original offset (KIP-98).
- Transactional batches need a transactional id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED), are all of one producer
  (INVALID_PRODUCER_ID_MAPPING), and begin a transaction in a partition only once the coordinator has verified it
  (KIP-890, `broker.replication.add_partitions_to_txn_manager`). Until then the first batches are copied and wait, and
  later requests of the producer to these partitions wait, too. The other batches of a transaction are appended as
  usual.
- INVALID_TOPIC_EXCEPTION for internal topics, except from Kafka's admin client, as in Kafka.

Version notes
- 0 to 2 are advertised but cannot be decoded: librdkafka stops compressing if they are not listed (KAFKA-18659).
- 7 and later may have zstd; below, UNSUPPORTED_COMPRESSION_TYPE.
- 8 and later list the records that made a batch fail (KIP-467).
- 11 knows TRANSACTION_ABORTABLE; 12 and later add the partition to the transaction (KIP-890).
- 10 and later return the current leader and its address with NOT_LEADER_OR_FOLLOWER (KIP-951).
- 13 and later name topics by id: UNKNOWN_TOPIC_ID (KIP-516).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from broker.broker_server import BrokerServer
from broker.handlers.produce_appends import (
    TOPIC_IDS_FROM_VERSION,
    Rows,
    append,
    append_request,
    plain_response,
    response_of,
)
from broker.handlers.produce_in_transactions import append_in_transaction, verified_origin
from broker.network.connection import Connection, RequestContext
from broker.replication.partition import ACKS_ALL
from broker.runtime.deferred import Deferred
from protocol import produce_fast_path
from protocol.headers import RequestHeader
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.primitives import ZERO_UUID
from protocol.produce_fast_path import decode_plain_produce, encode_plain_response, plain_timeout_ms
from storage.log.producer_state import CLIENT


def handle(
    broker: BrokerServer, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred[ProduceResponse] | Awaitable[ProduceResponse | None] | None:
    """Append the batches of `request`; wait only for replicas, the disk, or the verification of a transaction."""
    if request.transactional_id is None:
        return append_request(broker, context, request)
    return append_in_transaction(broker, context, request)


def handle_frame(
    broker: BrokerServer,
    header: RequestHeader,
    connection: Connection,
    frame: memoryview,
    body_at: int,
    may_write: Callable[[Connection, str | None, bytes, str | None], bool] | None = None,
) -> bytes | ProduceResponse | Deferred[Any] | None:
    """Append the batches of a plain request, without decoding it to a message (fast path); None for any other.

    `may_write` returns whether the client is authorized for the topic's name or id and the transactional id.
    """
    version = header.api_version
    plain = decode_plain_produce(frame, body_at, version) if version >= produce_fast_path.FIRST_VERSION else None
    if plain is None:
        return None
    acks, topic, batches, transactional_id = plain
    if acks not in (ACKS_ALL, 1):
        return None
    name, topic_id = None, topic
    if version < TOPIC_IDS_FROM_VERSION:
        try:
            name, topic_id = str(topic[1:], "utf-8"), ZERO_UUID
        except UnicodeDecodeError:
            return None
    if may_write is not None and not may_write(connection, name, topic_id, transactional_id):
        return None
    origin = CLIENT
    if transactional_id is not None:
        verified = verified_origin(broker, version, transactional_id, name, topic_id, batches)
        if verified is None:
            return None
        origin = verified
    rows, uncommitted, refused = append(broker, version, header.client_id, acks, name, topic_id, batches, origin)
    if not (uncommitted or refused):
        return encode_plain_response(header.correlation_id, topic, rows)
    answered = Rows(name, topic_id, rows, uncommitted)
    if not uncommitted:
        return response_of(broker, version, connection.listener, [answered], ())
    writes = [(partition, end_offset) for _, partition, end_offset in uncommitted]
    outcomes = broker.replicas.await_commit(writes, plain_timeout_ms(frame, body_at))
    if refused:
        return outcomes.then(partial(response_of, broker, version, connection.listener, [answered]))
    return outcomes.then(partial(plain_response, broker, header, connection.listener, topic, answered))
