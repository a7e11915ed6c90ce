import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.monitoring.rate import MAX_THROTTLE_MS, Rate, SampleWindow

WINDOW = SampleWindow(11, 1000)


def test_first_burst_is_spread_over_the_window() -> None:
    rate = Rate(WINDOW)
    rate.record(1000, 0)
    assert rate.per_second(0) == 100.0
    assert rate.throttle_ms(200, 0) == 0


def test_throttle_time_brings_the_rate_back_to_the_limit() -> None:
    rate = Rate(WINDOW)
    rate.record(4000, 0)
    assert rate.throttle_ms(200, 0) == 10_000
    assert rate.per_second(10_999) < 400.0
    assert rate.throttle_ms(200, 11_000) == 0


def test_values_leave_the_rate_with_their_sample() -> None:
    rate = Rate(WINDOW)
    rate.record(500, 0)
    rate.record(500, 1000)
    assert not rate.is_idle(11_999)
    assert rate.per_second(11_000) == 50.0
    assert rate.is_idle(12_000)
    assert rate.per_second(12_000) == 0.0


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 10_000)), max_size=40))
def test_rate_equals_the_sum_of_the_samples_in_the_window(steps: list[tuple[int, int]]) -> None:
    rate, now = Rate(WINDOW), 0
    samples: list[tuple[int, int]] = []
    for pause, value in steps:
        now += pause
        rate.record(value, now)
        if samples and now - samples[-1][0] < WINDOW.sample_ms:
            samples[-1] = (samples[-1][0], samples[-1][1] + value)
        else:
            samples.append((now, value))
        kept = [(start, total) for start, total in samples if now - start < 11_000]
        elapsed = now - kept[0][0]
        measured = elapsed + max(10 - elapsed // 1000, 0) * 1000
        assert rate.per_second(now) == 1000 * sum(total for _, total in kept) / measured


@pytest.mark.parametrize("limit", [1.0, 5e-324])
def test_throttle_time_fits_into_a_response_however_small_the_limit(limit: float) -> None:
    rate = Rate(WINDOW)
    rate.record(100e6, 0)
    assert rate.throttle_ms(limit, 0) == MAX_THROTTLE_MS
