from broker.quotas.usage_table import UsageTable


def table(max_entries: int = 10_000) -> UsageTable[int, int]:
    return UsageTable(lambda until_ms, now_ms: now_ms >= until_ms, max_entries)


def test_idle_entries_are_dropped_once_their_number_has_doubled() -> None:
    entries = table()
    for key in range(100):
        entries.add(key, 10, 0)
    assert len(entries) == 100
    entries.add(100, 20, 10)
    assert (len(entries), entries.get(0), entries.get(100)) == (1, None, 20)


def test_entries_in_use_are_kept() -> None:
    entries = table()
    for key in range(1000):
        assert entries.add(key, 10, 0) == 10
    assert len(entries) == 1000


def test_a_full_table_drops_the_entry_that_was_not_used_for_the_longest_time() -> None:
    entries = table(max_entries=200)
    for key in range(200):
        entries.add(key, 5000 + key, 0)
    assert entries.get(0) == 5000  # it is used
    assert [entries.add(key, 9000 + key, 0) for key in (200, 201)] == [9200, 9201]
    assert [entries.get(key) for key in (0, 1, 2, 3, 200, 201)] == [5000, None, None, 5003, 9200, 9201]
    assert len(entries) == 200
    assert entries.add(300, 9300, 8000) == 9300  # the first ones are idle
    assert (len(entries), entries.get(0), entries.get(201)) == (3, None, 9201)


def test_a_full_table_is_swept_at_most_once_a_second() -> None:
    looked_at: list[float] = []

    def is_idle(until_ms: int, now_ms: float) -> bool:
        looked_at.append(now_ms)
        return now_ms >= until_ms

    entries: UsageTable[int, int] = UsageTable(is_idle, 200)
    for key in range(300):
        entries.add(key, 5000, key)
    assert len(looked_at) == 100
    looked_at.clear()
    entries.add(300, 5000, 1200)
    assert len(looked_at) == 200


def test_only_active_entries_are_listed() -> None:
    entries = table()
    entries.add(1, 10, 0)
    entries.add(2, 20, 0)
    assert entries.active(10) == [(2, 20)]
