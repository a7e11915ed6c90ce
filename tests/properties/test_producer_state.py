"""Producer state is a function of the log, and of any snapshot of it with the batches around it."""

from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import BatchHeader, EndTxnMarker
from storage.log.producer_snapshot import decode_snapshot, encode_snapshot
from storage.log.producer_state import ProducerStateManager

Logged = tuple[BatchHeader, EndTxnMarker | None]

# (producer, action, sequence or number of steps back, record count)
actions = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from(["next", "next", "next", "again", "anything", "bump", "stale", "begin", "commit", "abort"]),
        st.integers(0, 7),
        st.integers(1, 3),
    ),
    max_size=60,
)


def header(at: int, producer: int, epoch: int, sequence: int, count: int, attributes: int) -> BatchHeader:
    return BatchHeader(at, 0, 0, 2, 0, attributes, count - 1, at, at, producer, epoch, sequence, count)


def window(log: list[Logged], producer: int) -> tuple[int | None, list[BatchHeader]]:
    """Return a producer's epoch and its data batches in that epoch, from the whole log."""
    mine = [batch for batch, _ in log if batch.producer_id == producer]
    epoch = mine[-1].producer_epoch if mine else None
    since = next((at + 1 for at in reversed(range(len(mine))) if mine[at].producer_epoch != epoch), 0)
    return epoch, [batch for batch in mine[since:] if not batch.is_control]


def open_transactions(log: list[Logged]) -> dict[int, int]:
    """Return producer -> first offset of its open transaction."""
    found: dict[int, int] = {}
    for batch, marker in log:
        if marker is not None:
            found.pop(batch.producer_id, None)
        elif batch.is_transactional:
            found.setdefault(batch.producer_id, batch.base_offset)
    return found


def verdict(log: list[Logged], batch: BatchHeader) -> object:
    """Return the expected result of a batch: None to append it, the offset of its duplicate, or an error."""
    epoch, mine = window(log, batch.producer_id)
    if epoch is None:
        return None
    if batch.producer_epoch < epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if batch.producer_epoch > epoch:
        mine = []
    for old in mine[-5:]:
        if (old.base_sequence, old.record_count) == (batch.base_sequence, batch.record_count):
            first = open_transactions(log).get(batch.producer_id)
            of_ended = batch.is_transactional and (first is None or old.base_offset < first)
            return ErrorCode.INVALID_TXN_STATE if of_ended else old.base_offset
    if batch.base_sequence != (mine[-1].last_sequence + 1 if mine else 0):
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    if batch.producer_id in open_transactions(log) and not batch.is_transactional:
        return ErrorCode.INVALID_TXN_STATE
    return None


def answer(state: ProducerStateManager, batch: BatchHeader) -> object:
    try:
        repeated = state.check(batch)
    except KafkaError as error:
        return error.code
    return None if repeated is None else repeated.base_offset


def play(actions: list[tuple[int, str, int, int]]) -> tuple[ProducerStateManager, list[Logged]]:
    state, log = ProducerStateManager(), list[Logged]()
    for producer, action, number, count in actions:
        at = state.end_offset
        known, mine = window(log, producer)
        epoch = known or 0
        in_transaction = producer in open_transactions(log) or action == "begin"
        if action in ("commit", "abort"):
            entry = header(at, producer, epoch + number % 2, -1, 1, 0x30), EndTxnMarker(action == "commit", number)
            log.append(entry)
            state.update(*entry)
            continue
        sequence = mine[-1].last_sequence + 1 if mine else 0
        if action == "again" and mine:
            sequence, count = mine[-(number % len(mine)) - 1][11:13]
        elif action == "anything":
            sequence = number
        elif action == "bump":
            epoch, sequence = epoch + 1, number // 4
        elif action == "stale":
            epoch = max(epoch - 1, 0)
        batch = header(at, producer, epoch, sequence, count, 0x10 * in_transaction)
        expected = verdict(log, batch)
        assert answer(state, batch) == expected
        if expected is None:
            log.append((batch, None))
            state.update(batch)
    return state, log


def contents(state: ProducerStateManager) -> object:
    return (
        state.end_offset,
        state.first_unstable_offset,
        {
            producer: (entry.epoch, entry.coordinator_epoch, entry.last_timestamp, entry.txn_first_offset)
            for producer, entry in state.producers.items()
        },
        {producer: [batch[:3] for batch in entry.batches] for producer, entry in state.producers.items()},
    )


@given(actions)
def test_producer_checks_equal_a_scan_of_the_log(actions: list[tuple[int, str, int, int]]) -> None:
    state, log = play(actions)
    state.high_watermark_moved(state.end_offset)
    assert state.first_unstable_offset == min(open_transactions(log).values(), default=None)


@given(actions=actions, high_watermarks=st.lists(st.integers(0, 180)).map(sorted))
def test_first_unstable_offset_is_that_of_the_first_transaction_without_a_marker_below_the_high_watermark(
    actions: list[tuple[int, str, int, int]], high_watermarks: list[int]
) -> None:
    state, log = play(actions)
    for high_watermark in high_watermarks:
        state.high_watermark_moved(high_watermark)
        begun = open_transactions([one for one in log if one[1] is None or one[0].base_offset < high_watermark])
        assert state.first_unstable_offset == min(begun.values(), default=None)


@given(actions=actions, cut=st.integers(0, 60), back=st.integers(0, 60))
def test_a_snapshot_and_the_log_around_it_equal_a_full_scan(
    actions: list[tuple[int, str, int, int]], cut: int, back: int
) -> None:
    full, log = play(actions)
    cut = min(cut, len(log))
    before = ProducerStateManager()
    for logged, marker in log[:cut]:
        before.update(logged, marker)

    restored = decode_snapshot(encode_snapshot(before), before.end_offset)
    restored.refill(batch for batch, _ in log[max(0, cut - back) : cut])
    windows = {producer: entry.batches for producer, entry in before.producers.items()}
    for producer, entry in restored.producers.items():
        assert [batch[:3] for batch in entry.batches] == [batch[:3] for batch in windows[producer]][
            -len(entry.batches) or 5 :
        ]

    restored.refill(batch for batch, _ in log[:cut])
    for logged, marker in log[cut:]:
        restored.update(logged, marker)
    full.high_watermark_moved(full.end_offset)
    restored.high_watermark_moved(full.end_offset)
    assert contents(restored) == contents(full)
