"""Consumers of payments, right and wrong, and the application that tells them apart when it is simulated.

Each consumer writes payments to a `Ledger`, which takes some time, as a database does. Each promises that no payment
that was sent is missing from the ledger, whatever happens to consumers and brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from barnabas.testing import SimulatedCluster

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it warns of each fault

PAYMENTS = 30
PARTITIONS = 2


class Ledger:
    """A table outside of all processes: what is written stays."""

    def __init__(self) -> None:
        self.rows: set[bytes] = set()

    async def write(self, payment: bytes) -> None:
        await asyncio.sleep(0.02)
        self.rows.add(payment)


def consumer_of(cluster: SimulatedCluster) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        group_id="ledger",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
        request_timeout_ms=10_000,
        max_poll_interval_ms=15_000,  # a rebalance waits that long for a member that does not join again
        metadata_max_age_ms=5_000,  # aiokafka looks for a partition's new leader only then, if it resets an offset
    )


async def commits_first(cluster: SimulatedCluster, ledger: Ledger) -> None:
    """Wrong: commits before it processes, so a crash loses what is being processed."""
    consumer = consumer_of(cluster)
    consumer.subscribe(["payments"])
    await start(consumer)
    async for record in consumer:
        await commit(consumer)
        await ledger.write(record.value)


async def forgets_its_batch(cluster: SimulatedCluster, ledger: Ledger) -> None:
    """Wrong: a rebalance commits the positions, and drops the batch that was read up to them."""
    batch: list[bytes] = []
    consumer = consumer_of(cluster)

    class Reset(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
            await commit(consumer)
            batch.clear()

        async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            pass

    consumer.subscribe(["payments"], listener=Reset())
    await start(consumer)
    while True:
        fetched = await consumer.getmany(timeout_ms=200, max_records=3)
        batch += [record.value for records in fetched.values() for record in records]
        if len(batch) >= 3 or not fetched:
            for payment in list(batch):
                await ledger.write(payment)
            batch.clear()
            await commit(consumer)


async def processes_first(cluster: SimulatedCluster, ledger: Ledger) -> None:
    """Right: commits what it has processed, and nothing else."""
    consumer = consumer_of(cluster)
    consumer.subscribe(["payments"])
    await start(consumer)
    async for record in consumer:
        await ledger.write(record.value)
        await commit(consumer, {TopicPartition(record.topic, record.partition): record.offset + 1})


async def start(client: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Start a client, however long no broker answers."""
    while True:
        try:
            await client.start()
        except KafkaError:
            await asyncio.sleep(0.5)
        else:
            return


async def commit(consumer: AIOKafkaConsumer, offsets: dict[TopicPartition, int] | None = None) -> None:
    """Commit, unless the partitions belong to another member by now."""
    with suppress(KafkaError, ValueError):  # the records are read again
        await consumer.commit(offsets)


Consumer = Callable[[SimulatedCluster, Ledger], Coroutine[Any, Any, None]]


async def pay(consumer: Consumer, cluster: SimulatedCluster) -> int:
    """Send payments while two consumers run, end all faults, and look for missing payments."""
    await cluster.topic("payments", PARTITIONS)
    ledger = Ledger()
    for _ in range(2):
        cluster.run(consumer, cluster, ledger, restart=True)
    sent = await send(cluster)
    await cluster.heal()
    try:
        async with asyncio.timeout(120):
            while not sent <= ledger.rows:
                await asyncio.sleep(0.1)
    except TimeoutError:
        missing = sorted(sent - ledger.rows)
        raise AssertionError(f"{len(missing)} of {len(sent)} payments are missing: {missing[:3]}") from None
    return len(sent)


async def send(cluster: SimulatedCluster) -> set[bytes]:
    """Return the payments that the brokers have acknowledged."""
    sent = set()
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", request_timeout_ms=10_000)
    await start(producer)
    for number in range(PAYMENTS):
        payment = b"payment %d" % number
        try:
            await producer.send_and_wait("payments", payment, partition=number % PARTITIONS)
        except KafkaError:
            continue
        sent.add(payment)
        await asyncio.sleep(cluster.random.random() * 0.5)
    return sent


committing_first = partial(pay, commits_first)
forgetting = partial(pay, forgets_its_batch)
mended = partial(pay, processes_first)
