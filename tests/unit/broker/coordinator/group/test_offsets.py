from __future__ import annotations

from typing import Any, Never

import pytest

from broker.coordinator.group.classic_group import COMPLETING, EMPTY, PREPARING, STABLE, ClassicGroup
from broker.coordinator.group.offsets import Committed, Key, Offsets

DAY_MS = 86_400_000
TOPIC_ID = b"t" * 16
KEY = ("g", "flights", 0)


def committed(offset: int = 5, at_ms: int = 0, **changes: Any) -> Committed:
    return Committed(offset, -1, "", at_ms)._replace(**changes)


def group(
    state: str = EMPTY,
    protocol_type: str | None = "consumer",
    since_ms: int | None = 0,
    topics: frozenset[str] | None = frozenset(),
) -> ClassicGroup:
    made = ClassicGroup("g", 0)
    made.state = state
    made.protocol_type = protocol_type
    made.state_timestamp_ms = since_ms
    made.subscribed_topics = topics
    return made


def expired(offsets: Offsets, of: ClassicGroup, now_ms: int) -> tuple[list[Any], bool]:
    return offsets.expired(of, now_ms, DAY_MS)


class TestCommits:
    def test_last_commit_wins(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(1))
        offsets.put(KEY, committed(2))
        assert offsets.get(*KEY) == committed(2)
        assert offsets.of_group("g") == {"flights": {0: committed(2)}}

    def test_removal_leaves_no_state(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed())
        offsets.remove(KEY)
        assert offsets.get(*KEY) is None
        assert not offsets.of_group("g")

    def test_removal_of_a_missing_offset_does_nothing(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed())
        offsets.remove(("g", "flights", 1))
        offsets.remove(("h", "flights", 0))
        assert offsets.get(*KEY) == committed()

    @pytest.mark.parametrize(
        ("stored", "requested", "same"),
        [
            (TOPIC_ID, TOPIC_ID, True),
            (TOPIC_ID, b"u" * 16, False),
            (bytes(16), TOPIC_ID, True),
            (TOPIC_ID, bytes(16), True),
        ],
    )
    def test_offset_matches_a_topic_by_id_where_ids_are_known(
        self, stored: bytes, requested: bytes, same: bool
    ) -> None:
        assert committed(topic_id=stored).is_of(requested) is same


class TestTransactions:
    def test_transactional_offset_is_invisible_until_commit(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(9, record_offset=1), producer_id=7)
        assert offsets.get(*KEY) is None
        assert offsets.is_pending(KEY)
        offsets.end_transaction(7, committed=True)
        assert offsets.get(*KEY) == committed(9, record_offset=1)
        assert not offsets.is_pending(KEY)

    def test_transactional_offset_is_dropped_on_abort(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(9), producer_id=7)
        offsets.end_transaction(7, committed=False)
        assert offsets.get(*KEY) is None
        assert not offsets.is_pending(KEY)

    def test_commit_after_a_transactional_one_is_kept(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(9, record_offset=1), producer_id=7)
        offsets.put(KEY, committed(4, record_offset=2))
        offsets.end_transaction(7, committed=True)
        assert offsets.get(*KEY) == committed(4, record_offset=2)

    def test_tombstone_removes_pending_transactional_offsets(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(9), producer_id=7)
        offsets.remove(KEY)
        offsets.end_transaction(7, committed=True)
        assert offsets.get(*KEY) is None

    def test_the_end_of_an_unknown_transaction_changes_nothing(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed())
        offsets.end_transaction(7, committed=True)
        assert offsets.get(*KEY) == committed()


class TestExpiry:
    """Rule 18: retention starts when the group empties; subscribed topics do not expire while it is active."""

    def test_an_empty_groups_offsets_expire_a_retention_after_it_became_empty(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(at_ms=0))
        empty = group(since_ms=5 * DAY_MS)
        assert expired(offsets, empty, 6 * DAY_MS - 1) == ([], False)
        assert expired(offsets, empty, 6 * DAY_MS) == ([KEY], True)

    def test_expiry_counts_from_the_commit_if_the_empty_time_is_unknown(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(at_ms=DAY_MS))
        assert expired(offsets, group(since_ms=None), 2 * DAY_MS) == ([KEY], True)

    def test_a_simple_groups_offsets_expire_a_retention_after_their_commit(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(at_ms=DAY_MS))
        offsets.put(("g", "flights", 1), committed(at_ms=2 * DAY_MS))
        simple = group(protocol_type=None, since_ms=0)
        assert expired(offsets, simple, 2 * DAY_MS - 1) == ([], False)
        assert expired(offsets, simple, 2 * DAY_MS) == ([KEY], False)
        assert expired(offsets, simple, 3 * DAY_MS) == ([KEY, ("g", "flights", 1)], True)

    def test_stable_group_expires_only_offsets_of_unsubscribed_topics(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(at_ms=0))
        offsets.put(("g", "former", 0), committed(at_ms=0))
        stable = group(STABLE, topics=frozenset({"flights"}))
        assert expired(offsets, stable, DAY_MS) == ([("g", "former", 0)], False)

    @pytest.mark.parametrize("state", [PREPARING, COMPLETING])
    def test_nothing_expires_during_a_rebalance(self, state: str) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(at_ms=0))
        assert expired(offsets, group(state, topics=frozenset()), 100 * DAY_MS) == ([], False)

    @pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
    def test_nothing_expires_where_subscriptions_are_unknown(self, protocol_type: str) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(at_ms=0))
        assert expired(offsets, group(STABLE, protocol_type, topics=None), 100 * DAY_MS) == ([], False)

    def test_explicit_expire_timestamp_overrides_retention(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(at_ms=0, expire_timestamp_ms=90 * DAY_MS))
        assert expired(offsets, group(), 90 * DAY_MS - 1) == ([], False)
        assert expired(offsets, group(), 90 * DAY_MS) == ([KEY], True)

    def test_offset_with_a_pending_transaction_does_not_expire_nor_does_its_group(self) -> None:
        offsets = Offsets()
        offsets.put(KEY, committed(at_ms=0))
        offsets.put(KEY, committed(at_ms=0), producer_id=7)
        assert expired(offsets, group(), 9 * DAY_MS) == ([], False)

    def test_group_without_offsets_has_none_left_after_expiry(self) -> None:
        assert expired(Offsets(), group(), 1) == ([], True)


def test_pending_offsets_are_looked_up_by_key_without_scanning_transactions() -> None:
    class UnscannedDict(dict[int, dict[Key, Committed]]):
        def values(self) -> Never:
            raise AssertionError("every look-up would go through all transactions")

    offsets = Offsets()
    offsets._pending = UnscannedDict()
    for producer_id in (7, 8):
        offsets.put(KEY, committed(producer_id), producer_id)
    assert offsets.is_pending(KEY)
    assert offsets.pending_of_group("g") == {KEY}
    offsets.end_transaction(7, False)
    assert offsets.is_pending(KEY)
    offsets.remove(KEY)
    assert not offsets.is_pending(KEY)
    offsets.end_transaction(8, True)
    assert offsets.get(*KEY) is None
    assert offsets.group_ids() == []
