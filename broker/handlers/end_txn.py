"""EndTxn: commit or abort a transaction (KIP-98).

Behaviour
- The response follows when the decision is committed; markers are written afterwards, and the next transaction gets
  CONCURRENT_TRANSACTIONS until then.
- A retry gets the same response. INVALID_TXN_STATE for a commit without a transaction, or of an aborted one.
- PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING; NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.

Version notes
- Below 2, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH.
- 5 and later stand for a client with transaction.version 2: the response has the id and epoch of the next transaction,
  and an abort without a transaction is accepted (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.runtime.shard_host import then
from broker.coordinator.transaction.context import EndTransaction, ProducerResult
from broker.handlers.add_partitions_to_txn import error_for_version
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from storage.log.producer_state import EPOCH_PER_TRANSACTION

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_EPOCH_FROM_VERSION = 5


def handle(
    broker: BrokerServer, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """Commit or abort; wait until the decision is committed."""
    version = context.api_version

    def respond(result: ProducerResult) -> EndTxnResponse:
        return EndTxnResponse(
            error_code=error_for_version(result.error, version),
            producer_id=result.producer_id,
            producer_epoch=result.producer_epoch,
        )

    end = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_PER_TRANSACTION if version >= _EPOCH_FROM_VERSION else 0,
    )
    return then(broker.transactions.end(end), respond)
