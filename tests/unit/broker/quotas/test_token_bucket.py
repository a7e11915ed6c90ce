from hypothesis import given
from hypothesis import strategies as st

from broker.monitoring.rate import MAX_THROTTLE_MS, SampleWindow
from broker.quotas.token_bucket import TokenBucket

WINDOW = SampleWindow(11, 1000)


def test_full_bucket_admits_the_burst_of_a_window_and_then_a_debt() -> None:
    bucket = TokenBucket(WINDOW, 5, 0)
    bucket.record(55, 0)
    assert bucket.throttle_ms(0) == 0
    bucket.record(10, 0)
    assert bucket.throttle_ms(0) == 2000
    assert bucket.throttle_ms(1500) == 500
    assert bucket.throttle_ms(2000) == 0


def test_bucket_holds_no_more_than_a_window_accrues() -> None:
    bucket = TokenBucket(WINDOW, 5, 0)
    bucket.record(1, 1_000_000)
    assert bucket.tokens(1_000_000) == 54.0
    assert not bucket.is_full(1_000_000)
    assert bucket.is_full(1_000_200)


def test_other_limit_counts_from_its_change_on() -> None:
    bucket = TokenBucket(WINDOW, 10, 0)
    bucket.record(120, 0)
    bucket.limit_to(1, 500)
    assert bucket.tokens(500) == -5.0
    assert bucket.throttle_ms(500) == 5000


def test_debt_of_any_size_has_a_throttle_time_that_a_response_can_hold() -> None:
    bucket = TokenBucket(WINDOW, 1e-9, 0)
    bucket.record(1, 0)
    assert bucket.throttle_ms(0) == 2**31 - 1
    bucket = TokenBucket(WINDOW, 1e9, 0)
    bucket.record(11e9 + 1, 0)
    assert bucket.throttle_ms(0) == 1


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 30)), max_size=40))
def test_bucket_equals_one_that_is_filled_every_millisecond(steps: list[tuple[int, int]]) -> None:
    bucket, now, tokens = TokenBucket(WINDOW, 1000, 0), 0, 11_000
    for pause, value in steps:
        for _ in range(pause):
            tokens = min(tokens + 1, 11_000)
        now += pause
        bucket.record(value * 500, now)
        tokens -= value * 500
        assert round(bucket.tokens(now)) == tokens


def test_throttle_time_fits_into_a_response_however_small_the_limit() -> None:
    bucket = TokenBucket(WINDOW, 5e-324, 0)
    bucket.record(1000, 0)
    assert bucket.throttle_ms(0) == MAX_THROTTLE_MS
