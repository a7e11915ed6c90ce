"""The transaction coordinator: the transactional APIs as operations on shards (Kafka: `TransactionCoordinator`).

`runtime.coordinator_runtime` has the shards of the `__transaction_state` partitions led here, `shard` the rules, and
`marker_channel_manager` sends the markers of prepared transactions. Here are the checks that need no state, producer
ids from the controller, and the periodic sweeps, in slices of a few milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from broker.coordinator.runtime.shard_host import Outcome
from broker.coordinator.transaction.context import (
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    ProducerResult,
    TransactionContext,
    TransactionSettings,
)
from broker.coordinator.transaction.marker_channel_manager import TransactionMarkerChannelManager
from broker.coordinator.transaction.shard import TransactionCoordinatorShard
from broker.coordinator.transaction.transaction_metadata import NO_TIMEOUT_MS, ONGOING, TransactionMetadata
from broker.runtime.cooperative import ONE_STEP, run_steps
from controller.topic_names import TRANSACTION_STATE
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from random import Random

    from broker.coordinator.runtime.partition_journal import Journal
    from broker.coordinator.runtime.shard_host import ShardHost
    from broker.coordinator.runtime.timers import Timers
    from broker.coordinator.transaction.transaction_metadata import TransactionalId
    from broker.coordinator.transaction.transaction_partitions import TransactionPartitions
    from broker.metadata.producer_id_manager import ProducerIdManager
    from broker.network.network_client import NetworkClient
    from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
    from storage.checkpoint import TopicPartition
    from storage.steps import Steps

# The work of a turn that sweeps over all ids, in units of about 7 us: that of an idle id.
_WORK_A_TURN = 500
_WORK_OF_OPEN = 4
"""That of an open transaction, which the sweep may abort, besides its partitions."""
_PARTITIONS_A_UNIT = 10
_CHARACTERS_A_UNIT = 500
_RETRIES = 3

_log = logging.getLogger("broker.coordinator.transaction")


class TransactionCoordinator:
    """The transactional ids that this broker coordinates.

    Operations return an error code, or a result with one, now or in a future: NOT_COORDINATOR and
    COORDINATOR_LOAD_IN_PROGRESS if the id's partition is led elsewhere or is loading.
    """

    def __init__(
        self,
        *,
        node_id: int,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        random: Random,
        settings: TransactionSettings,
        producer_ids: ProducerIdManager,
        transaction_version: Callable[[], int],
        partition_count: Callable[[], int],
        open_journal: Callable[[int], Journal],
        leader_of: Callable[[str, int], int | None],
        connect_broker: Callable[[int], NetworkClient],
        write_markers: Callable[[WriteTxnMarkersRequest], WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]],
    ) -> None:
        """Host nothing yet.

        `partition_count` returns that of `__transaction_state`, or what it will be. `transaction_version` returns the
        finalized level. `leader_of`, `connect_broker` and `write_markers` are those of
        `TransactionMarkerChannelManager`.
        """
        self.settings = settings
        self._loop = loop
        self._now_ms = now_ms
        self._random = random
        self._producer_ids = producer_ids
        self._allocation: asyncio.Task[ErrorCode] | None = None
        self._transaction_version = transaction_version
        self.runtime: CoordinatorRuntime[TransactionCoordinatorShard, TransactionContext] = CoordinatorRuntime(
            TRANSACTION_STATE,
            "transactional ids",
            loop=loop,
            partition_count=partition_count,
            new_shard=TransactionCoordinatorShard,
            new_context=self._new_context,
            open_journal=open_journal,
            serves_committed=True,
        )
        self.markers = TransactionMarkerChannelManager(
            self,
            node_id=node_id,
            loop=loop,
            leader_of=leader_of,
            connect_broker=connect_broker,
            write_here=write_markers,
        )

    def _new_context(self, timers: Timers) -> TransactionContext:
        return TransactionContext(
            self._loop.time(),
            self._now_ms(),
            timers,
            self._random,
            _log,
            settings=self.settings,
            transaction_version=self._transaction_version(),
            take_producer_id=self._take_producer_id,
            send_markers=self.markers.add,
        )

    def _take_producer_id(self) -> int | None:
        """Return a new producer id; if there is none, have the controller allocate a block for the next attempt."""
        producer_id = self._producer_ids.take()
        if producer_id is None and self._allocation is None:
            self._allocation = self._loop.create_task(self._allocate())
            self._allocation.add_done_callback(self._allocated)
        return producer_id

    def _allocated(self, _allocation: asyncio.Task[ErrorCode]) -> None:
        self._allocation = None

    async def _allocate(self) -> ErrorCode:
        """Have the controller allocate producer ids, and return its error code."""
        try:
            await self._producer_ids.allocate()
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def stop(self) -> None:
        """Respond to every waiting request with NOT_COORDINATOR, and send nothing more."""
        self.runtime.stop()
        self.markers.stop()
        if self._allocation is not None:
            self._allocation.cancel()

    # Operations.

    def init_producer_id(self, request: InitProducerId) -> Outcome[ProducerResult]:
        """Handle InitProducerId with a transactional id (`TransactionCoordinatorShard.init_producer_id`).

        INVALID_REQUEST for an empty id, INVALID_TRANSACTION_TIMEOUT, TRANSACTIONAL_ID_AUTHORIZATION_FAILED for
        two-phase commit that is not enabled.
        """
        if not request.transactional_id:
            return ProducerResult(ErrorCode.INVALID_REQUEST)
        if request.enable_2pc and not self.settings.two_phase_commit_enable:
            return ProducerResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.enable_2pc:
            request = request._replace(timeout_ms=NO_TIMEOUT_MS)
        elif not 0 < request.timeout_ms <= self.settings.max_timeout_ms:
            return ProducerResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        host = self._host_of(request.transactional_id)
        if isinstance(host, ErrorCode):
            return ProducerResult(host)
        return self._with_producer_ids(lambda context, to: host.shard.init_producer_id(context, request, to), host)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: TransactionPartitions,
        client_transaction_version: int,
    ) -> Outcome[ErrorCode]:
        """Add partitions to the open transaction, or begin one (`TransactionCoordinatorShard.add_partitions`)."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        host = self._host_of(transactional_id)
        if isinstance(host, ErrorCode):
            return host
        return host.run_rule(
            lambda context, to: host.shard.add_partitions(
                context, transactional_id, producer, partitions, client_transaction_version, to
            )
        )

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return an error code for each partition, NONE if the open transaction has it."""
        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        host = self._host_of(transactional_id)
        if isinstance(host, ErrorCode):
            return dict.fromkeys(partitions, host)
        return host.shard.verify_partitions(transactional_id, producer, partitions)

    def end(self, request: EndTransaction) -> Outcome[ProducerResult]:
        """Handle EndTxn: return the result once the decision is committed (`TransactionCoordinatorShard.end`)."""
        if not request.transactional_id:
            return ProducerResult(ErrorCode.INVALID_REQUEST)
        host = self._host_of(request.transactional_id)
        if isinstance(host, ErrorCode):
            return ProducerResult(host)
        return self._with_producer_ids(lambda context, to: host.shard.end(context, request, to), host)

    def describe(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the committed metadata of a transactional id, None if there is none; KafkaError if not led here."""
        one = self.runtime.host_of(transactional_id).shard.ids.get(transactional_id)
        return None if one is None or one.is_new else one.metadata

    def states(self) -> Iterator[tuple[str, TransactionMetadata]]:
        """Yield the transactional ids of the active shards, each with its committed metadata.

        COORDINATOR_LOAD_IN_PROGRESS if some are not loaded yet.
        """
        if self.runtime.is_loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for shard in self.runtime.active_shards():
            yield from ((name, one.metadata) for name, one in list(shard.ids.items()) if not one.is_new)

    def _host_of(self, transactional_id: str) -> _Host | ErrorCode:
        try:
            return self.runtime.host_of(transactional_id)
        except KafkaError as error:
            return error.code

    def _with_producer_ids(
        self, rule: Callable[[TransactionContext, object], None], host: _Host
    ) -> Outcome[ProducerResult]:
        """Run `rule`; if it lacks a producer id, repeat it once the controller has allocated a block."""
        outcome: Outcome[ProducerResult] = host.run_rule(rule)
        if isinstance(outcome, ProducerResult) and outcome.error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return self._loop.create_task(self._repeat(rule, host))
        return outcome

    async def _repeat(self, rule: Callable[[TransactionContext, object], None], host: _Host) -> ProducerResult:
        result = ProducerResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for _ in range(_RETRIES):
            error = await self._allocate()
            if error != ErrorCode.NONE:
                return ProducerResult(error)
            if not host.is_open:
                return ProducerResult(ErrorCode.NOT_COORDINATOR)
            outcome: Outcome[ProducerResult] = host.run_rule(rule)
            result = await outcome if isinstance(outcome, asyncio.Future) else outcome
            if result.error != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
        return result

    # Periodic sweeps.

    async def abort_timed_out(self) -> None:
        """Abort the transactions that are open for longer than their timeout."""
        await run_steps(self._sweep(TransactionCoordinatorShard.abort_timed_out), self._loop, ONE_STEP)

    async def expire(self) -> None:
        """Remove the ids that are unused for `transactional.id.expiration.ms`."""
        await run_steps(self._sweep(TransactionCoordinatorShard.expire), self._loop, ONE_STEP)

    def _sweep(self, work: Callable[[TransactionCoordinatorShard, list[str], TransactionContext], None]) -> Steps[None]:
        """Do `work` for all ids of the active shards, one slice a step."""
        for host in self.runtime.active_hosts():
            for names in _slices(host.shard, list(host.shard.ids)):
                if not host.is_open:
                    break
                host.run(partial(work, host.shard, names))
                yield None

    # Markers.

    def coordinator_epoch(self, transaction: TransactionalId) -> int | None:
        """Return the leader epoch in which the transaction is coordinated here; None if it is not."""
        host = self._host_with(transaction)
        return None if host is None else host.leader_epoch

    def markers_written(self, transaction: TransactionalId) -> None:
        """Complete a transaction whose markers are all committed."""
        host = self._host_with(transaction)
        if host is not None:
            host.fire(MarkersWritten(transaction.name))

    def _host_with(self, transaction: TransactionalId) -> _Host | None:
        """Return the host whose shard has this very object, None if the shard was unloaded since."""
        if transaction.partition is None:
            transaction.partition = self.runtime.partition_of(transaction.name)
        try:
            host = self.runtime.host_at(transaction.partition)
        except KafkaError:
            return None
        return host if host.shard.ids.get(transaction.name) is transaction else None


def _slices(shard: TransactionCoordinatorShard, names: list[str]) -> Iterator[list[str]]:
    """Yield the ids in slices, each of about `_WORK_A_TURN`."""
    some: list[str] = []
    work = 0
    for name in names:
        one = shard.ids.get(name)
        more = 1 + len(name) // _CHARACTERS_A_UNIT
        if one is not None and one.metadata.state is ONGOING:
            more += _WORK_OF_OPEN + len(one.metadata.partitions) // _PARTITIONS_A_UNIT
        if some and work + more > _WORK_A_TURN:
            yield some
            some, work = [], 0
        some.append(name)
        work += more
    if some:
        yield some


if TYPE_CHECKING:
    _Host = ShardHost[TransactionCoordinatorShard, TransactionContext]
