import pytest

from storage.cleaner.throttle import Throttle


def test_use_above_the_rate_is_delayed() -> None:
    throttle = Throttle(1000, now_s=5)
    assert throttle.use(500, now_s=5) == 0.5
    assert throttle.use(500, now_s=5.5) == 0.5


def test_idle_time_saves_up_at_most_100_ms() -> None:
    throttle = Throttle(1000, now_s=0)
    assert throttle.use(100, now_s=60) == 0
    assert throttle.use(100, now_s=60) == pytest.approx(0.1)


def test_a_new_rate_counts_from_the_next_use_on() -> None:
    throttle = Throttle(1000, now_s=0)
    throttle.use(1000, now_s=0)
    throttle.bytes_per_s = 10_000
    assert throttle.use(0, now_s=0) == pytest.approx(0.1)


def test_no_limit_means_no_delay() -> None:
    assert Throttle(1.7976931348623157e308, now_s=0).use(1 << 40, now_s=100) == 0
