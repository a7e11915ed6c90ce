from __future__ import annotations

import asyncio
import threading
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from barnabas.testing import Cluster, WaitTimeout
from barnabas.testing.aio import in_thread


def test_waits_leave_the_loop_to_clients_in_it() -> None:
    async def run() -> None:
        async with Cluster() as cluster:
            topic, group = await cluster.topic(partitions=2), cluster.group()
            producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap)
            consumer = AIOKafkaConsumer(
                topic.name, bootstrap_servers=cluster.bootstrap, group_id=group.name, auto_offset_reset="earliest"
            )
            await producer.start()
            sending = asyncio.create_task(producer.send_and_wait(topic.name, b"a"))
            assert [record.value for record in await topic.expect(1, timeout=60)] == [b"a"]
            await sending
            await consumer.start()
            assert len(await group.wait_stable(members=1, timeout=60)) == 1
            assert (await consumer.getone()).value == b"a"
            await consumer.commit()
            await group.expect_lag(0, timeout=60)
            await consumer.stop()
            await producer.stop()
            await group.wait_empty(60)

    asyncio.run(run())


def test_brokers_and_snapshots_have_coroutines_too(one: Cluster) -> None:
    async def run() -> None:
        async with Cluster() as cluster:
            topic = await cluster.topic()
            await topic.produce(["a"])
            snapshot = await cluster.snapshot()
            (broker,) = cluster.brokers
            assert (await topic.leader()).sync is broker.sync
            await broker.kill()
            await broker.start()
            await broker.pause()
            assert broker.sync.is_paused
            await broker.resume()
            await topic.produce(["b"])
            await cluster.restore(snapshot)
            assert [record.value for record in await topic.expect(1)] == [b"a"]
            assert str(topic) == topic.name == topic.sync.name
        assert await one.aio.topic()
        assert one.aio.bootstrap == one.bootstrap

    asyncio.run(run())


def test_a_wait_in_vain_raises_in_the_coroutine(one: Cluster) -> None:
    async def run() -> None:
        topic = await one.aio.topic()
        with pytest.raises(WaitTimeout, match="1 records expected"):
            await topic.expect(1, timeout=0.01)

    asyncio.run(run())


def test_a_cancelled_wait_does_not_delay_the_end_of_the_loop(one: Cluster) -> None:
    async def run() -> None:
        topic = await one.aio.topic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(topic.expect(1, timeout=5), 0.01)

    began = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - began < 5


def test_an_error_in_the_thread_is_raised_where_it_is_awaited() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(in_thread(fail))


def test_faults_and_disturbances_leave_the_loop_to_the_client_that_they_meet(one: Cluster) -> None:
    async def run() -> None:
        cluster = one.aio
        topic, (broker,) = await cluster.topic(), cluster.brokers
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            async with cluster.fault("Produce", topic=topic, broker=[broker], hold="before", count=1) as fault:
                sending = asyncio.create_task(producer.send_and_wait(topic.name, b"held"))
                await fault.wait(hits=1, timeout=60)
                await fault.release()
                await sending
            assert broker.sync.control.call("GET", "/v1/faults")["faults"] == []
            rule = await cluster.fault("Produce", topic=topic, error="INVALID_RECORD")
            await rule.remove()
            async with broker.network.cut_off():
                sending = asyncio.create_task(producer.send_and_wait(topic.name, b"cut off"))
                assert broker.sync.control.call("GET", "/v1/network")["clients"]
            await sending
            slow = await broker.disk.slow(0.001)
            assert broker.sync.disk.fault["fault"] == "slow"
            await slow.heal()
            assert broker.sync.disk.fault == {}
        assert len(await topic.expect(2)) == 2
        assert broker.node_id == 1

    asyncio.run(run())


@pytest.mark.parametrize("loop_ends", [False, True])
def test_what_a_cancelled_task_has_begun_is_undone(loop_ends: bool) -> None:
    go_on, undone = threading.Event(), threading.Event()

    async def run() -> None:
        task = asyncio.create_task(in_thread(go_on.wait, undo=undone.set))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if not loop_ends:
            go_on.set()
            await asyncio.to_thread(undone.wait, 60)

    asyncio.run(run())
    go_on.set()
    assert undone.wait(60)
