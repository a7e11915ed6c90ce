import pytest

from broker.network.connection import MAX_HELD_BYTES, MAX_IN_FLIGHT, Connection
from protocol.api import ApiKey
from protocol.errors import InvariantError


@pytest.fixture
def connection() -> Connection:
    return Connection(1, "PLAINTEXT", "127.0.0.1")


def test_response_without_predecessors_is_sent_at_once(connection: Connection) -> None:
    assert connection.answer([b"a"]) == [b"a"]
    assert connection.in_flight == 0


def test_responses_are_sent_in_request_order(connection: Connection) -> None:
    first = connection.wait(ApiKey.PRODUCE)
    second = connection.wait(ApiKey.FETCH)
    assert connection.answer([b"c"]) == []
    assert connection.fill(second, [b"b"]) == []
    assert connection.in_flight == 3
    assert connection.fill(first, [b"a"]) == [b"a", b"b", b"c"]
    assert connection.in_flight == 0


def test_response_is_sent_while_later_ones_are_pending(connection: Connection) -> None:
    first = connection.wait(ApiKey.PRODUCE)
    second = connection.wait(ApiKey.PRODUCE)
    assert connection.fill(first, [b"a"]) == [b"a"]
    assert connection.fill(second, [b"b"]) == [b"b"]


def test_deferred_request_without_a_response_leaves_no_state(connection: Connection) -> None:
    slot = connection.wait(ApiKey.PRODUCE)
    assert connection.answer([b"b"]) == []
    assert connection.fill(slot, None) == [b"b"]


@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.FETCH])
def test_deferred_produce_or_fetch_does_not_block_later_requests(connection: Connection, api: ApiKey) -> None:
    connection.wait(api)
    assert connection.may_handle


@pytest.mark.parametrize("api", [ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP, ApiKey.CREATE_TOPICS])
def test_other_deferred_requests_block_later_requests(connection: Connection, api: ApiKey) -> None:
    produce = connection.wait(ApiKey.PRODUCE)
    slot = connection.wait(api)
    assert not connection.may_handle
    connection.fill(produce, [b"a"])
    assert not connection.may_handle
    connection.fill(slot, [b"b"])
    assert connection.may_handle


def test_handling_stops_when_too_many_requests_are_pending(connection: Connection) -> None:
    slots = [connection.wait(ApiKey.FETCH) for _ in range(MAX_IN_FLIGHT)]
    assert not connection.may_handle
    connection.fill(slots[1], [b""])
    assert not connection.may_handle  # its response is queued behind the first
    connection.fill(slots[0], [b""])
    assert connection.may_handle


def test_request_handled_out_of_order_raises_invariant_error(connection: Connection) -> None:
    connection.wait(ApiKey.JOIN_GROUP)
    with pytest.raises(InvariantError):
        connection.wait(ApiKey.PRODUCE)


def test_second_response_raises_invariant_error(connection: Connection) -> None:
    slot = connection.wait(ApiKey.PRODUCE)
    connection.wait(ApiKey.PRODUCE)
    connection.fill(slot, [b"a"])
    with pytest.raises(InvariantError):
        connection.fill(slot, [b"a"])


def test_handling_stops_when_too_many_response_bytes_are_pending(connection: Connection) -> None:
    produce = connection.wait(ApiKey.PRODUCE)
    connection.answer([bytes(MAX_HELD_BYTES - 1)])
    assert connection.may_handle
    connection.answer([b"x"])
    assert not connection.may_handle
    connection.fill(produce, [b"a"])  # type: ignore[unreachable]  # a call has changed it since
    assert connection.may_handle


def test_completed_response_counts_while_it_waits_for_earlier_ones(connection: Connection) -> None:
    first, second = connection.wait(ApiKey.PRODUCE), connection.wait(ApiKey.FETCH)
    connection.fill(second, [bytes(MAX_HELD_BYTES)])
    assert not connection.may_handle
    connection.fill(first, [bytes(MAX_HELD_BYTES)])
    assert connection.may_handle


def test_file_slices_do_not_count_as_pending_memory(connection: Connection) -> None:
    class Slice:
        size_bytes = 10 * MAX_HELD_BYTES

    connection.wait(ApiKey.PRODUCE)
    connection.answer([b"head", Slice()])  # type: ignore[list-item]  # stands in for bytes
    assert connection.may_handle


def test_closed_connection_drops_pending_responses() -> None:
    connection = Connection(1, "PLAINTEXT", "127.0.0.1")
    connection.fill(connection.wait(ApiKey.FETCH), None)
    connection.wait(ApiKey.FETCH)
    connection.answer([b"response"])
    connection.close()
    assert connection.closed
    assert connection.in_flight == 0


def test_closing_connection_answers_pending_requests_and_accepts_no_others(connection: Connection) -> None:
    first = connection.wait(ApiKey.PRODUCE)
    connection.answer([b"b"])
    connection.end()
    assert not connection.may_handle
    assert connection.fill(first, [b"a"]) == [b"a", b"b"]
    assert not connection.may_handle
    assert connection.in_flight == 0


def test_failed_request_drops_later_requests(connection: Connection) -> None:
    first, second, third = (connection.wait(ApiKey.PRODUCE) for _ in range(3))
    connection.answer([bytes(MAX_HELD_BYTES)])
    connection.end(second)
    assert (first.dropped, second.dropped, third.dropped) == (False, True, True)
    connection.end(third)
    assert connection.fill(first, [b"a"]) == [b"a"]
    assert connection.in_flight == 0


def test_every_close_callback_runs_once(connection: Connection) -> None:
    reported: list[str] = []
    connection.on_close("sessions", lambda: reported.append("outdated"))
    connection.on_close("sessions", lambda: reported.append("sessions"))
    connection.on_close("quotas", lambda: reported.append("quotas"))
    connection.close()
    assert connection.close() == []
    assert reported == ["sessions", "quotas"]


def test_failing_close_callback_does_not_stop_the_others(connection: Connection) -> None:
    reported: list[str] = []
    bug = ValueError("a bug")

    def fail() -> None:
        raise bug

    connection.on_close("first", fail)
    connection.on_close("second", lambda: reported.append("second"))
    assert connection.close() == [bug]
    assert reported == ["second"]


def test_close_callback_added_after_the_close_runs_at_once(connection: Connection) -> None:
    reported: list[str] = []
    connection.close()
    connection.on_close("sessions", lambda: reported.append("sessions"))
    assert reported == ["sessions"]


def test_a_muted_connection_handles_nothing_until_it_is_unmuted() -> None:
    connection = Connection(1, "PLAINTEXT", "127.0.0.1")
    connection.mute(5.0)
    connection.mute(3.0)
    assert (connection.may_handle, connection.muted_until) == (False, 5.0)
    slot = connection.wait(ApiKey.PRODUCE)  # the request that muted it
    assert connection.fill(slot, [b"response"]) == [b"response"]
    assert not connection.may_handle
    connection.unmute()
    assert connection.may_handle
