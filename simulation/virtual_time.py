"""Time and chance of the running thread while a simulated application runs: `time`, `random`, `uuid` and `secrets`.

    time.time, monotonic, perf_counter and their _ns    the virtual time of the process whose callback runs
    time.sleep                                          stops that process for as long; in a thread, delays its result
    random.*, os.urandom, uuid4, secrets                determined by the seed

aiokafka reads the time of a record without a timestamp in C: `BatchBuilder.append` gets the virtual time instead. It
chooses from a set of brokers, whose hashes depend on the address of None before Python 3.12: they hash without it. Its
client ids count from 1 in each run.
`datetime.now()` and code that has imported the functions themselves (`from time import time`) keep the system's time.
"""

from __future__ import annotations

import os
import random
import time
from asyncio import events as asyncio_events
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any

from simulation.application_loop import ApplicationLoop
from simulation.cluster import BEGIN_MS
from simulation.loop import Loop, Schedule


@contextmanager
def virtual_time(schedule: Schedule, chance: Random) -> Iterator[None]:
    """Replace time and chance in the block; afterwards, all of it is as before."""
    clocks = _Clocks(schedule)
    replaced: dict[str, Callable[..., object]] = {
        "time": clocks.time,
        "monotonic": clocks.monotonic,
        "perf_counter": clocks.monotonic,
        "sleep": clocks.sleep,
    }
    replaced |= {f"{name}_ns": _in_ns(replaced[name]) for name in ("time", "monotonic", "perf_counter")}
    state = random.getstate()
    random.seed(chance.getrandbits(64))
    with ExitStack() as stack:
        stack.callback(random.setstate, state)
        places: list[tuple[Any, str, Any]] = [(time, name, value) for name, value in replaced.items()]
        places += _places_in_aiokafka(clocks)
        places += [(os, "urandom", chance.randbytes), (random, "_urandom", chance.randbytes)]  # the last: SystemRandom
        for module, name, value in places:
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        yield


def _places_in_aiokafka(clocks: _Clocks) -> list[tuple[Any, str, Any]]:
    try:
        from aiokafka.producer.message_accumulator import BatchBuilder
        from aiokafka.producer.producer import AIOKafkaProducer
        from aiokafka.structs import BrokerMetadata
    except ImportError:
        return []
    append = BatchBuilder.append

    def at_virtual_time(self: Any, *, timestamp: int | None, **fields: Any) -> Any:
        return append(self, timestamp=int(clocks.time() * 1000) if timestamp is None else timestamp, **fields)

    def without_rack(self: Any) -> int:
        return hash((self.nodeId, self.host, self.port))

    return [
        (BatchBuilder, "append", at_virtual_time),
        (BrokerMetadata, "__hash__", without_rack),
        (AIOKafkaProducer, "_PRODUCER_CLIENT_ID_SEQUENCE", 0),
    ]


def _in_ns(clock: Callable[..., Any]) -> Callable[[], int]:
    return lambda: int(clock() * 1e9)


class _Clocks:
    """The clocks of the process that runs now."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def time(self) -> float:
        return BEGIN_MS / 1000 + self._schedule.now + self._slept_s()

    def monotonic(self) -> float:
        loop = asyncio_events._get_running_loop()
        return (loop.time() if isinstance(loop, Loop) else self._schedule.now) + self._slept_s()

    def sleep(self, seconds: float) -> None:
        loop = asyncio_events._get_running_loop()
        if isinstance(loop, ApplicationLoop):
            loop.slept_s += max(seconds, 0.0)

    @staticmethod
    def _slept_s() -> float:
        loop = asyncio_events._get_running_loop()
        return loop.slept_s if isinstance(loop, ApplicationLoop) else 0.0
