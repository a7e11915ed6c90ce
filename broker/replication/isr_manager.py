"""Maintenance of the ISRs of the partitions led here: when they are checked, and AlterPartition requests.

A follower is checked when it fetches while outside the ISR, when a record about a broker is applied, when the backoff
after a refused change ends, and with all others every half of `replica.lag.time.max.ms`. The rules live in `isr`, the
changes in flight in `alter_partition_manager`; this module has the timers, the request and the log line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.log_dirs.missing import abbreviated
from broker.replication.alter_partition_manager import AlterPartitionManager
from broker.replication.isr import is_awaited, with_joiners, without_laggards
from broker.runtime.alarm import Alarm
from protocol.messages.alter_partition import AlterPartitionResponse

if TYPE_CHECKING:
    import asyncio

    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager
    from protocol.schema import Message

    ResponseFuture = asyncio.Future[Message | None]

_PARTITIONS_A_STEP = 256

_log = logging.getLogger("broker.isr")


class IsrManager:
    """The ISRs of all partitions led here (Kafka: `ReplicaManager.maybeShrinkIsr` and `AlterPartitionManager`)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        node_id: int,
        replicas: ReplicaManager,
        *,
        send_to_controller: Callable[[Message], ResponseFuture],
        broker_epoch: Callable[[], int],
        lag_max_ms: int,
    ) -> None:
        """Do nothing until `start`; `lag_max_ms` is `replica.lag.time.max.ms`."""
        self._loop = loop
        self._replicas = replicas
        self._send_to_controller = send_to_controller
        self._broker_epoch = broker_epoch
        self._lag_max_ms = lag_max_ms
        self.proposals = AlterPartitionManager(node_id)
        # Partitions proposed in this turn, by the change: one log line may cover thousands.
        self._unreported: dict[str, list[str]] = {}
        self._request_alarm = Alarm(loop, self._send_request)
        self._check_alarm = Alarm(loop, self._check_some)
        self._round: Iterator[None] = iter(())
        self._stopped = False

    def start(self) -> None:
        """Start the periodic check of all partitions."""
        self._round = self.check_all()
        self._check_alarm.schedule_at(self._loop.time() + self._lag_max_ms / 2000)

    def stop(self) -> None:
        """Send no more proposals."""
        self._stopped = True
        self._request_alarm.cancel()
        self._check_alarm.cancel()

    def follower_fetched(self, partition: Partition, broker: int) -> None:
        """Check whether `broker`, which is outside the ISR and has just fetched, may join."""
        self._update_awaited(partition, broker)
        self._maybe_expand(partition)

    def check(self, partition: Partition) -> None:
        """Check which members leave, which replicas may join, and which bound the high watermark."""
        if not partition.is_leader or not partition.followers or partition.unavailable:
            return
        self._update_fenced(partition)
        if len(partition.at_end) == len(partition.followers) == len(partition.isr) - 1:
            return
        isr = without_laggards(partition, self._elapsed_ms(), self._lag_max_ms)
        if isr is not None:
            self._propose(partition, isr)
        for broker in partition.followers:
            self._update_awaited(partition, broker)
        self._maybe_expand(partition)

    def check_all(self) -> Iterator[None]:
        """Check every partition, `_PARTITIONS_A_STEP` a step; an exception for one does not stop the others."""
        for number, partition in enumerate(tuple(self._replicas.partitions), 1):
            try:
                self.check(partition)
            except Exception as error:
                message = f"checking the ISR of {partition} failed"
                self._loop.call_exception_handler({"message": message, "exception": error})
            if number % _PARTITIONS_A_STEP == 0:
                yield

    def _check_some(self) -> None:
        """Run one step of the round, and schedule the next in another turn of the loop."""
        for _ in self._round:
            self._check_alarm.schedule()
            return
        self.start()

    def _elapsed_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _update_awaited(self, partition: Partition, broker: int) -> None:
        """Let the high watermark wait for a replica about to join, as long as it is."""
        follower = partition.followers[broker]
        awaited = is_awaited(partition, follower, self._replicas.brokers, self._elapsed_ms(), self._lag_max_ms)
        if awaited != follower.awaited:
            partition.set_awaited(broker, awaited)
            if not awaited:
                self._replicas.wake_readers(partition)

    def _update_fenced(self, partition: Partition) -> None:
        for follower in partition.followers.values():
            known = self._replicas.brokers.get(follower.broker)
            fenced = known is not None and known.fenced
            if fenced != follower.fenced:
                follower.fenced = fenced
                self._replicas.wake_readers(partition)

    def _maybe_expand(self, partition: Partition) -> None:
        now_ms = self._elapsed_ms()
        isr = with_joiners(partition, self._replicas.brokers, now_ms, self._lag_max_ms)
        if isr is not None and self.proposals.may_expand_from_ms(partition) <= now_ms:
            self._propose(partition, isr)

    def _propose(self, partition: Partition, isr: frozenset[int]) -> None:
        change = f"proposing to change the ISR from {_listed(partition.isr)} to {_listed(isr)}"
        self._unreported.setdefault(change, []).append(repr(partition))
        self.proposals.propose(partition, isr)
        if not self._stopped:
            self._request_alarm.schedule()

    def _send_request(self) -> None:
        unreported, self._unreported = self._unreported, {}
        for change, partitions in unreported.items():
            _log.info("%s: %s", abbreviated(partitions), change)
        request = self.proposals.request(self._broker_epoch(), self._elapsed_ms())
        if request is not None:
            self._send_to_controller(request).add_done_callback(self._answered)
        self._request_alarm.schedule_at_ms(self.proposals.due_ms)

    def _answered(self, answer: ResponseFuture) -> None:
        if self._stopped:
            return
        response = None if answer.cancelled() or answer.exception() is not None else answer.result()
        if not isinstance(response, AlterPartitionResponse):
            response = None
        now_ms = self._elapsed_ms()
        for partition in self.proposals.handle_response(response, now_ms):
            self._replicas.wake_readers(partition)
            self.check(partition)
            again_ms = self.proposals.may_expand_from_ms(partition)
            if again_ms > now_ms:
                self._loop.call_at((again_ms + 1) / 1000, self.check, partition)
        self._request_alarm.run_now()


def _listed(brokers: frozenset[int]) -> str:
    return ",".join(map(str, sorted(brokers)))
