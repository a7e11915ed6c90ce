"""Consumers with read_committed, which drop the records of aborted transactions as real clients do.

A Fetch response has all batches below the last stable offset, and a list of the aborted transactions that overlap them.
From the first offset of an aborted transaction until its marker, the client drops the batches of that producer id.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.record_batch import end_txn_marker, iter_batches, iter_records
from simulation.violation import Invariant
from tests.simulation.client import Client, Lost
from tests.simulation.history import ID_HEADER
from tests.simulation.transaction_history import Headers, Place, TransactionHistory
from tests.simulation.workload import PATIENCE, Topic

READ_COMMITTED = 1
_LATEST = -1


class Committed(NamedTuple):
    """A record that a read_committed consumer returns."""

    offset: int
    identity: bytes
    headers: Headers


class CommittedReader:
    """Read the partitions of a topic with read_committed, from any position on."""

    def __init__(self, client: Client, history: TransactionHistory, topic: Topic) -> None:
        self.client = client
        self.history = history
        self.topic = topic
        self.positions = dict.fromkeys((Place(topic.name, index) for index in range(topic.partitions)), 0)
        self.found: dict[Place, dict[int, bytes]] = {place: {} for place in self.positions}
        self._version = client.random.choice((4, 7, 11, 12, 13, 16))
        self._max_bytes = client.random.choice((1, 1_000, 100_000))
        self._stable: dict[Place, tuple[int, object]] = {}

    async def run(self) -> None:
        """Read until the run ends; begin anew now and then, to read older transactions with other limits."""
        while not self.client.world.stopping:
            place = self.client.random.choice(list(self.positions))
            await self.read(place)
            if self.client.random.random() < 0.02:
                self.positions[place] = self.client.random.randint(0, self.positions[place])
                self._max_bytes = self.client.random.choice((1, 1_000, 100_000))
            await self.client.pause(0.03)

    async def read(self, place: Place) -> list[Committed]:
        """Return the next records of a partition, and move its position behind them."""
        position = self.positions[place]
        try:
            address = await self.client.leader(*place)
            host = self.client.world.host_at(address)
            starts = host.starts
            response = await self.client.call(address, ApiKey.FETCH, self._version, **self._request(place, position))
        except Lost:
            self.client.forget()
            await self.client.pause(0.2)
            return []
        [[found]] = [topic.partitions for topic in response.responses] or [[None]]
        code = ErrorCode(response.error_code if found is None else found.error_code)
        if code is not ErrorCode.NONE:
            # A leader that lags behind its predecessor, or a former one, may end before the position.
            expected = code in PATIENCE or code is ErrorCode.OFFSET_OUT_OF_RANGE
            self.client.world.check(Invariant.FETCH_ANSWERS, expected, f"{self.client.name} got {code.name}: {place}")
            self.client.forget()
            await self.client.pause(0.2)
            return []
        stable = found.last_stable_offset
        before, process_before = self._stable.get(place, (0, None))
        process = (address, starts)
        self.client.world.check(
            Invariant.STABLE_OFFSET_RISES,
            stable <= found.high_watermark and (process != process_before or host.starts != starts or stable >= before),
            f"{place}: the last stable offset went from {before} to {stable}, at the high watermark"
            f" {found.high_watermark}",
        )
        self._stable[place] = stable, process
        aborted = [(one.first_offset, one.producer_id) for one in found.aborted_transactions or ()]
        records, self.positions[place] = without_aborted(bytes(found.records or b""), position, aborted)
        self.client.world.check(
            Invariant.READ_COMMITTED_IS_COMMITTED,
            self.positions[place] <= max(stable, position),
            f"{place}: read up to {self.positions[place]}, and the last stable offset is {stable}",
        )
        for record in records:
            self.history.read(place, record.offset, record.identity, record.headers)
            self.found[place][record.offset] = record.identity
        self.client.world.count("committed records that were read", len(records))
        return records

    def _request(self, place: Place, position: int) -> dict[str, Any]:
        partition = FetchRequest.Topic.Partition(
            partition=place.partition, fetch_offset=position, partition_max_bytes=self._max_bytes
        )
        topic = FetchRequest.Topic(topic=place.topic, topic_id=self.topic.topic_id, partitions=[partition])
        return {"max_wait_ms": 100, "min_bytes": 1, "isolation_level": READ_COMMITTED, "topics": [topic]}

    async def latest(self, place: Place) -> tuple[int, int] | None:
        """Return the last stable offset and the high watermark; None without a response of a leader."""
        ends = []
        for isolation in (READ_COMMITTED, 0):
            wanted = ListOffsetsRequest.Topic.Partition(partition_index=place.partition, timestamp=_LATEST)
            topics = [ListOffsetsRequest.Topic(name=place.topic, partitions=[wanted])]
            try:
                answer = await self.client.call(
                    await self.client.leader(*place),
                    ApiKey.LIST_OFFSETS,
                    5,
                    replica_id=-1,
                    isolation_level=isolation,
                    topics=topics,
                )
            except Lost:
                self.client.forget()
                return None
            [[one]] = [topic.partitions for topic in answer.topics]
            if one.error_code != ErrorCode.NONE:
                self.client.forget()
                return None
            ends.append(int(one.offset))
        return ends[0], ends[1]


def without_aborted(data: bytes, position: int, aborted: list[tuple[int, int]]) -> tuple[list[Committed], int]:
    """Return the records from `position` on without those of aborted transactions, and the next position.

    `aborted` are the first offset and the producer id of each aborted transaction (KIP-98).
    """
    records: list[Committed] = []
    waiting, dropped = sorted(aborted), set[int]()
    for at, header in iter_batches(data):
        batch = memoryview(data)[at : at + header.size_bytes]
        while waiting and waiting[0][0] <= header.last_offset:
            dropped.add(waiting.pop(0)[1])
        if header.is_control:
            marker = end_txn_marker(batch)
            if marker is not None and not marker.committed:
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            for record in iter_records(batch):
                if record.offset >= position:
                    identity = next((value or b"" for key, value in record.headers if key == ID_HEADER), b"?")
                    records.append(Committed(record.offset, identity, record.headers))
        position = max(position, header.next_offset)
    return records, position
