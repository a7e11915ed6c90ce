"""Deadlines in one heap."""

from broker.runtime.deadline_queue import CHECKS_A_CALL, DeadlineQueue, Scheduled


class Named(Scheduled):
    """A timer that a test can recognize."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


Queue = DeadlineQueue[Named]


def due(timers: Queue, now: float) -> list[str]:
    names = []
    while (timer := timers.pop_due(now)) is not None:
        names.append(timer.name)
    return names


def test_events_fire_in_deadline_order() -> None:
    timers = Queue()
    for name, deadline in [("b", 2.0), ("a", 1.0), ("c", 3.0)]:
        timers.schedule(Named(name), deadline)
    assert due(timers, 2.5) == ["a", "b"]
    assert due(timers, 3.0) == ["c"]


def test_nothing_fires_before_its_deadline() -> None:
    timers = Queue()
    timers.schedule(Named("a"), 1.0)
    assert due(timers, 0.999) == []
    assert timers.next_at == 1.0


def test_renewed_deadline_replaces_the_former() -> None:
    timers = Queue()
    timer = Named("a")
    timers.schedule(timer, 1.0)
    timers.schedule(timer, 5.0)
    assert due(timers, 4.9) == []
    assert due(timers, 5.0) == ["a"]
    assert due(timers, 9.0) == []


def test_stale_entry_at_the_top_does_not_delay_the_next_one() -> None:
    alarms: list[float] = []
    timers = Queue(alarms.append)
    timer = Named("a")
    timers.schedule(timer, 10.0)
    timers.schedule(timer, 8.0)
    assert timers.pop_due(8.0) is timer
    timers.schedule(Named("b"), 11.0)
    timers.schedule(timer, 12.0)
    assert alarms == [10.0, 8.0]


def test_deadline_can_be_moved_earlier() -> None:
    timers = Queue()
    timer = Named("a")
    timers.schedule(timer, 5.0)
    timers.schedule(timer, 1.0)
    assert due(timers, 1.0) == ["a"]
    assert due(timers, 9.0) == []


def test_a_cancelled_timer_does_not_fire_and_can_be_used_again() -> None:
    timers = Queue()
    timer = Named("a")
    timers.schedule(timer, 1.0)
    timer.cancel()
    assert due(timers, 2.0) == []
    timers.schedule(timer, 3.0)
    assert due(timers, 3.0) == ["a"]


def test_a_timer_that_fired_can_be_used_again_while_an_old_entry_is_queued() -> None:
    timers = Queue()
    timer = Named("a")
    timers.schedule(timer, 10.0)
    timers.schedule(timer, 5.0)
    assert due(timers, 5.0) == ["a"]
    timers.schedule(timer, 10.0)
    assert due(timers, 10.0) == ["a"]
    assert due(timers, 99.0) == []


def test_timer_cancelled_by_an_event_does_not_fire() -> None:
    timers = Queue()
    second = Named("second")
    timers.schedule(Named("first"), 1.0)
    timers.schedule(second, 1.0)
    [first] = [timers.pop_due(2.0)]
    second.cancel()
    assert (first.name if first else "", due(timers, 2.0)) == ("first", [])


def test_renewing_ten_thousand_times_leaves_one_entry() -> None:
    timers = Queue()
    timer = Named("session")
    for beat in range(10_000):
        timers.schedule(timer, beat + 10.0)
    assert len(timers) == 1
    assert due(timers, 9_999.0) == []
    assert len(timers) == 1


def test_owner_is_notified_only_of_an_earlier_deadline() -> None:
    reported: list[float] = []
    timers = Queue(reported.append)
    first, second = Named("a"), Named("b")
    timers.schedule(first, 5.0)
    timers.schedule(second, 7.0)
    timers.schedule(first, 9.0)
    timers.schedule(second, 3.0)
    assert reported == [5.0, 3.0]


def test_cancelled_timers_do_not_accumulate_and_are_reusable() -> None:
    timers = Queue()
    lasting = Named("lasting")
    timers.schedule(lasting, 1_800.0)
    cancelled = [Named(f"cancelled {number}") for number in range(10_000)]
    for timer in cancelled:
        timers.schedule(timer, 1_000.0)
        timer.cancel()
    assert len(timers) <= 100
    timers.schedule(cancelled[0], 1_200.0)
    timers.schedule(cancelled[-1], 1_100.0)
    assert due(timers, 2_000.0) == ["cancelled 9999", "cancelled 0", "lasting"]


def test_one_call_checks_a_bounded_number_of_renewed_timers() -> None:
    timers = Queue()
    renewed = [Named(str(number)) for number in range(CHECKS_A_CALL + 1)]
    for timer in renewed:
        timers.schedule(timer, 1.0)
        timers.schedule(timer, 9.0)
    timers.schedule(Named("last"), 2.0)
    assert timers.pop_due(3.0) is None
    assert timers.next_at == 1.0
    assert due(timers, 3.0) == ["last"]
    assert timers.next_at == 9.0


def test_iteration_yields_the_timers_with_a_deadline_once() -> None:
    timers = Queue()
    moved, cancelled, fired = Named("moved"), Named("cancelled"), Named("fired")
    timers.schedule(moved, 5.0)
    timers.schedule(moved, 3.0)
    timers.schedule(cancelled, 4.0)
    timers.schedule(fired, 1.0)
    cancelled.cancel()
    timers.pop_due(1.0)
    assert [timer.name for timer in timers] == ["moved"]


def test_cancelled_timers_at_the_top_are_dropped_before_they_are_due() -> None:
    timers = Queue()
    timer = Named("cancelled")
    timers.schedule(timer, 5.0)
    timer.cancel()
    assert timers.pop_due(0.0) is None
    assert timers.next_at is None
    timers.schedule(timer, 6.0)
    assert due(timers, 6.0) == ["cancelled"]
