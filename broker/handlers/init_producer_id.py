"""InitProducerId: allocate a producer id and epoch.

Behaviour
- Without a transactional id, each request gets a new id, never allocated before, at epoch 0; the id in the request is
  ignored.
- With one, the coordinator gives the id's producer a new epoch, which fences the producer before it (KIP-98). A
  transaction that is open is aborted first: CONCURRENT_TRANSACTIONS until that is done. INVALID_TRANSACTION_TIMEOUT
  above `transaction.max.timeout.ms`; INVALID_REQUEST for an empty id.
- COORDINATOR_LOAD_IN_PROGRESS if the controller allocates no producer ids: the client repeats the request.
- A producer that recovers sends its id and epoch; PRODUCER_FENCED if another has taken its place (KIP-360).

Version notes
- 3 and later have the producer's id and epoch, both or neither (INVALID_REQUEST); only transactional producers need
  them.
- Below 4, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH.
- 6 has two-phase commit (KIP-939): with `enable_2pc` the transaction has no timeout, so that an external coordinator
  can decide on it after any failure. With `keep_prepared_txn` the open transaction is not aborted: the response has its
  producer id and epoch, by which the external coordinator knows it, and those with which the new producer commits or
  aborts it; UNSUPPORTED_VERSION below transaction.version 2. Apache Kafka 4.3 has no `keep_prepared_txn` yet. Version 6
  is served if `transaction.two.phase.commit.enable` is set; TRANSACTIONAL_ID_AUTHORIZATION_FAILED from a coordinator on
  which it is not.
"""

from collections.abc import Awaitable

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FENCED_FROM_VERSION = 4


def handle(
    broker: BrokerServer, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Return the producer id and epoch; an awaitable while the coordinator commits them, or a block is allocated."""
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _init_transactions(broker, context.api_version, request.transactional_id, request)
    producer_id = broker.producer_ids.take()
    return _allocated(producer_id) if producer_id is not None else _allocate(broker)


def _init_transactions(
    broker: BrokerServer, version: int, transactional_id: str, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    from broker.coordinator.runtime.shard_host import then
    from broker.coordinator.transaction.context import InitProducerId, ProducerResult
    from broker.handlers.add_partitions_to_txn import error_for_version

    def respond(result: ProducerResult) -> InitProducerIdResponse:
        return InitProducerIdResponse(
            error_code=error_for_version(result.error, version, _FENCED_FROM_VERSION),
            producer_id=result.producer_id,
            producer_epoch=result.producer_epoch,
            ongoing_txn_producer_id=result.ongoing_producer_id,
            ongoing_txn_producer_epoch=result.ongoing_producer_epoch,
        )

    init = InitProducerId(
        transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
        enable_2pc=request.enable_2pc,
        keep_prepared=request.keep_prepared_txn,
    )
    return then(broker.transactions.init_producer_id(init), respond)


async def _allocate(broker: BrokerServer) -> InitProducerIdResponse:
    try:
        return _allocated(await broker.producer_ids.next())
    except KafkaError as error:
        return _refused(error.code)


def _allocated(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
