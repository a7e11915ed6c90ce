import weakref

from broker.runtime.rate_limited_log import LogOnce, RateLimitedCounter


def test_key_is_logged_once() -> None:
    shown = LogOnce()
    assert [shown.should_log(key) for key in ("a", "b", "a", "b")] == [True, True, False, False]


def test_new_keys_beyond_limit_are_not_logged() -> None:
    shown = LogOnce(limit=2)
    assert [shown.should_log(str(number)) for number in range(5)] == [True, True, False, False, False]


def test_key_objects_are_not_kept() -> None:
    class Text(str):
        """A string that records its own deletion."""

        __slots__ = ("__weakref__",)

    key, shown = Text("a long one"), LogOnce()
    gone = weakref.ref(key)
    assert shown.should_log(key)
    del key
    assert gone() is None
    assert not shown.should_log("a long one")


def test_repeated_key_is_reported_per_interval_with_count() -> None:
    shown = RateLimitedCounter(10.0)
    assert [shown.add("a", now) for now in (0, 1, 9.9, 10, 11, 30)] == [1, 0, 0, 3, 0, 2]


def test_keys_are_reported_independently() -> None:
    shown = RateLimitedCounter(10.0)
    assert [shown.add(key, 0) for key in ("a", "b", "a")] == [1, 1, 0]


def test_number_of_counted_keys_is_bounded() -> None:
    shown = RateLimitedCounter(10)
    assert all(shown.add(str(number), 0) == 1 for number in range(1000))
    assert shown.add("0", 1) == 0
    assert shown.add("another", 1) == 1
    assert shown.add("0", 1) == 1


def test_keys_beyond_the_most_of_an_interval_are_counted_until_a_later_one() -> None:
    shown = RateLimitedCounter(10.0, most=2)
    assert [shown.add(key, 0) for key in ("a", "b", "c", "c", "a")] == [1, 1, 0, 0, 0]
    assert [shown.add(key, 10) for key in ("c", "a", "b")] == [3, 2, 0]
    assert shown.add("b", 20) == 2
