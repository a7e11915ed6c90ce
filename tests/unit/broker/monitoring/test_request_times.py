from __future__ import annotations

import asyncio
import math
from typing import Any, Never

import pytest

from broker.monitoring.request_errors import RequestErrors
from broker.monitoring.request_times import BOUNDS_S, WINDOW_S, TimedDispatcher, Times
from broker.network.connection import Connection
from broker.network.connection_protocol import DeferredResponse
from protocol.api import ApiKey
from protocol.errors import DecodeError

CONNECTION = Connection(1, "PLAINTEXT", "127.0.0.1")
FETCH_12 = memoryview(b"\0\x01\0\x0c and so on")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_counts_and_sums_are_of_all_requests() -> None:
    times = Times(0.0)
    for seconds in (0.001, 0.002, 1000.0):
        times.add(seconds, 0.0)
    assert times.count == 3
    assert times.total_s == pytest.approx(1000.003)


@pytest.mark.parametrize("exact", [0.00005, 0.001, 0.4, 30.0])
def test_quantile_is_at_most_25_percent_too_long(exact: float) -> None:
    times = Times(0.0)
    for part in range(1, 101):
        times.add(exact * part / 50, 0.0)
    median, all_but_one = times.quantiles(1.0, (0.5, 0.99))
    assert exact <= median <= exact * 1.25
    assert exact * 1.98 <= all_but_one <= exact * 1.98 * 1.25


def test_without_requests_there_are_no_quantiles() -> None:
    assert math.isnan(Times(0.0).quantiles(1.0, (0.5,))[0])


def test_time_above_the_last_bucket_counts_in_the_last_bucket() -> None:
    times = Times(0.0)
    times.add(10_000.0, 0.0)
    assert times.quantiles(1.0, (0.5,)) == (BOUNDS_S[-1],)


def test_quantiles_drop_times_older_than_two_windows() -> None:
    times = Times(0.0)
    times.add(1.0, 0.0)
    assert times.quantiles(WINDOW_S, (0.5,))[0] >= 1.0
    times.add(0.001, WINDOW_S)
    assert times.quantiles(WINDOW_S + 1, (1.0,))[0] >= 1.0
    assert times.quantiles(2 * WINDOW_S, (1.0,))[0] < 0.002
    assert math.isnan(times.quantiles(9 * WINDOW_S, (1.0,))[0])


def test_quantiles_cover_the_last_requests_even_if_rarely_read() -> None:
    times = Times(0.0)
    for second in range(600):
        times.add(1.0 if second < 480 else 0.001, float(second))
    assert times.quantiles(599.0, (1.0,))[0] < 0.002


def test_immediate_response_is_timed_from_its_frame() -> None:
    clock = Clock()
    times: dict[Any, Any] = {}

    def dispatch(frame: memoryview, connection: Connection) -> list[bytes]:
        clock.now += 0.5
        return [b"answer"]

    assert TimedDispatcher(dispatch, times, RequestErrors(), clock)(FETCH_12, CONNECTION) == [b"answer"]  # type: ignore[arg-type]  # narrower than what may come: only this comes here
    assert times[ApiKey.FETCH].total_s == 0.5
    assert {version: count for version, count in enumerate(times[ApiKey.FETCH].versions) if count} == {12: 1}


def test_deferred_response_is_timed_at_completion() -> None:
    async def body() -> None:
        clock = Clock()
        times: dict[Any, Any] = {}
        answer = asyncio.get_running_loop().create_future()
        dispatch = TimedDispatcher(lambda *_: DeferredResponse(ApiKey.FETCH, answer), times, RequestErrors(), clock)
        dispatch(FETCH_12, CONNECTION)
        assert times[ApiKey.FETCH].count == 0
        clock.now = 7.0
        answer.set_result([b"answer"])
        await asyncio.sleep(0)
        assert times[ApiKey.FETCH].total_s == 7.0

    asyncio.run(body())


def test_undecodable_request_is_passed_to_the_dispatcher() -> None:
    def dispatch(frame: memoryview, connection: Connection) -> Never:
        raise DecodeError("no request")

    times: dict[Any, Any] = {}
    with pytest.raises(DecodeError):
        TimedDispatcher(dispatch, times, RequestErrors(), Clock())(memoryview(b""), CONNECTION)
    assert times == {}
