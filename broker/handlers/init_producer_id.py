"""InitProducerId: allocate a producer id and epoch.

Behaviour
- Without a transactional id, each request gets a new id, never allocated before, at epoch 0; the id in the request is
  ignored.
- With one: INVALID_REQUEST if it is empty, else TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which is fatal in clients, as
  transactions are not supported. Clients send FindCoordinator first; its response has the message.

Version notes
- 3 and later have the producer's id and epoch, both or neither (INVALID_REQUEST); only transactional producers need
  them.
- 6 (two-phase commit, KIP-939) is unstable in Kafka 4.3, and not advertised.
"""

from collections.abc import Awaitable

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(
    broker: BrokerServer, _context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Return a new producer id; wait only if the controller has to allocate a block."""
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        known = request.transactional_id != ""
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if known else ErrorCode.INVALID_REQUEST)
    producer_id = broker.producer_ids.take()
    return _allocated(producer_id) if producer_id is not None else _allocate(broker)


async def _allocate(broker: BrokerServer) -> InitProducerIdResponse:
    try:
        return _allocated(await broker.producer_ids.next())
    except KafkaError as error:
        return _refused(error.code)


def _allocated(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
