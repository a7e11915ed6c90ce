from broker.replication.replica_state import ReplicaState

LAG_MS = 100


def test_a_replica_of_which_nothing_is_known_lags() -> None:
    assert ReplicaState(2).lags(5, 0, LAG_MS)


def test_a_member_is_taken_for_caught_up_when_its_leader_begins() -> None:
    follower = ReplicaState(2, 1000)
    assert not follower.lags(5, 1000 + LAG_MS, LAG_MS)
    assert follower.lags(5, 1001 + LAG_MS, LAG_MS)


def test_who_has_all_there_is_never_lags() -> None:
    follower = ReplicaState(2)
    follower.fetched(5, 0, 5, 1000, -1)
    assert not follower.lags(5, 1_000_000, LAG_MS)
    assert follower.lags(6, 1_000_000, LAG_MS)


def test_who_reaches_the_end_as_of_the_fetch_before_was_caught_up_then() -> None:
    follower = ReplicaState(2)
    follower.fetched(0, 0, 5, 1000, -1)
    follower.fetched(5, 0, 9, 1050, -1)
    assert follower.caught_up_ms == 1000
    follower.fetched(8, 0, 12, 1100, -1)
    assert follower.caught_up_ms == 1000
    follower.fetched(12, 0, 13, 1200, -1)
    assert follower.caught_up_ms == 1100


def test_the_first_fetch_alone_says_nothing_of_the_time_before_it() -> None:
    follower = ReplicaState(2)
    follower.fetched(3, 0, 5, 1000, -1)
    assert follower.lags(5, 1000, LAG_MS)


def test_being_caught_up_is_not_taken_back() -> None:
    follower = ReplicaState(2)
    follower.fetched(5, 0, 5, 1000, -1)
    follower.fetched(2, 0, 5, 1050, -1)
    assert (follower.caught_up_ms, follower.log_end_offset) == (1000, 2)


def test_the_newest_fetch_says_where_it_is_and_which_incarnation() -> None:
    follower = ReplicaState(2)
    follower.fetched(5, 3, 9, 1000, 7)
    assert (follower.log_end_offset, follower.log_start_offset, follower.broker_epoch) == (5, 3, 7)
