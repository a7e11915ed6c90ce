"""Tests of coroutines that use aiokafka."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def copy_upper(bootstrap, source, target):
    """Copy records to another topic, in upper case, until cancelled."""
    consumer = AIOKafkaConsumer(source, bootstrap_servers=bootstrap, group_id="copy", auto_offset_reset="earliest")
    async with consumer, AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        async for record in consumer:
            await producer.send_and_wait(target, record.value.upper())
            await consumer.commit()


@pytest.mark.asyncio
async def test_records_are_copied_in_upper_case(kafka):
    source, target = await kafka.aio.topic(), await kafka.aio.topic()
    copying = asyncio.create_task(copy_upper(kafka.bootstrap, source.name, target.name))
    await source.produce(["a", "b"])
    assert [record.value for record in await target.expect(2)] == [b"A", b"B"]
    await kafka.aio.group("copy").expect_lag(0)
    copying.cancel()
    await asyncio.gather(copying, return_exceptions=True)
    await kafka.aio.group("copy").wait_empty()
