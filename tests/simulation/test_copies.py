"""What the simulator counts as a copy of committed records."""

from __future__ import annotations

from tests.simulation.copies import Copies

REPLICA = ("b2", b"t" * 16, 0)


def test_log_end_of_dead_process_counts_in_its_leader_epoch() -> None:
    copies = Copies()
    copies.seen(REPLICA, 3, 4, truncated=False)
    copies.seen(REPLICA, 3, 0, truncated=False)  # the next process, after a power cut
    copies.seen(REPLICA, 4, 1, truncated=False)
    assert [copies.end(REPLICA, epoch) for epoch in (2, 3, 4)] == [0, 4, 1]
    assert copies.end(("b3", *REPLICA[1:]), 3) == 0


def test_truncated_records_do_not_count() -> None:
    copies = Copies()
    copies.seen(REPLICA, 3, 4, truncated=False)
    copies.seen(REPLICA, 3, 2, truncated=True)
    assert copies.end(REPLICA, 3) == 2
    copies.seen(REPLICA, 3, 3, truncated=False)
    assert copies.end(REPLICA, 3) == 3
