"""Producer ids for idempotent producers, from blocks that the controller allocates (Kafka: `RPCProducerIdManager`).

No id is handed out twice in a cluster: a block belongs to one broker, and its remaining ids are lost when that broker
restarts. The controller's side is `controller.commands.producer_ids`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain

from broker.metadata.controller_channel import ControllerChannel
from protocol.errors import ErrorCode, KafkaError

_log = logging.getLogger("broker.producer_ids")


class ProducerIdManager:
    """The producer ids that this broker may hand out."""

    __slots__ = ("_allocate", "_allocation", "_free", "_last_error")

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        """`allocate` returns a new block, or raises KafkaError if the controller allocates none."""
        self._allocate = allocate
        self._free: Iterator[int] = iter(range(0))
        self._allocation: asyncio.Task[KafkaError | None] | None = None
        self._last_error: str | None = None

    def take(self) -> int | None:
        """Return a new id; None if the current block is used up."""
        return next(self._free, None)

    async def allocate(self) -> None:
        """Allocate a block if the current one is used up, so that `take` returns an id; raise the error of `next`."""
        self._free = chain((await self.next(),), self._free)

    async def next(self) -> int:
        """Return a new id; concurrent callers share an allocation, and its error.

        Raise COORDINATOR_LOAD_IN_PROGRESS if the controller allocates none, whatever its error, such as a stale broker
        epoch: it is retriable for clients (Kafka: `RPCProducerIdManager.generateProducerId`).
        """
        while (producer_id := self.take()) is None:
            if self._allocation is None:
                self._allocation = asyncio.create_task(self._allocate_block())
            error = await asyncio.shield(self._allocation)  # the others wait for it too
            if error is not None:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "waiting for producer ids") from error
        return producer_id

    async def _allocate_block(self) -> KafkaError | None:
        """Allocate a block; return the controller's error."""
        try:
            self._free = iter(await self._allocate())
        except KafkaError as error:
            self._log_failure(error)
            return error
        finally:
            self._allocation = None
        self._last_error = None
        return None

    def _log_failure(self, error: KafkaError) -> None:
        """Log an error of the controller, unless it is that of the last attempt: clients decide how many there are."""
        if error.code.name != self._last_error:
            self._last_error = error.code.name
            _log.warning("The controller allocated no producer ids: %s", error.code.name)


async def allocate_block(node_id: int, broker_epoch: int, channel: ControllerChannel, timeout_s: float) -> range:
    """Return a block of ids allocated to this broker; KafkaError if the controller allocates none."""
    from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest

    request = AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=broker_epoch)
    block = await channel.call(request, timeout_s)
    if block.error_code:
        raise KafkaError(ErrorCode(block.error_code), "The controller allocated no producer ids.")
    return range(block.producer_id_start, block.producer_id_start + block.producer_id_len)
