"""Transactions: fenced producers and aborted transactions, at the coordinator of their transactional id."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from broker.control.api_problem import ApiProblem, conflict, misdirected, not_found
from broker.control.waiting import DEFAULT_TIMEOUT_MS, coordinator_changes, until
from broker.coordinator.transaction.context import InitProducerId
from broker.coordinator.transaction.transaction_metadata import IDLE, ONGOING, TransactionalId
from broker.metadata.internal_topics import ensure_internal_topic
from controller.topic_names import TRANSACTION_STATE
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.control.control import Control
    from broker.coordinator.runtime.shard_host import ShardHost
    from broker.coordinator.transaction.context import TransactionContext
    from broker.coordinator.transaction.shard import TransactionCoordinatorShard

    Host = ShardHost[TransactionCoordinatorShard, TransactionContext]

_NO_PRODUCER = -1
_ATTEMPTS = 3
"""The first one aborts the open transaction, if there is one."""


async def fence_producer(control: Control, transactional_id: str) -> dict[str, Any]:
    """Fence the producer of a transactional id, as another one with the id would; its transaction is aborted."""
    broker = control.broker
    host, one = await _existing(broker, transactional_id)
    # As an admin's tool does, also for a transaction of two-phase commit, which has no timeout.
    timeout_ms = min(one.metadata.timeout_ms, broker.transactions.settings.max_timeout_ms)
    init = InitProducerId(transactional_id, timeout_ms, _NO_PRODUCER, _NO_PRODUCER)
    error = ErrorCode.CONCURRENT_TRANSACTIONS
    for _ in range(_ATTEMPTS):
        outcome = broker.transactions.init_producer_id(init)
        error = (await outcome if isinstance(outcome, asyncio.Future) else outcome).error
        if error is not ErrorCode.CONCURRENT_TRANSACTIONS:
            break
        if not await _until_settled(broker, one):
            raise _unfinished(broker, one)
    if error is not ErrorCode.NONE:
        raise conflict(f"the producer of {transactional_id} was not fenced: {error.name}")
    return _described(host, transactional_id)


async def abort_transaction(control: Control, transactional_id: str) -> dict[str, Any]:
    """Abort the open transaction of a transactional id, as after its timeout; return once its markers are written."""
    broker = control.broker
    host, one = await _existing(broker, transactional_id)
    if one.metadata.state is not ONGOING:
        raise conflict(f"{transactional_id} has no open transaction: it is {one.metadata.state.display_name}")
    if not await abort(broker, host, one):
        raise _unfinished(broker, one)
    return _described(host, transactional_id)


async def abort(broker: BrokerServer, host: Host, one: TransactionalId) -> bool:
    """Abort an open transaction; return whether it is complete within `DEFAULT_TIMEOUT_MS`."""
    if await _until_settled(broker, one):
        host.run(lambda context: host.shard.abort(context, one))
        await _until_settled(broker, one)
    return one.pending is None and one.metadata.state in IDLE


async def _until_settled(broker: BrokerServer, one: TransactionalId) -> bool:
    """Wait until no transition of a transactional id is pending; return False after `DEFAULT_TIMEOUT_MS`.

    The completion of a transaction is pending until all its markers are written.
    """
    return await until(
        lambda: one.pending is None, [coordinator_changes(broker.transactions.runtime)], DEFAULT_TIMEOUT_MS
    )


def _unfinished(broker: BrokerServer, one: TransactionalId) -> ApiProblem:
    """Return the refusal for a transaction that is still open, or lacks markers."""
    state = one.metadata.state
    if state is ONGOING:
        what, partitions = "it is open in", sorted(one.metadata.partitions)
    else:
        what, partitions = "its marker is missing in", broker.transactions.markers.missing(one)
    names = [f"{topic}-{index}" for topic, index in partitions]
    message = f"the transaction of {one.name} is still {state.display_name}: {what} {', '.join(names) or 'none'}"
    return ApiProblem(HTTPStatus.GATEWAY_TIMEOUT, message, {"state": state.display_name, "partitions": names})


async def abort_all(broker: BrokerServer) -> list[str]:
    """Abort the open transactions that this broker coordinates; return the ids of those that are complete."""
    coordinator = broker.transaction_coordinator
    ongoing = [
        (host, one)
        for host in (() if coordinator is None else coordinator.runtime.active_hosts())
        for one in tuple(host.shard.ids.values())
        if one.metadata.state is ONGOING
    ]
    return [one.name for host, one in ongoing if await abort(broker, host, one)]


async def _existing(broker: BrokerServer, transactional_id: str) -> tuple[Host, TransactionalId]:
    await ensure_internal_topic(broker, TRANSACTION_STATE)
    runtime = broker.transactions.runtime
    try:
        host = runtime.host_of(transactional_id)
    except KafkaError as error:
        if error.code is not ErrorCode.NOT_COORDINATOR:
            raise conflict(f"the coordinator of {transactional_id} is loading: try again") from error
        state = broker.image.partition(TRANSACTION_STATE, runtime.partition_of(transactional_id))
        leader = -1 if state is None or state.leader == broker.node_id else state.leader
        raise misdirected(f"the coordinator of {transactional_id}", leader) from error
    one = host.shard.ids.get(transactional_id)
    if one is None or one.is_new:
        known = ", ".join(sorted(host.shard.ids)) or "none"
        raise not_found(f"there is no transactional id {transactional_id}; there are: {known}")
    return host, one


def _described(host: Host, transactional_id: str) -> dict[str, Any]:
    metadata = host.shard.ids[transactional_id].metadata
    return {
        "transactional_id": transactional_id,
        "state": metadata.state.display_name,
        "producer_id": metadata.producer_id,
        "producer_epoch": metadata.producer_epoch,
    }
