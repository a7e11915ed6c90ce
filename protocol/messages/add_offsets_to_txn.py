"""AddOffsetsToTxn: add the partition of `__consumer_offsets` of a group to an open transaction (KIP-98).

Version notes: 4 may return TRANSACTION_ABORTABLE (KIP-890). Clients of `transaction.version` 2 do not send it.
"""

from __future__ import annotations

from protocol.schema import Int16, Int32, Int64, Message, String, message, wire


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest(Message):
    """A transaction and a group."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse(Message):
    """The result."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
