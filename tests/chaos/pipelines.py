"""Pipelines of two clients that read, transform and write in transactions, step by step.

Each transaction takes a few records of the source, writes one for each to the sink, and commits the source's offsets.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import aiokafka
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

T = TypeVar("T")

SESSION_MS = 6_000
AT_ONCE = 5
POLL_S = 0.5


class Pipeline(ABC):
    """One run of a pipeline, from the offset that its group has committed."""

    name: str
    errors: type[Exception]
    """The base class of the client's errors."""

    @abstractmethod
    def __init__(self, bootstrap: str, group: str, source: str, sink: str) -> None:
        """Join the group, and fence the run before this one."""

    @abstractmethod
    def read(self) -> list[bytes]:
        """Return the next values of the source, none after `POLL_S`."""

    @abstractmethod
    def write(self, values: list[bytes]) -> None:
        """Begin a transaction and write the values to the sink."""

    @abstractmethod
    def send_offsets(self) -> None:
        """Commit the offsets of what was read in the transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def abort(self) -> None:
        """Abort the transaction."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""


class Librdkafka(Pipeline):
    """confluent-kafka."""

    name, errors = "confluent-kafka", KafkaException

    def __init__(self, bootstrap: str, group: str, source: str, sink: str) -> None:
        common = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._sink = sink
        self._producer = Producer(common | {"transactional.id": group, "linger.ms": 0})
        self._producer.init_transactions(60)
        self._consumer = Consumer(
            common
            | {
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
            }
        )
        self._consumer.subscribe([source])

    def read(self) -> list[bytes]:
        found = self._consumer.consume(AT_ONCE, POLL_S)
        # Errors of the consumer are for information; it goes on by itself.
        return [value for one in found if one.error() is None and (value := one.value()) is not None]

    def write(self, values: list[bytes]) -> None:
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(self._sink, value, partition=0)

    def send_offsets(self) -> None:
        assigned: list[TopicPartition] = self._consumer.assignment()
        positions = [one for one in self._consumer.position(assigned) if one.offset >= 0]
        self._producer.send_offsets_to_transaction(positions, self._consumer.consumer_group_metadata(), 60)

    def commit(self) -> None:
        self._producer.commit_transaction(60)

    def abort(self) -> None:
        self._producer.abort_transaction(60)

    def close(self) -> None:
        self._consumer.close()


class Aiokafka(Pipeline):
    """aiokafka."""

    name, errors = "aiokafka", AiokafkaError

    def __init__(self, bootstrap: str, group: str, source: str, sink: str) -> None:
        self._runner = asyncio.Runner()
        self._group, self._sink = group, sink
        self._opened = AsyncExitStack()
        try:
            self._run(self._start(bootstrap, source))
        except BaseException:
            self.close()
            raise

    async def _start(self, bootstrap: str, source: str) -> None:
        self._producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=self._group)
        self._opened.push_async_callback(self._producer.stop)
        await asyncio.wait_for(self._producer.start(), 60)
        self._consumer = aiokafka.AIOKafkaConsumer(
            source,
            bootstrap_servers=bootstrap,
            group_id=self._group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=1_000,
        )
        self._opened.push_async_callback(self._consumer.stop)
        await asyncio.wait_for(self._consumer.start(), 60)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def read(self) -> list[bytes]:
        found = self._run(self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=AT_ONCE))
        return [record.value for records in found.values() for record in records]

    def write(self, values: list[bytes]) -> None:
        self._run(self._write(values))

    async def _write(self, values: list[bytes]) -> None:
        await self._producer.begin_transaction()
        for sending in [await self._producer.send(self._sink, value, partition=0) for value in values]:
            await asyncio.wait_for(sending, 60)

    def send_offsets(self) -> None:
        self._run(self._send_offsets())

    async def _send_offsets(self) -> None:
        offsets = {partition: await self._consumer.position(partition) for partition in self._consumer.assignment()}
        await asyncio.wait_for(self._producer.send_offsets_to_transaction(offsets, self._group), 60)

    def commit(self) -> None:
        self._run(asyncio.wait_for(self._producer.commit_transaction(), 60))

    def abort(self) -> None:
        self._run(asyncio.wait_for(self._producer.abort_transaction(), 60))

    def close(self) -> None:
        with self._runner:
            self._run(self._opened.aclose())


PIPELINES: tuple[type[Pipeline], ...] = (Librdkafka, Aiokafka)
