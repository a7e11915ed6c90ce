from broker.quotas.usage_table import UsageTable


def table(full: int = 10_000) -> UsageTable[int, int]:
    return UsageTable(lambda until_ms, now_ms: now_ms >= until_ms, full)


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


def test_keys_share_an_entry_while_the_table_is_full() -> None:
    entries = table(full=200)
    for key in range(200):
        entries.add(key, 5000, 0)
    assert (entries.add(200, 6000, 0), entries.add(201, 7000, 0), entries.get(200)) == (6000, 6000, None)
    assert len(entries) == 200
    assert entries.add(202, 9000, 6000) == 9000  # the others are idle
    assert (len(entries), entries.get(202)) == (1, 9000)


def test_a_full_table_is_swept_at_most_once_a_second() -> None:
    looked_at: list[float] = []

    def is_idle(until_ms: int, now_ms: float) -> bool:
        looked_at.append(now_ms)
        return now_ms >= until_ms

    entries: UsageTable[int, int] = UsageTable(is_idle, 200)
    for key in range(300):
        entries.add(key, 5000, key)
    assert len(looked_at) == 100 + 99  # at 100 entries, and the shared one after its first use
    looked_at.clear()
    entries.add(300, 5000, 1200)
    assert len(looked_at) == 200 + 1


def test_only_active_entries_are_listed() -> None:
    entries = table()
    entries.add(1, 10, 0)
    entries.add(2, 20, 0)
    assert entries.active(10) == [(2, 20)]
