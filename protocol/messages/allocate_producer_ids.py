"""AllocateProducerIds: a broker requests a block of producer ids from the controller (KIP-730)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Int64, Message, message, wire


@message(key=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsRequest(Message):
    """The broker that requests the block."""

    broker_id: Int32
    broker_epoch: Int64 = wire(default=-1)


@message(key=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsResponse(Message):
    """The first id of the block and the number of ids."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    producer_id_start: Int64
    producer_id_len: Int32
