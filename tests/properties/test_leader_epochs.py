"""The epoch entries against a list of every record's epoch, under appends and truncations."""

from hypothesis import given
from hypothesis import strategies as st

from storage.log.leader_epochs import LeaderEpochs

steps = st.lists(
    st.one_of(
        st.tuples(st.just("lead"), st.integers(1, 3), st.integers(0, 4)),
        st.tuples(st.just("cut end"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("cut start"), st.integers(0, 30), st.just(0)),
    ),
    max_size=25,
)


@given(steps)
def test_entries_equal_a_list_of_each_records_epoch(steps: list[tuple[str, int, int]]) -> None:
    known = LeaderEpochs()
    record_epochs: list[int] = []
    start = epoch = 0
    for step, first, second in steps:
        if step == "lead":
            epoch += first
            known.assign(epoch, len(record_epochs))
            record_epochs += [epoch] * second
        elif step == "cut end":
            end = max(start, min(first, len(record_epochs)))
            del record_epochs[end:]
            known.truncate_from_end(end)
            assert all(entry.start_offset < end for entry in known.entries)
        elif first <= len(record_epochs):
            start = max(start, first)
            known.truncate_from_start(start)

        offsets = range(start, len(record_epochs))
        assert [known.epoch_for_offset(offset) for offset in offsets] == record_epochs[start:]
        assert all(
            a.epoch < b.epoch and a.start_offset < b.start_offset
            for a, b in zip(known.entries, known.entries[1:], strict=False)
        )
        for requested in set(record_epochs[start:]):
            last = max(offset for offset in offsets if record_epochs[offset] <= requested)
            assert known.end_offset_for(requested, len(record_epochs)) == (requested, last + 1)
