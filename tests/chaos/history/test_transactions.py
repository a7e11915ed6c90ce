"""The checker finds each planted anomaly of transactions, and none in histories that Kafka allows."""

from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.chaos.history.checker import FAILED, PASSED, UNKNOWN, check
from tests.chaos.history.events import (
    Abort,
    Acknowledged,
    Assigned,
    Commit,
    Committed,
    Event,
    Failed,
    Offsets,
    Polled,
    Producer,
    ReadBack,
    Send,
    Unknown,
)
from tests.chaos.history.index import Transaction

IN, OUT = ("in-0", "in-1"), "out-0"
TRANSACTIONS = 60
GROUP = "pipes"


class Story:
    """A cluster with two input partitions and an output partition, and the history of its clients.

    `stored` is what a read_committed consumer finds in each partition. Offsets of aborted records and of markers are
    gaps.
    """

    def __init__(self) -> None:
        self.events: list[Event] = [Producer("t", True), Producer("p", True), Assigned("p", GROUP, list(IN))]
        self.stored: dict[str, dict[int, str]] = defaultdict(dict)
        self.offsets = dict.fromkeys(IN, 0)
        self._ends: dict[str, int] = defaultdict(int)
        self._unread: dict[str, dict[int, str]] = defaultdict(dict)

    def send(self, process: str, name: str, partition: str, value: str, source: str = "") -> int:
        """Send a record that is acknowledged, and return its offset."""
        offset = self._ends[partition]
        self._ends[partition] += 1
        self.events += [Send(process, partition, value, name, source), Acknowledged(process, partition, value, offset)]
        return offset

    def store(self, partition: str, offset: int, value: str) -> None:
        self.stored[partition][offset] = value
        self._unread[partition][offset] = value

    def write(self, name: str, end: str = "committed", process: str = "t") -> None:
        """Run a transaction of one record to each input partition, and end it as `end` says."""
        values = {partition: f"{process}-{name}-{partition}" for partition in IN}
        offsets = {partition: self.send(process, name, partition, value) for partition, value in values.items()}
        self.events += [Abort(process, name)] if end == "aborted" else [Commit(process, name)]
        if end == "committed":
            self.events.append(Committed(process, name))
        if end in ("committed", "maybe, and stored"):
            for partition, value in values.items():
                self.store(partition, offsets[partition], value)
        for partition in IN:
            self._ends[partition] += 1

    def pipe(self, name: str, commits: bool = True) -> None:
        """Run a pipeline's transaction: one output for each unread input."""
        unread = {partition: dict(self._unread[partition]) for partition in IN}
        made: list[tuple[int, str]] = []
        for partition, records in unread.items():
            self.events.append(Polled("p", GROUP, partition, sorted(records.items()), name))
            names = {f"p-{name}-{value}": value for value in records.values()}
            made += [(self.send("p", name, OUT, output, value), output) for output, value in names.items()]
        if not commits:
            self.events += [Abort("p", name), Assigned("p", GROUP, list(IN))]
            return
        self.events += [Commit("p", name), Committed("p", name)]
        for offset, value in made:
            self.store(OUT, offset, value)
        for partition, records in unread.items():
            self._unread[partition].clear()
            self.offsets[partition] = max(records, default=self.offsets[partition] - 1) + 1
        self._ends[OUT] += 1

    def history(self) -> list[Event]:
        """Return the events and what is read at the end."""
        ends = [ReadBack(partition, sorted(self.stored[partition].items()), True) for partition in (*IN, OUT)]
        return [*self.events, *ends, Offsets(GROUP, self.offsets)]


def story() -> Story:
    """Return committed and aborted transactions, and a pipeline over them that aborts now and then."""
    made = Story()
    for number in range(TRANSACTIONS):
        made.write(str(number), "aborted" if number % 5 == 4 else "committed")
        if number % 3 == 2:
            made.pipe(f"{number}", commits=number % 2 == 1)
    made.pipe("last")
    return made


def planted(change: Callable[[Story], object]) -> list[Event]:
    """Return the history of the story with a change at its end."""
    made = story()
    change(made)
    return made.history()


def stored(value: str, made: Story) -> tuple[str, int]:
    """Return where a value is stored."""
    return next((at, offset) for at, records in made.stored.items() for offset in records if records[offset] == value)


def without(*values: str) -> Callable[[Story], object]:
    """Return a change: the records are not stored, and only the last reader notices."""

    def change(made: Story) -> None:
        for value in values:
            partition, offset = stored(value, made)
            del made.stored[partition][offset]

    return change


def ambiguous(end: str, *lost: str) -> Callable[[Story], object]:
    """Return a change: a commit without a response; the pipeline processes what is stored."""

    def change(made: Story) -> None:
        made.write("x", end)
        without(*lost)(made)
        if end == "maybe, and stored" and not lost:
            made.pipe("after x")

    return change


def store_aborted(made: Story) -> None:
    value = "t-4-in-0"
    made.stored["in-0"][8] = value
    assert Acknowledged("t", "in-0", value, 8) in made.events


def forget_offsets(made: Story) -> None:
    """Acknowledge all records without their offsets."""
    made.events = [event._replace(offset=-1) if isinstance(event, Acknowledged) else event for event in made.events]


def lost_without_offsets(made: Story) -> None:
    without("t-3-in-0", "t-3-in-1")(made)
    forget_offsets(made)


def fenced(made: Story) -> None:
    """A zombie commits although its successor was initialized before."""
    offset = made.send("t", "zombie", "in-0", "zombie")
    made.events.append(Abort("t", "zombie"))
    made.stored["in-0"][offset] = "zombie"


def uncommitted_at_end(made: Story) -> None:
    made.stored["in-0"][made.send("t", "open", "in-0", "open")] = "open"


def read_early(made: Story) -> None:
    made.write("x")
    begin = made.events.index(Commit("t", "x"))
    made.events.insert(begin, Polled("p", GROUP, "in-0", [(stored("t-x-in-0", made)[1], "t-x-in-0")]))
    made.pipe("after x")


def read_own(made: Story) -> None:
    """A transaction reads its own record before it is committed."""
    made.write("x")
    begin = made.events.index(Commit("t", "x"))
    made.events.insert(begin, Polled("t", "", "in-0", [(stored("t-x-in-0", made)[1], "t-x-in-0")], "x"))
    made.pipe("after x")


def output_twice(made: Story) -> None:
    offset = made.send("p", "twice", OUT, "again", "t-7-in-0")
    made.events += [Commit("p", "twice"), Committed("p", "twice")]
    made.stored[OUT][offset] = "again"


def offset_without_output(made: Story) -> None:
    made.write("x")
    made.events += [Polled("p", GROUP, at, [(stored(f"t-x-{at}", made)[1], f"t-x-{at}")]) for at in IN]
    made.offsets = {at: stored(f"t-x-{at}", made)[1] + 1 for at in IN}


def output_without_offset(made: Story) -> None:
    before = dict(made.offsets)
    made.write("x")
    made.pipe("after x")
    made.offsets = before


def output_of_lost_input(made: Story) -> None:
    made.events.append(Send("p", OUT, "of nothing", "x", "nothing"))
    made.events += [Commit("p", "x"), Committed("p", "x")]
    made.stored[OUT][10_000] = "of nothing"


def cycle(made: Story) -> None:
    """Two transactions read each other's records; each read is after the other's request to commit."""
    for process in ("a", "b"):
        made.write("1", process=process)
    for reader, writer in (("a", "b"), ("b", "a")):
        value = f"{writer}-1-in-0"
        made.events.append(Polled(reader, "", "in-0", [(stored(value, made)[1], value)], "1"))
    made.pipe("after 1")


PLANTED = {
    "aborted read": {
        "an aborted record at the end": planted(store_aborted),
        "an aborted record in a poll": planted(
            lambda made: made.events.append(Polled("r", "", "in-0", [(8, "t-4-in-0")]))
        ),
        "a zombie's commit": planted(fenced),
    },
    "intermediate read": {
        "half of a committed transaction": planted(without("t-3-in-0")),
        "half of an ambiguous one": planted(ambiguous("maybe, and stored", "t-x-in-1")),
    },
    "lost write": {
        "a committed transaction": planted(without("t-3-in-0", "t-3-in-1")),
        "a committed transaction that was acknowledged without offsets": planted(lost_without_offsets),
        "an ambiguous one that was read": planted(
            lambda made: (
                ambiguous("maybe, and stored")(made),
                without("t-x-in-0", "t-x-in-1")(made),
            )
        ),
    },
    "duplicate": {"a record stored twice": planted(lambda made: made.stored["in-0"].update({9_999: "t-3-in-0"}))},
    "precommitted read": {
        "before the commit": planted(read_early),
        "in the transaction itself": planted(read_own),
        "never to be committed": planted(uncommitted_at_end),
    },
    "write-read cycle": {"two transactions": planted(cycle)},
    "broken read-process-write": {
        "an output made twice": planted(output_twice),
        "an offset without its output": planted(offset_without_output),
        "an output without its offset": planted(output_without_offset),
        "an output of an input that is not stored": planted(output_of_lost_input),
    },
}


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in PLANTED.items() for case in cases], ids=lambda text: text
)
def test_planted_anomaly_is_found(name: str, case: str) -> None:
    verdict = check(PLANTED[name][case])
    assert verdict.outcome == FAILED
    assert name in {anomaly.name for anomaly in verdict.anomalies}


def test_half_of_a_transaction_is_no_other_anomaly_where_its_commit_is_ambiguous() -> None:
    verdict = check(planted(ambiguous("maybe, and stored", "t-x-in-1")))
    assert {anomaly.name for anomaly in verdict.anomalies} == {"intermediate read"}


def test_cycle_of_write_read_edges_is_printed() -> None:
    (found,) = check(planted(cycle)).anomalies
    assert str(found) == "write-read cycle: a/1 -(a-1-in-0)-> b/1 -(b-1-in-0)-> a/1"


def failed_and_aborted(made: Story) -> None:
    made.events += [Send("t", "in-0", "x", "x"), Send("t", "in-0", "y", "x"), Unknown("t", "x"), Failed("t", "y")]
    made.events.append(Abort("t", "x"))


def chain(made: Story) -> None:
    for number in range(3):
        made.write(str(number), process="a")
        value = f"a-{number}-in-0"
        made.events.append(Polled("a", "", "in-0", [(stored(value, made)[1], value)], str(number + 1)))
    made.pipe("after")


ALLOWED = {
    "everything in order": planted(lambda made: None),
    "records acknowledged without offsets": planted(forget_offsets),
    "an ambiguous commit that happened": planted(ambiguous("maybe, and stored")),
    "an ambiguous commit that did not": planted(ambiguous("maybe, and lost")),
    "an aborted transaction with failed records": planted(failed_and_aborted),
    "a transaction that is left open and times out": planted(lambda made: made.send("t", "open", "in-0", "open")),
    "a chain of reads": planted(chain),
}


@pytest.mark.parametrize("events", ALLOWED.values(), ids=ALLOWED)
def test_allowed_history_passes(events: list[Event]) -> None:
    verdict = check(events)
    assert verdict.anomalies == []
    assert verdict.outcome == PASSED, verdict


def unprocessed() -> list[Event]:
    made = story()
    for number in range(TRANSACTIONS):
        made.write(f"more {number}")
    return made.history()


TOO_LITTLE = {
    "few transactions committed": [
        event for event in planted(lambda made: None) if not isinstance(event, Committed) or event.transaction < "2"
    ],
    "none aborted": [
        event if not isinstance(event, Abort) else Commit(event.process, event.transaction)
        for event in planted(lambda made: None)
    ],
    "half of the input not processed": unprocessed(),
}


@pytest.mark.parametrize("events", TOO_LITTLE.values(), ids=TOO_LITTLE)
def test_short_history_is_unknown(events: list[Event]) -> None:
    verdict = check(events, min_acknowledged=1)
    assert verdict.anomalies == []
    assert verdict.outcome == UNKNOWN
    assert verdict.reason


def test_counts_of_transactions() -> None:
    counts = check(planted(ambiguous("maybe, and lost"))).counts
    aborted_pipes = sum(number % 3 == 2 and number % 2 == 0 for number in range(TRANSACTIONS))
    assert counts["aborted"] == TRANSACTIONS // 5 + aborted_pipes
    assert counts["transactions"] == counts["committed"] + counts["aborted"] + counts["ambiguous commits"]
    assert counts["ambiguous commits"] == 1


def test_transaction_is_named_by_process_and_name() -> None:
    assert str(Transaction("t", "3")) == "t/3"
