from broker.replication.replica_state import ReplicaState

LAG_MS = 100


def test_replica_without_state_lags() -> None:
    assert ReplicaState(2).lags(5, 0, LAG_MS)


def test_isr_member_counts_as_caught_up_at_start_of_leadership() -> None:
    follower = ReplicaState(2, 1000)
    assert not follower.lags(5, 1000 + LAG_MS, LAG_MS)
    assert follower.lags(5, 1001 + LAG_MS, LAG_MS)


def test_replica_at_log_end_never_lags() -> None:
    follower = ReplicaState(2)
    follower.fetched(5, 0, 5, 1000, -1)
    assert not follower.lags(5, 1_000_000, LAG_MS)
    assert follower.lags(6, 1_000_000, LAG_MS)


def test_replica_at_log_end_of_previous_fetch_was_caught_up_at_that_time() -> None:
    follower = ReplicaState(2)
    follower.fetched(0, 0, 5, 1000, -1)
    follower.fetched(5, 0, 9, 1050, -1)
    assert follower.caught_up_ms == 1000
    follower.fetched(8, 0, 12, 1100, -1)
    assert follower.caught_up_ms == 1000
    follower.fetched(12, 0, 13, 1200, -1)
    assert follower.caught_up_ms == 1100


def test_first_fetch_does_not_set_caught_up_time() -> None:
    follower = ReplicaState(2)
    follower.fetched(3, 0, 5, 1000, -1)
    assert follower.lags(5, 1000, LAG_MS)


def test_caught_up_time_never_decreases() -> None:
    follower = ReplicaState(2)
    follower.fetched(5, 0, 5, 1000, -1)
    follower.fetched(2, 0, 5, 1050, -1)
    assert (follower.caught_up_ms, follower.log_end_offset) == (1000, 2)


def test_latest_fetch_sets_offsets_and_broker_epoch() -> None:
    follower = ReplicaState(2)
    follower.fetched(5, 3, 9, 1000, 7)
    assert (follower.log_end_offset, follower.log_start_offset, follower.broker_epoch) == (5, 3, 7)
