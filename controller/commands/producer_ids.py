"""Blocks of producer ids (KIP-730): a broker assigns the ids of its block without further requests."""

from __future__ import annotations

from controller.commands.controller_result import ControllerResult
from controller.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import ProducerIdsRecord

BLOCK_SIZE = 1000
_MAX_PRODUCER_ID = (1 << 63) - 1


def allocate_producer_ids(image: MetadataImage, broker_id: int, broker_epoch: int) -> ControllerResult[range]:
    """Allocate the next block of ids to a broker.

    KafkaError STALE_BROKER_EPOCH if the broker is not registered in that epoch, UNKNOWN_SERVER_ERROR if no ids are
    left.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered in epoch {broker_epoch}")
    first = image.next_producer_id
    if first > _MAX_PRODUCER_ID - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are allocated")
    following = first + BLOCK_SIZE
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=following)
    return ControllerResult((record,), range(first, following))
