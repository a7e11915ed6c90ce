"""The rules of faults by themselves: matches, hits and the order of rules."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from broker.control.faults.rule import (
    DelayFault,
    ErrorFault,
    FaultCondition,
    FaultLimits,
    FaultRule,
    FaultRules,
    RequestContent,
    RequestFacts,
)
from protocol.api import ApiKey
from protocol.errors import ErrorCode

FAULT = ErrorFault(ErrorCode.NOT_LEADER_OR_FOLLOWER)
CONTENT = RequestContent((("t", 0), ("t", 1), ("u", 0)), frozenset({"g"}), frozenset({"x"}))


def facts(
    api_key: int = ApiKey.PRODUCE,
    client_id: str | None = "c",
    content: RequestContent = CONTENT,
    *,
    from_broker: bool = False,
) -> RequestFacts:
    return RequestFacts(api_key, client_id, from_broker, lambda: content)


def unread(api_key: int = ApiKey.PRODUCE) -> RequestFacts:
    """Return a request that must not be decoded."""

    def read() -> RequestContent:
        raise AssertionError("the rule reads the request")

    return RequestFacts(api_key, "c", False, read)


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        (FaultCondition(), ()),
        (FaultCondition(frozenset({ApiKey.PRODUCE})), ()),
        (FaultCondition(frozenset({ApiKey.FETCH})), None),
        (FaultCondition(topics=("t",)), (("t", 0), ("t", 1))),
        (FaultCondition(topics=("t",), partitions=frozenset({1})), (("t", 1),)),
        (FaultCondition(topics=("t", "u"), partitions=frozenset({0})), (("t", 0), ("u", 0))),
        (FaultCondition(partitions=frozenset({0})), (("t", 0), ("u", 0))),
        (FaultCondition(topics=("v",)), None),
        (FaultCondition(topics=("u*",)), (("u", 0),)),
        (FaultCondition(topics=("*",)), CONTENT.partitions),
        (FaultCondition(topics=("t",), partitions=frozenset({7})), None),
        (FaultCondition(client_id="c"), ()),
        (FaultCondition(client_id="d"), None),
        (FaultCondition(group="g"), ()),
        (FaultCondition(group="h"), None),
        (FaultCondition(transactional_id="x"), ()),
        (FaultCondition(transactional_id="y"), None),
        (FaultCondition(group="g", topics=("t",), partitions=frozenset({0})), (("t", 0),)),
    ],
    ids=str,
)
def test_a_condition_names_the_partitions_of_the_requests_that_it_matches(
    condition: FaultCondition, named: Any
) -> None:
    assert condition.match(facts()) == named


@pytest.mark.parametrize(("from_broker", "matched"), [(False, [False]), (True, [True]), (None, [False, True])])
def test_requests_of_brokers_match_only_where_they_are_meant(from_broker: bool | None, matched: list[bool]) -> None:
    condition = FaultCondition(from_broker=from_broker)
    assert [sender for sender in (False, True) if condition.match(facts(from_broker=sender)) is not None] == matched


def test_a_request_that_names_a_topic_as_a_whole_matches_each_of_its_partitions() -> None:
    condition = FaultCondition(topics=("t",), partitions=frozenset({3}))
    assert condition.match(facts(content=RequestContent((("t", None), ("u", None))))) == (("t", None),)


@pytest.mark.parametrize("condition", [FaultCondition(), FaultCondition(frozenset({ApiKey.FETCH}), topics=("t",))])
def test_a_request_is_decoded_only_for_a_condition_on_its_content(condition: FaultCondition) -> None:
    condition.match(unread())


def rule_of(limits: FaultLimits, fault: Any = FAULT, seed: int = 0) -> FaultRule:
    """Return a rule that matches every request."""
    return FaultRule(FaultCondition(), fault, limits, Random(seed).random)


def hits(limits: FaultLimits, requests: int = 6, seed: int = 0) -> list[int]:
    """Return the numbers of the matching requests that a rule takes."""
    rule = rule_of(limits, seed=seed)
    return [number for number in range(1, requests + 1) if rule.take(facts()) is not None]


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
        (FaultLimits(), [1, 2, 3, 4, 5, 6]),
        (FaultLimits(nth=3), [3, 4, 5, 6]),
        (FaultLimits(most=2), [1, 2]),
        (FaultLimits(nth=3, most=2), [3, 4]),
        (FaultLimits(nth=7), []),
        (FaultLimits(most=0), []),
        (FaultLimits(probability=0.0), []),
    ],
)
def test_limits_choose_the_hits_among_the_matches(limits: FaultLimits, taken: list[int]) -> None:
    assert hits(limits) == taken


def test_a_seed_chooses_the_same_hits_each_time() -> None:
    half = [hits(FaultLimits(probability=0.5), 1000, seed) for seed in (1, 1, 2)]
    assert half[0] == half[1] != half[2]
    assert 400 < len(half[0]) < 600


def test_an_exhausted_rule_counts_no_more_matches() -> None:
    rule = rule_of(FaultLimits(most=1))
    for _ in range(3):
        rule.take(facts())
    assert (rule.matches, rule.hits, rule.is_exhausted) == (1, 1, True)


def test_the_first_rule_that_takes_a_request_keeps_it_from_later_ones() -> None:
    rules = FaultRules(lambda: None)
    first = rule_of(FaultLimits(nth=2, most=1))
    second = rule_of(FaultLimits(), DelayFault(1))
    ids = rules.add(first), rules.add(second)
    taken = [rules.take(facts()) for _ in range(3)]
    assert [hit and hit.rule_id for hit in taken] == [ids[1], ids[0], ids[1]]
    assert (first.matches, second.matches) == (2, 2)


def test_a_rule_without_a_fault_counts_and_leaves_the_request_to_others() -> None:
    fired: list[None] = []
    rules = FaultRules(lambda: fired.append(None))
    counting = rule_of(FaultLimits(), None)
    rules.add(counting)
    assert rules.take(facts()) is None
    rules.add(rule_of(FaultLimits()))
    assert rules.take(facts()) is not None
    assert counting.hits == 2
    assert len(fired) == 3


def test_ids_of_removed_rules_are_not_used_again() -> None:
    rules = FaultRules(lambda: None)
    first = rules.add(rule_of(FaultLimits()))
    assert rules.remove(first) is not None
    assert rules.remove(first) is None
    assert not rules
    assert rules.add(rule_of(FaultLimits())) > first
