"""A second coordinator, of counters, on the coordinator runtime: the example of docs/DEVELOPING.md.

A counter is a name and a total, stored in a record of the topic `t`. Additions in a transaction count when it commits.
A counter that nothing is added to for `LIFETIME_MS` is deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from broker.coordinator.runtime.context import CoordinatorContext, CoordinatorResult, ProducerIdAndEpoch, Record
from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from broker.coordinator.runtime.partition_journal import PartitionJournal
from broker.coordinator.runtime.shard_host import Outcome
from broker.coordinator.runtime.timers import Timer, Timers
from protocol.compression import Compression
from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import EndTxnMarker
from storage.log.producer_state import AppendOrigin
from tests.unit.broker.node import LocalBroker

TOPIC = "t"
LIFETIME_MS = 60_000
RETRY_MS = 1_000

Verify = Callable[[int], Awaitable[AppendOrigin]]


class CounterTimeout(NamedTuple):
    """Nothing was added to a counter for `LIFETIME_MS`."""

    name: str


class CounterShard:
    """The counters of one partition (Kafka: `CoordinatorShard`)."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self._pending: dict[int, dict[str, int]] = {}
        self._timers: dict[str, Timer] = {}
        self._waiting: list[object] = []

    # Operations.

    def add(
        self, context: CoordinatorContext, name: str, amount: int, producer: ProducerIdAndEpoch | None = None
    ) -> CoordinatorResult[int]:
        """Return the record of the new total, and the total."""
        if amount < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "counters only grow")
        total = self.totals.get(name, 0) + amount
        context.schedule(self._timer(name), LIFETIME_MS)
        return CoordinatorResult([(name.encode(), str(total).encode())], total, producer)

    def reset(self, context: CoordinatorContext, name: str, to: object) -> None:
        """Set a counter to 0 at once, before that is committed; answer with its former total, or an error."""
        former = self.totals.get(name, 0)
        self.totals[name] = 0
        self._waiting.append(to)

        def then(context: CoordinatorContext, error: ErrorCode) -> None:
            if to in self._waiting:
                self._waiting.remove(to)
                context.answer(to, error if error != ErrorCode.NONE else former)
            if error != ErrorCode.NONE:
                self.totals[name] = former

        context.append([(name.encode(), b"0")], then)

    def fire(self, context: CoordinatorContext, event: CounterTimeout) -> None:
        """Delete a counter; try again later if that cannot be written."""

        def then(context: CoordinatorContext, error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                self.totals.pop(event.name, None)
            else:
                context.schedule(self._timer(event.name), RETRY_MS)

        context.append([(event.name.encode(), None)], then)

    def _timer(self, name: str) -> Timer:
        return self._timers.setdefault(name, Timer(CounterTimeout(name)))

    # The partition's log and leadership.

    @property
    def content(self) -> str:
        return f"{len(self.totals)} counters" if self.totals else ""

    def replay(
        self, now_ms: int, offset: int, key: bytes, value: bytes | None, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        if value is None:
            self.totals.pop(key.decode(), None)
        elif producer is None:
            self.totals[key.decode()] = int(value)
        else:
            self._pending.setdefault(producer.producer_id, {})[key.decode()] = int(value)

    def replay_end_transaction_marker(self, producer: ProducerIdAndEpoch, committed: bool) -> None:
        pending = self._pending.pop(producer.producer_id, {})
        if committed:
            self.totals |= pending

    def loaded(self, context: CoordinatorContext) -> None:
        for name in self.totals:
            context.schedule(self._timer(name), LIFETIME_MS)

    def unloaded(self, context: CoordinatorContext) -> None:
        for to in self._waiting:
            context.answer(to, ErrorCode.NOT_COORDINATOR)
        self._waiting.clear()


class CounterCoordinator:
    """Serves counters from the partitions of `t` that `node` leads."""

    def __init__(self, node: LocalBroker) -> None:
        def new_context(timers: Timers) -> CoordinatorContext:
            log = logging.getLogger("broker.coordinator.counters")
            return CoordinatorContext(node.loop.time(), node.now_ms(), timers, node.random, log)

        def open_journal(index: int) -> PartitionJournal:
            return PartitionJournal(
                node.replicas,
                node.partition(TOPIC, index),
                compression=Compression.NONE,
                timeout_ms=5_000,
                load_bytes=1 << 20,
                now_ms=node.now_ms,
            )

        self.runtime: CoordinatorRuntime[CounterShard, CoordinatorContext] = CoordinatorRuntime(
            TOPIC,
            "counters",
            loop=node.loop,
            partition_count=lambda: 1,
            new_shard=CounterShard,
            new_context=new_context,
            open_journal=open_journal,
        )
        node.replicas.on_leadership(TOPIC, self.runtime.leadership_changed)

    def add(self, name: str, amount: int, producer: ProducerIdAndEpoch | None = None) -> Outcome[int]:
        host = self.runtime.host_of(name)
        return host.write(lambda shard, context: shard.add(context, name, amount, producer))

    def add_verified(
        self, name: str, amount: int, producer: ProducerIdAndEpoch, verify: Verify
    ) -> Coroutine[Any, Any, int]:
        """Add in a transaction that `verify` verifies first."""
        return self.runtime.write_transactional(
            name, verify, lambda shard, context: shard.add(context, name, amount, producer)
        )

    def complete(self, producer: ProducerIdAndEpoch, committed: bool, coordinator_epoch: int = 0) -> Outcome[None]:
        """End a producer's transaction."""
        return self.runtime.complete_transaction(0, producer, EndTxnMarker(committed, coordinator_epoch), 0)

    def reset(self, name: str) -> Outcome[int | ErrorCode]:
        host = self.runtime.host_of(name)
        return host.run_rule(lambda context, to: host.shard.reset(context, name, to))

    def totals(self) -> Outcome[CounterShard]:
        """Return the counters for reading, once they are committed."""
        return self.runtime.host_of("").read()

    def clear(self) -> asyncio.Task[None]:
        """Delete all counters."""

        def tombstones(shard: CounterShard, _: CoordinatorContext) -> list[list[Record]]:
            return [[(name.encode(), None)] for name in shard.totals]

        return self.runtime.write_all("Deleting all counters failed", tombstones)
