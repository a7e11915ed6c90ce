"""EndTxn: commit or abort a transaction (KIP-98).

Version notes: 4 may return TRANSACTION_ABORTABLE; 5 starts the next transaction with a new epoch (KIP-890).
"""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Int64, Message, String, message, wire


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnRequest(Message):
    """A transaction, and whether to commit it."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnResponse(Message):
    """The result, with the id and the epoch of the next transaction."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    producer_id: Int64 = wire("5+", default=-1, ignorable=True)
    producer_epoch: Int16 = wire("5+", default=-1, ignorable=True)
