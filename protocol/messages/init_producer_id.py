"""InitProducerId: get an id and an epoch for an idempotent or transactional producer (KIP-98).

Version notes: 3 lets a producer keep its id with a new epoch (KIP-360); 6, which Kafka 4.3 does not advertise, has
two-phase commit (KIP-939).
"""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Int64, Message, String, message, wire


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdRequest(Message):
    """A transactional id; null for a producer that is only idempotent."""

    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = wire("3+", default=-1)
    producer_epoch: Int16 = wire("3+", default=-1)
    enable_2pc: Bool = wire("6+", default=False)
    keep_prepared_txn: Bool = wire("6+", default=False)


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdResponse(Message):
    """The producer's id and epoch."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    producer_id: Int64 = wire(default=-1)
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = wire("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = wire("6+", default=-1)
