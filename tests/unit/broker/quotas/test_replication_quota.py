"""The quota of throttled replicas, and its rate."""

from __future__ import annotations

import pytest

from broker.monitoring.rate import SampleWindow, SimpleRate
from broker.quotas.replication_quota import ReplicationQuota, is_throttled

WINDOW = SampleWindow(3, 1000)


def test_a_simple_rate_has_its_full_value_from_the_first_sample_on() -> None:
    rate = SimpleRate(WINDOW)
    assert rate.per_second(0) == 0
    rate.record(500, 0)
    assert [rate.per_second(now_ms) for now_ms in (0, 500, 1000, 2000)] == [500, 500, 500, 250]
    rate.record(1000, 2000)
    assert rate.per_second(2000) == 750
    # The first sample has left the window.
    assert rate.per_second(3000) == 1000
    assert rate.per_second(5000) == 0


def test_throttled_replicas_wait_until_the_rate_is_within_the_quota() -> None:
    limit = 100
    quota = ReplicationQuota(WINDOW, lambda: limit)
    assert quota.throttle_ms(0) == 0
    quota.record(100, 0)
    assert quota.throttle_ms(0) == 0
    quota.record(50, 0)
    assert quota.throttle_ms(0) == 500
    assert quota.throttle_ms(1400) == 100
    assert quota.throttle_ms(1500) == 0
    limit = 0
    assert quota.throttle_ms(1500) > 1_000_000
    assert quota.throttle_ms(3000) == 0


def test_without_a_quota_the_rate_is_measured_only() -> None:
    quota = ReplicationQuota(WINDOW, lambda: None)
    quota.record(1 << 40, 0)
    assert quota.throttle_ms(0) == 0
    assert quota.rate.per_second(0) == 1 << 40


def test_responses_without_records_do_not_lengthen_the_measured_time() -> None:
    quota = ReplicationQuota(WINDOW, lambda: 100)
    quota.record(0, 0)
    quota.record(200, 2000)
    assert quota.rate.per_second(2000) == 200


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (None, False),
        ("", False),
        ("*", True),
        ("1:2", True),
        ("0:2,1:2", True),
        ("01:02", True),
        (" 0:2 , 1:2 ", True),
        ("0:2", False),
        ("1:1", False),
        ("2:1", False),
        ("11:2,1:22", False),
    ],
)
def test_the_replicas_of_a_topic_are_pairs_or_all(replicas: str | None, expected: bool) -> None:
    assert is_throttled(replicas, 1, 2) == expected
