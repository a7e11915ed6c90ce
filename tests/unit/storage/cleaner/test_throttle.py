import pytest

from storage.cleaner.throttle import Throttle


def test_what_is_used_faster_than_it_comes_is_rested_for() -> None:
    throttle = Throttle(1000, now_s=5)
    assert throttle.use(500, now_s=5) == 0.5
    assert throttle.use(500, now_s=5.5) == 0.5


def test_a_long_rest_saves_up_no_more_than_a_tenth_of_a_second() -> None:
    throttle = Throttle(1000, now_s=0)
    assert throttle.use(100, now_s=60) == 0
    assert throttle.use(100, now_s=60) == pytest.approx(0.1)


def test_a_new_rate_counts_from_the_next_use_on() -> None:
    throttle = Throttle(1000, now_s=0)
    throttle.use(1000, now_s=0)
    throttle.bytes_per_s = 10_000
    assert throttle.use(0, now_s=0) == pytest.approx(0.1)


def test_no_limit_is_no_rest() -> None:
    assert Throttle(1.7976931348623157e308, now_s=0).use(1 << 40, now_s=100) == 0
