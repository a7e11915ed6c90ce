from broker.coordinator.runtime.timers import LOOKS_A_CALL, Timer, Timers


def due(timers: Timers, now: float) -> list[str]:
    events = []
    while (event := timers.pop_due(now)) is not None:
        events.append(event[0])
    return events


def test_events_fire_in_deadline_order() -> None:
    timers = Timers()
    for name, deadline in [("b", 2.0), ("a", 1.0), ("c", 3.0)]:
        timers.schedule(Timer((name,)), deadline)
    assert due(timers, 2.5) == ["a", "b"]
    assert due(timers, 3.0) == ["c"]


def test_nothing_fires_before_its_deadline() -> None:
    timers = Timers()
    timers.schedule(Timer(("a",)), 1.0)
    assert due(timers, 0.999) == []
    assert timers.next_at == 1.0


def test_renewed_deadline_replaces_the_former() -> None:
    timers = Timers()
    timer = Timer(("a",))
    timers.schedule(timer, 1.0)
    timers.schedule(timer, 5.0)
    assert due(timers, 4.9) == []
    assert due(timers, 5.0) == ["a"]
    assert due(timers, 9.0) == []


def test_deadline_can_be_moved_earlier() -> None:
    timers = Timers()
    timer = Timer(("a",))
    timers.schedule(timer, 5.0)
    timers.schedule(timer, 1.0)
    assert due(timers, 1.0) == ["a"]
    assert due(timers, 9.0) == []


def test_a_cancelled_timer_does_not_fire_and_can_be_used_again() -> None:
    timers = Timers()
    timer = Timer(("a",))
    timers.schedule(timer, 1.0)
    timer.cancel()
    assert due(timers, 2.0) == []
    timers.schedule(timer, 3.0)
    assert due(timers, 3.0) == ["a"]


def test_a_timer_that_fired_can_be_used_again_while_an_old_entry_is_queued() -> None:
    timers = Timers()
    timer = Timer(("a",))
    timers.schedule(timer, 10.0)
    timers.schedule(timer, 5.0)
    assert due(timers, 5.0) == ["a"]
    timers.schedule(timer, 10.0)
    assert due(timers, 10.0) == ["a"]
    assert due(timers, 99.0) == []


def test_timer_cancelled_by_an_event_does_not_fire() -> None:
    timers = Timers()
    second = Timer(("second",))
    timers.schedule(Timer(("first",)), 1.0)
    timers.schedule(second, 1.0)
    assert timers.pop_due(2.0) == ("first",)
    second.cancel()
    assert timers.pop_due(2.0) is None


def test_renewing_ten_thousand_times_leaves_one_entry() -> None:
    timers = Timers()
    timer = Timer(("session",))
    for beat in range(10_000):
        timers.schedule(timer, beat + 10.0)
    assert len(timers) == 1
    assert due(timers, 9_999.0) == []
    assert len(timers) == 1


def test_owner_is_notified_only_of_an_earlier_deadline() -> None:
    told: list[float | None] = []
    timers = Timers(lambda: told.append(timers.next_at))
    first, second = Timer(("a",)), Timer(("b",))
    timers.schedule(first, 5.0)
    timers.schedule(second, 7.0)
    timers.schedule(first, 9.0)
    timers.schedule(second, 3.0)
    assert told == [5.0, 3.0]


def test_cancelled_timers_do_not_accumulate_and_are_reusable() -> None:
    timers = Timers()
    lasting = Timer(("lasting",))
    timers.schedule(lasting, 1_800.0)
    cancelled = [Timer(("cancelled", number)) for number in range(10_000)]
    for timer in cancelled:
        timers.schedule(timer, 1_000.0)
        timer.cancel()
    assert len(timers) <= 1_001
    timers.schedule(cancelled[0], 1_200.0)
    timers.schedule(cancelled[-1], 1_100.0)
    fired = [timers.pop_due(2_000.0) for _ in range(4)]
    assert fired == [("cancelled", 9_999), ("cancelled", 0), ("lasting",), None]


def test_one_call_checks_a_bounded_number_of_renewed_timers() -> None:
    timers = Timers()
    renewed = [Timer((str(number),)) for number in range(LOOKS_A_CALL + 1)]
    for timer in renewed:
        timers.schedule(timer, 1.0)
        timers.schedule(timer, 9.0)
    timers.schedule(Timer(("last",)), 2.0)
    assert timers.pop_due(3.0) is None
    assert timers.next_at == 1.0
    assert timers.pop_due(3.0) == ("last",)
    assert timers.next_at == 9.0
