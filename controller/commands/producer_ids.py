"""Blocks of producer ids (KIP-730): a broker assigns the ids of its block without further requests."""

from controller.commands.controller_result import ControllerResult
from controller.configs.effective import StaticSettings
from controller.image import MetadataImage
from controller.partition_change import DEFAULT_SETTINGS
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from protocol.records.metadata import ProducerIdsRecord

BLOCK_SIZE = 1000
_MAX_PRODUCER_ID = (1 << 63) - 1


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest, _settings: StaticSettings = DEFAULT_SETTINGS
) -> ControllerResult[AllocateProducerIdsResponse]:
    """Allocate the next block of ids to a broker.

    KafkaError STALE_BROKER_EPOCH if the broker is not registered in that epoch, UNKNOWN_SERVER_ERROR if no ids are
    left.
    """
    broker_id, broker_epoch = request.broker_id, request.broker_epoch
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered in epoch {broker_epoch}")
    first = image.next_producer_id
    if first > _MAX_PRODUCER_ID - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are allocated")
    next_producer_id = first + BLOCK_SIZE
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=next_producer_id)
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return ControllerResult((record,), response)
