import weakref

from broker.runtime.rate_limited_log import LoggedOnce, RateLimitedLog


def test_each_key_is_new_once() -> None:
    said = LoggedOnce()
    assert [said.is_new(key) for key in ("a", "b", "a", "b")] == [True, True, False, False]


def test_no_more_is_said_than_can_be_remembered() -> None:
    said = LoggedOnce(limit=2)
    assert [said.is_new(str(number)) for number in range(5)] == [True, True, False, False, False]


def test_what_a_client_sent_is_not_kept() -> None:
    class Text(str):
        """A string that records its own deletion."""

        __slots__ = ("__weakref__",)

    key, said = Text("a long one"), LoggedOnce()
    gone = weakref.ref(key)
    assert said.is_new(key)
    del key
    assert gone() is None
    assert not said.is_new("a long one")


def test_what_comes_again_and_again_is_said_once_in_a_while_with_how_often_it_came() -> None:
    said = RateLimitedLog(10.0)
    assert [said.count("a", now) for now in (0, 1, 9.9, 10, 11, 30)] == [1, 0, 0, 3, 0, 2]


def test_each_key_is_said_by_itself() -> None:
    said = RateLimitedLog(10.0)
    assert [said.count(key, 0) for key in ("a", "b", "a")] == [1, 1, 0]


def test_the_keys_that_are_counted_are_bounded() -> None:
    said = RateLimitedLog(10)
    assert all(said.count(str(number), 0) == 1 for number in range(1000))
    assert said.count("0", 1) == 0
    assert said.count("another", 1) == 1
    assert said.count("0", 1) == 1
