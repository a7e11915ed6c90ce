import asyncio
import logging
from contextlib import suppress
from random import Random

from broker.housekeeping import Housekeeping, SpaceWatch, sync_all
from protocol.errors import InvariantError, KafkaError
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, fill


def test_a_chore_that_fails_is_logged_and_comes_again(run, caplog):
    async def body():
        times, third = 0, asyncio.Event()

        async def chore():
            nonlocal times
            times += 1
            if times == 3:
                third.set()
            raise OSError("no luck")

        chores = Housekeeping(asyncio.get_running_loop())
        chores.every(0.0, chore)
        await third.wait()
        await chores.stop()

    with caplog.at_level(logging.ERROR):
        run(body())
    assert sum("A chore failed" in record.getMessage() for record in caplog.records) >= 2


def test_a_broken_invariant_reaches_the_loops_exception_handler(run):
    async def body():
        loop = asyncio.get_running_loop()
        told = loop.create_future()
        loop.set_exception_handler(lambda _, context: told.done() or told.set_result(context["exception"]))

        async def chore():
            raise InvariantError("the log would be corrupted")

        chores = Housekeeping(loop)
        chores.every(0.0, chore)
        assert isinstance(await told, InvariantError)
        await chores.stop()

    run(body())


def test_stopping_ends_a_chore_where_it_is(run):
    async def body():
        begun, never = asyncio.Event(), asyncio.Event()

        async def chore():
            begun.set()
            await never.wait()

        chores = Housekeeping(asyncio.get_running_loop())
        chores.every(0.0, chore)
        await begun.wait()
        await chores.stop()

    run(body())


def test_stopping_syncs_every_log_before_they_are_closed(run, tmp_path):
    disk = FaultyDisk()
    logs = LogManager(disk, [str(tmp_path)], LogConfig(), now_ms=lambda: NOW_MS, random=Random(1))
    logs.open()
    for partition in range(70):
        fill(logs.create("topic", TOPIC_ID, partition, LogConfig()), 1)

    async def body():
        await sync_all(logs, asyncio.get_running_loop())

    run(body())
    assert disk.called("sync").count(f"{0:020d}.log") == 70
    disk.calls.clear()
    logs.close()
    assert disk.called("sync") == []
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_full_directory_is_warned_of_once_and_told_again_when_it_has_room(tmp_path, caplog):
    disk = FaultyDisk()
    logs = LogManager(disk, [str(tmp_path)], LogConfig(), now_ms=lambda: NOW_MS, random=Random(1))
    logs.open()
    log = logs.create("topic", TOPIC_ID, 0, LogConfig())
    watch = SpaceWatch(logs)
    assert watch.look(0.0)
    disk.full = True
    for second in range(20):
        with suppress(KafkaError):
            fill(log, 1)
        assert not watch.look(float(second))
    disk.full = False
    assert not watch.look(19.5)
    assert watch.look(60.0)
    assert [record.getMessage() for record in caplog.records] == [
        f"No space is left in {tmp_path}: records, topics and settings are refused",
        f"There is space in {tmp_path} again",
    ]
    logs.close()
