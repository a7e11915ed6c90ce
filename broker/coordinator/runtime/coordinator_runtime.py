"""The shards of one coordinator, loaded and unloaded with partition leadership (Kafka: `CoordinatorRuntime`).

A coordinator keeps its state in an internal topic: one shard for each partition, on the broker that leads it. Its
parts are the coordinator's own: the shards (`CoordinatorShard`), the topic's name and partition count, the context of
the rules, and the partitions' logs. The runtime knows nothing of what the shards mean.

    LOADING   this broker has become leader and replays the partition,     COORDINATOR_LOAD_IN_PROGRESS
              or with `serves_committed` waits until it is committed
    ACTIVE    loaded: operations and timers run
    FAILED    the partition is damaged and cannot be loaded                UNKNOWN_SERVER_ERROR
    CLOSED    another broker leads, or this one stops                      NOT_COORDINATOR

Clients report UNKNOWN_SERVER_ERROR to their users; on Kafka's NOT_COORDINATOR they would look for another coordinator
forever. One timer of the event loop serves all shards, set to the earliest deadline. When it fires, at most
`_EVENTS_A_TURN` events are handled; if more are due it fires again at once.
"""

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import lru_cache
from operator import mul
from typing import Any, Generic

from broker.coordinator.runtime.context import CoordinatorResult, ProducerIdAndEpoch
from broker.coordinator.runtime.partition_journal import Journal
from broker.coordinator.runtime.shard_host import (
    C,
    Outcome,
    S,
    ShardHost,
    ShardState,
    StepwiseWrite,
    T,
    coordinator_error,
)
from broker.coordinator.runtime.timers import Timers
from broker.runtime.alarm import Alarm
from protocol.errors import DecodeError, ErrorCode, InvariantError, KafkaError
from protocol.record_batch import EndTxnMarker
from storage.disk import reason
from storage.log.producer_state import AppendOrigin

_LOAD_TIMES = 1_000
_LOAD_WINDOW_S = 60.0

# Many sessions that expire together, as after the loss of a rack, must not block the loop.
_EVENTS_A_TURN = 100
_LONGEST_CACHED = 256
_UNITS_AT_ONCE = 64
_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(_UNITS_AT_ONCE, -1, -1)]
"""31 ** 64 to 31 ** 0 in 32 bits: the weights of the code units of a string's hash."""

_log = logging.getLogger("broker.coordinator")


class CoordinatorRuntime(Generic[S, C]):
    """The shards of the partitions of `topic` that this broker leads."""

    def __init__(
        self,
        topic: str,
        content: str,
        *,
        loop: asyncio.AbstractEventLoop,
        partition_count: Callable[[], int],
        new_shard: Callable[[], S],
        new_context: Callable[[Timers], C],
        open_journal: Callable[[int], Journal],
        serves_committed: bool = False,
    ) -> None:
        """Host nothing yet. `content` is what the shards hold, for messages: "groups".

        `partition_count` returns that of the topic, or what it will be. `new_context` starts the handling of an event,
        with the timers of its shard.
        """
        self._topic = topic
        self._content = content
        self._loop = loop
        self._partition_count = partition_count
        self._new_shard = new_shard
        self._new_context = new_context
        self._open_journal = open_journal
        self._serves_committed = serves_committed
        self._hosts: dict[int, ShardHost[S, C]] = {}
        self._alarm = Alarm(loop, self._fire_due)
        self._tasks: set[asyncio.Task[None]] = set()
        self._load_times: deque[tuple[float, float]] = deque(maxlen=_LOAD_TIMES)
        self._subscribers: list[Callable[[], object]] = []

    def stop(self) -> None:
        """Answer every waiting request with NOT_COORDINATOR, and drop all shards."""
        for index in list(self._hosts):
            self.leadership_changed(index, None)
        for task in self._tasks:
            task.cancel()
        self._alarm.cancel()

    # Operations.

    def partition_of(self, key: str) -> int:
        """Return the partition of the topic that `key` belongs to."""
        return partition_for(key, self._partition_count())

    def host_of(self, key: str) -> ShardHost[S, C]:
        """Return the loaded shard that `key` belongs to, for an operation; KafkaError if it is in another state."""
        return self.host_at(self.partition_of(key))

    def host_at(self, index: int) -> ShardHost[S, C]:
        """Return the loaded shard of a partition; KafkaError if it is in another state."""
        host = self._hosts.get(index)
        if host is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if host.state is not ShardState.ACTIVE:
            loading = host.state is ShardState.LOADING
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.UNKNOWN_SERVER_ERROR
            raise KafkaError(error, host.failure)
        return host

    async def write_transactional(
        self,
        key: str,
        verify: Callable[[int], Awaitable[AppendOrigin]],
        decide: Callable[[S, C], CoordinatorResult[T]],
    ) -> T:
        """Write in a transaction, once it is verified (Kafka: `scheduleTransactionalWriteOperation`).

        `verify` checks that the partition with this index belongs to the transaction, or adds it, and returns the
        origin to append with. `decide` runs after that, on the shard of that time; its result has the producer.
        KafkaError as `ShardHost.write`, or that of `verify`.
        """
        index = self.partition_of(key)
        self.host_at(index)
        try:
            origin = await verify(index)
        except KafkaError as error:
            raise KafkaError(coordinator_error(error.code), error.message) from error
        outcome = self.host_at(index).write(decide, origin)
        return await outcome if isinstance(outcome, asyncio.Future) else outcome

    def complete_transaction(
        self, index: int, producer: ProducerIdAndEpoch, marker: EndTxnMarker, transaction_version: int
    ) -> Outcome[None]:
        """Append and replay a marker; return once it is committed (Kafka: `scheduleTransactionCompletion`).

        KafkaError, of the log or of a coordinator: COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR, which a partition
        that could not be loaded gets too: the transaction coordinator must go on trying.
        """
        host = self._hosts.get(index)
        if host is None or host.state is ShardState.FAILED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self.host_at(index).complete_transaction(producer, marker, transaction_version)

    def active_shards(self) -> list[S]:
        """Return the shards that are loaded."""
        return [host.shard for host in self._hosts.values() if host.state is ShardState.ACTIVE]

    def active_hosts(self) -> list[ShardHost[S, C]]:
        """Return the shards that are loaded, with their hosts."""
        return [host for host in self._hosts.values() if host.state is ShardState.ACTIVE]

    @property
    def is_loading(self) -> bool:
        """Whether shards are being loaded."""
        return any(host.state is ShardState.LOADING for host in self._hosts.values())

    @property
    def failures(self) -> dict[int, str]:
        """The partitions led here whose shard could not be loaded, with the reason."""
        return {index: host.failure for index, host in self._hosts.items() if host.state is ShardState.FAILED}

    def write_all(self, failure: str, decide: StepwiseWrite[S, C]) -> asyncio.Task[None]:
        """Write what `decide` yields for each shard, in steps (Kafka: `scheduleWriteAllOperation`).

        A shard that is loading follows when it is loaded. Log `failure` if `decide` raises.
        """
        return self._start(self._write_all(failure, decide))

    async def _write_all(self, failure: str, decide: StepwiseWrite[S, C]) -> None:
        for host in list(self._hosts.values()):
            await host.write_in_steps(failure, decide)

    # Changes.

    def subscribe(self, subscriber: Callable[[], object]) -> None:
        """Call `subscriber` after each operation, event, load or unload that may have changed a shard."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Callable[[], object]) -> None:
        """Stop calling `subscriber`."""
        self._subscribers.remove(subscriber)

    def _changed(self) -> None:
        for subscriber in self._subscribers:
            subscriber()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Leadership.

    def leadership_changed(self, index: int, leader_epoch: int | None) -> None:
        """Load the shard of a partition led here from `leader_epoch` on, or unload it (None)."""
        host = self._hosts.get(index)
        if host is not None and (leader_epoch is None or host.state is ShardState.FAILED):
            del self._hosts[index]
            host.close()
            host = None
        if leader_epoch is None:
            return
        if host is None:
            self._host(index, leader_epoch)
        elif leader_epoch > host.leader_epoch:
            host.leader_epoch = leader_epoch

    def _host(self, index: int, leader_epoch: int) -> None:
        name, journal = f"{self._topic}-{index}", self._open_journal(index)
        host = ShardHost(
            name,
            self._new_shard(),
            journal,
            leader_epoch,
            self._loop,
            self._new_context,
            self._set_alarm,
            self._changed,
            serves_committed=self._serves_committed,
        )
        self._hosts[index] = host
        if journal.end_offset == 0:
            host.serve()
        else:
            self._start(self._load(host))

    async def _load(self, host: ShardHost[S, C]) -> None:
        began = self._loop.time()
        try:
            await host.load()
        except Exception as error:  # a half-loaded shard would refuse its clients forever
            failure = f"The {self._content} of {host.name} cannot be loaded: {reason(error)}"
            _log.error("%s", failure, exc_info=not isinstance(error, KafkaError | DecodeError | OSError))
            host.close(failure)
        else:
            ended = self._loop.time()
            self._load_times.append((ended, ended - began))
            await host.write_deferred()

    def load_times(self) -> list[float]:
        """Return the seconds that each load took that has ended in the last minute, the default window of Kafka's."""
        since = self._loop.time() - _LOAD_WINDOW_S
        return [duration for ended, duration in self._load_times if ended >= since]

    # Time.

    def _set_alarm(self, _earliest: float | None = None) -> None:
        deadlines = (host.timers.next_at for host in self._hosts.values())
        self._alarm.schedule_at(min((at for at in deadlines if at is not None), default=None))

    def _fire_due(self) -> None:
        now, left = self._loop.time(), _EVENTS_A_TURN
        try:
            for host in list(self._hosts.values()):
                while left and (timer := host.timers.pop_due(now)) is not None:
                    left -= 1
                    self._fire(host, timer.event)
        finally:
            self._set_alarm()

    def _fire(self, host: ShardHost[S, C], event: object) -> None:
        """Handle a timer event of a shard; log an unexpected exception, which must not stop other events."""
        try:
            host.fire(event)
        except InvariantError:
            raise
        except Exception:
            _log.exception("%s: the timer %s failed", host.name, event)


def partition_for(key: str, partitions: int) -> int:
    """Return the partition, of `partitions`, of an internal topic that `key` belongs to.

    As `Utils.abs(key.hashCode()) % partitions` in Kafka: all brokers of all versions must agree. Long keys are not
    cached: clients could fill the memory with them.
    """
    return (_cached_hash(key) if len(key) <= _LONGEST_CACHED else java_hash(key)) % partitions


@lru_cache(maxsize=65_536)
def _cached_hash(key: str) -> int:
    return java_hash(key)


def java_hash(text: str) -> int:
    """Return `Utils.abs(text.hashCode())`: Java's string hash, over UTF-16 code units, in 32 bits.

    The absolute value; 0 for the smallest integer.
    """
    units = array("H")
    units.frombytes(text.encode("utf-16", "surrogatepass")[2:])
    value = 0
    for at in range(0, len(units), _UNITS_AT_ONCE):
        some = units[at : at + _UNITS_AT_ONCE]
        value = (value * _POWERS[-len(some) - 1] + sum(map(mul, some, _POWERS[-len(some) :]))) & 0xFFFFFFFF
    if value == 0x80000000:
        return 0
    return value if value < 0x80000000 else 0x100000000 - value
