from __future__ import annotations

import re
from random import Random

import pytest

from storage.log.names import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    MAX_NAME_LENGTH,
    future_name_fits,
    log_name,
    parse_future_name,
    parse_log_name,
    unique_name,
)

KEYS = [("topic", 0), ("a.b-c_d", 17), ("x-1", 2)]


@pytest.mark.parametrize("key", KEYS)
def test_log_name_gives_its_partition(key: tuple[str, int]) -> None:
    assert parse_log_name(log_name(key)) == key
    assert parse_future_name(log_name(key)) is None


@pytest.mark.parametrize("key", KEYS)
def test_future_replica_name_gives_its_partition(key: tuple[str, int]) -> None:
    name = unique_name(key, FUTURE_SUFFIX, Random(1))
    assert re.fullmatch(re.escape(log_name(key)) + r"\.[0-9a-f]{32}-future", name)
    assert (parse_future_name(name), parse_log_name(name)) == (key, None)


@pytest.mark.parametrize("name", ["", "topic", "-1", "topic-", "topic-x", "topic-²", "x-future", "topic-0.-delete"])
def test_other_names_give_no_partition(name: str) -> None:
    assert (parse_log_name(name), parse_future_name(name)) == (None, None)


def test_names_are_different_each_time() -> None:
    random = Random(1)
    assert unique_name(("t", 0), DELETE_SUFFIX, random) != unique_name(("t", 0), DELETE_SUFFIX, random)


def test_long_topic_is_truncated_in_names_that_are_not_parsed() -> None:
    assert len(unique_name(("t" * 249, 0), DELETE_SUFFIX, Random(1))) == MAX_NAME_LENGTH


def test_future_replica_name_is_never_truncated() -> None:
    longest = MAX_NAME_LENGTH - len("-0." + "0" * 32 + FUTURE_SUFFIX)
    assert future_name_fits(("t" * longest, 0))
    assert not future_name_fits(("t" * longest, 10))
    assert len(unique_name(("t" * longest, 0), FUTURE_SUFFIX, Random(1))) == MAX_NAME_LENGTH
