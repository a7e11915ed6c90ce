"""Producer ids from allocated blocks."""

from __future__ import annotations

import asyncio

import pytest

from broker.metadata.producer_id_manager import ProducerIdManager
from protocol.errors import ErrorCode, KafkaError


class Controller:
    """Allocates blocks of three ids."""

    def __init__(self) -> None:
        self.blocks = 0

    async def allocate(self) -> range:
        await asyncio.sleep(0)
        self.blocks += 1
        return range(self.blocks * 1000, self.blocks * 1000 + 3)


def test_ids_come_from_one_block_until_exhausted() -> None:
    async def scenario() -> None:
        controller = Controller()
        ids = ProducerIdManager(controller.allocate)
        assert [await ids.next() for _ in range(5)] == [1000, 1001, 1002, 2000, 2001]
        assert controller.blocks == 2

    asyncio.run(scenario())


def test_id_from_present_block_needs_no_wait() -> None:
    async def scenario() -> None:
        ids = ProducerIdManager(Controller().allocate)
        assert ids.take() is None
        assert await ids.next() == 1000
        assert [ids.take(), ids.take(), ids.take()] == [1001, 1002, None]

    asyncio.run(scenario())


def test_concurrent_waiters_share_block_with_distinct_ids() -> None:
    async def scenario() -> None:
        controller = Controller()
        ids = ProducerIdManager(controller.allocate)
        assert await asyncio.gather(ids.next(), ids.next(), ids.next()) == [1000, 1001, 1002]  # type: ignore[comparison-overlap]  # equal by content
        assert controller.blocks == 1

    asyncio.run(scenario())


def test_failed_block_allocation_is_retried_by_next_request(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        answers: list[range] = []

        async def allocate() -> range:
            if not answers:
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            return answers.pop()

        ids = ProducerIdManager(allocate)
        for refused in (ids.next(), ids.allocate()):
            with pytest.raises(KafkaError) as failed:
                await refused
            assert failed.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert [record.getMessage() for record in caplog.records] == [
            "The controller allocated no producer ids: NOT_CONTROLLER"
        ]
        answers.append(range(7, 8))
        assert await ids.next() == 7

    asyncio.run(scenario())


def test_concurrent_waiters_share_the_error_of_an_allocation() -> None:
    async def scenario() -> None:
        attempts = []

        async def allocate() -> range:
            attempts.append(ErrorCode.REQUEST_TIMED_OUT)
            await asyncio.sleep(0)
            raise KafkaError(attempts[-1])

        ids = ProducerIdManager(allocate)
        errors = await asyncio.gather(*(ids.next() for _ in range(5)), return_exceptions=True)
        assert [error.code for error in errors if isinstance(error, KafkaError)] == [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ] * 5
        assert len(attempts) == 1

    asyncio.run(scenario())


def test_cancelled_waiter_leaves_the_allocation_to_the_others() -> None:
    async def scenario() -> None:
        block: asyncio.Future[range] = asyncio.get_running_loop().create_future()
        ids = ProducerIdManager(lambda: block)
        cancelled, other = asyncio.create_task(ids.next()), asyncio.create_task(ids.next())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        block.set_result(range(7, 8))
        assert await other == 7

    asyncio.run(scenario())
