"""Timers with events; `tests/unit/broker/runtime/test_deadline_queue.py` covers their queue."""

from broker.coordinator.runtime.timers import Timer, Timers


def test_timer_that_is_due_has_its_event() -> None:
    timers = Timers()
    timers.schedule(Timer(("session", "a")), 1.0)
    due = timers.pop_due(1.0)
    assert due is not None
    assert due.event == ("session", "a")
