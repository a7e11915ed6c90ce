from broker.quotas.usage_table import UsageTable


def table() -> UsageTable[int, int]:
    return UsageTable(lambda until_ms, now_ms: now_ms >= until_ms)


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


def test_only_active_entries_are_listed() -> None:
    entries = table()
    entries.add(1, 10, 0)
    entries.add(2, 20, 0)
    assert entries.active(10) == [(2, 20)]
