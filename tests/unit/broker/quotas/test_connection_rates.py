from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.monitoring.rate import SampleWindow
from broker.quotas.connection_rates import MAX_DELAY_MS, Admission, ConnectionRates, RateLimits


class Rates:
    """The rates of new connections, whose window admits a burst of 2 at 2 per second, and their clock."""

    def __init__(self, limits: RateLimits, exempt: tuple[str, ...] = ()) -> None:
        self.now_ms = 0.0
        self.rates = ConnectionRates(SampleWindow(1, 1000), lambda: self.now_ms, exempt)
        self.rates.limit(limits)

    def delays(self, count: int, listener: str = "PLAINTEXT", host: str = "10.0.0.1") -> list[float]:
        admissions = [self.rates.admit(listener, host) for _ in range(count)]
        assert [one.refused_by for one in admissions] == [None] * count
        return [one.delay_s for one in admissions]


def test_connections_above_the_rate_are_delayed_until_their_turn() -> None:
    rates = Rates(RateLimits(of_broker=2))
    assert rates.delays(5) == [0.0, 0.0, 0.5, 1.0, 1.5]
    rates.now_ms = 1500
    assert rates.delays(1) == [0.5]
    rates.now_ms = 1_000_000
    assert rates.delays(3) == [0.0, 0.0, 0.5]


def test_the_longest_delay_of_broker_listener_and_address_counts() -> None:
    limits = RateLimits(of_broker=100, per_listener={"A": 50}, per_address={"10.0.0.1": 2}, of_other_addresses=4)
    rates = Rates(limits)
    assert rates.delays(3, "A") == [0.0, 0.0, 0.5]
    assert rates.delays(5, "A", "10.0.0.2") == [0.0, 0.0, 0.0, 0.0, 0.25]
    assert max(rates.delays(60, "A", "10.0.0.3")[:4]) == 0.0
    rates = Rates(RateLimits(of_broker=100, per_listener={"A": 2}))
    assert rates.delays(3, "A") == [0.0, 0.0, 0.5]
    assert rates.delays(3, "B") == [0.0, 0.0, 0.0]


def test_the_limit_of_the_broker_is_not_for_an_exempt_listener() -> None:
    rates = Rates(RateLimits(of_broker=2, per_listener={"INTERNAL": 3}), exempt=("INTERNAL",))
    assert rates.delays(3, "INTERNAL") == [0.0, 0.0, 0.0]
    assert rates.delays(2, "EXTERNAL") == [0.0, 0.0]
    assert rates.delays(1, "INTERNAL") == [pytest.approx(1 / 3)]


def test_a_connection_that_would_wait_too_long_is_refused_and_counts_for_nothing() -> None:
    rates = Rates(RateLimits(of_broker=1000, per_address={"10.0.0.1": 1}))
    assert rates.delays(21)[-1] == MAX_DELAY_MS / 1000
    for _ in range(5):
        assert rates.rates.admit("A", "10.0.0.1").refused_by == "connection_creation_rate of 10.0.0.1=1"
    rates.now_ms = 1000
    assert rates.delays(1) == [MAX_DELAY_MS / 1000]
    assert rates.delays(900, host="10.0.0.2") == [0.0] * 900


def test_a_rate_of_0_refuses_everything_and_no_limit_nothing() -> None:
    rates = Rates(RateLimits(of_broker=0))
    assert rates.rates.admit("A", "10.0.0.1") == Admission(refused_by="max.connection.creation.rate=0")
    rates.rates.limit(RateLimits(per_listener={"A": 0}))
    assert rates.rates.admit("A", "10.0.0.1").refused_by == "listener.name.a.max.connection.creation.rate=0"
    rates.rates.limit(RateLimits())
    assert rates.delays(1000) == [0.0] * 1000


def test_another_limit_applies_to_what_was_created_before() -> None:
    rates = Rates(RateLimits(of_broker=2))
    rates.delays(4)
    rates.rates.limit(RateLimits(of_broker=4))
    assert rates.delays(1) == [0.75]


def test_delays_are_averaged_for_metrics() -> None:
    rates = Rates(RateLimits(of_broker=2))
    rates.delays(4)
    assert rates.rates.average_delay_ms("PLAINTEXT") == 750
    assert rates.rates.average_delay_ms("OTHER") == 0
    rates.now_ms = 1000
    assert rates.rates.average_delay_ms("PLAINTEXT") == 0


def test_memory_is_bounded_by_the_addresses_of_one_window() -> None:
    rates = Rates(RateLimits(of_other_addresses=10))
    for number in range(5000):
        rates.now_ms = 100.0 * number
        rates.delays(1, host=f"10.0.{number // 256}.{number % 256}")
    assert rates.rates.buckets <= 200


@given(st.lists(st.integers(0, 400), max_size=60))
def test_no_second_has_more_turns_than_the_rate_and_one_burst(pauses: list[int]) -> None:
    rates, turns = Rates(RateLimits(of_broker=5)), []
    for pause in pauses:
        rates.now_ms += pause
        admission = rates.rates.admit("A", "10.0.0.1")
        if admission.refused_by is None:
            turns.append(rates.now_ms / 1000 + admission.delay_s)
    assert turns == sorted(turns)
    for turn in turns:
        assert sum(turn <= other < turn + 1 - 1e-6 for other in turns) <= 10
