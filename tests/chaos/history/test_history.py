"""The checker finds each planted anomaly, and none in histories that Kafka allows.

Histories with transactions are in `test_transactions.py`.
"""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.history.checker import FAILED, MIN_ACKNOWLEDGED, PASSED, UNKNOWN, check
from tests.chaos.history.events import (
    Acknowledged,
    Assigned,
    Event,
    Failed,
    Fault,
    Polled,
    Producer,
    ReadBack,
    Run,
    Send,
    Unknown,
    read,
    write,
)

COUNT = MIN_ACKNOWLEDGED + 10
P = "t-0"


def value(number: int) -> str:
    return f"a-{number}"


def clean() -> list[Event]:
    """One producer, one consumer, one partition: everything sent is acknowledged, polled and read back."""
    records = [(number, value(number)) for number in range(COUNT)]
    return [
        Run({"seed": 1}),
        Producer("a", True),
        Assigned("c", "g", [P]),
        *(Send("a", P, value) for _, value in records),
        Fault("kill 1", 1.5),
        *(Acknowledged("a", P, value, offset) for offset, value in records),
        *(Polled("c", "g", P, [record]) for record in records),
        ReadBack(P, records, True),
    ]


def instead(of: Event, *put: Event) -> list[Event]:
    """Return the clean history with other events in place of one."""
    events = clean()
    at = events.index(of)
    return [*events[:at], *put, *events[at + 1 :]]


def polled(*offsets: int) -> list[Event]:
    return [Polled("c", "g", P, [(offset, value(offset))]) for offset in offsets]


def read_back(change: Callable[[dict[int, str]], object], complete: bool = True) -> list[Event]:
    """Return the clean history with another end."""
    *events, last = clean()
    assert isinstance(last, ReadBack)
    records = dict(last.records)
    change(records)
    return [*events, ReadBack(P, sorted(records.items()), complete)]


def after(*events: Event) -> list[Event]:
    return [*clean(), *events]


PLANTED = {
    "lost write": {
        "acknowledged, and gone": read_back(lambda records: records.pop(5)),
        "acknowledged, and behind the end": read_back(lambda records: records.pop(COUNT - 1)),
        "read, of an unknown outcome, and gone": after(
            Send("a", P, "maybe"), Unknown("a", "maybe"), Polled("c", "g", P, [(COUNT, "maybe")])
        ),
        "passed, in what was read of a partition": read_back(lambda records: records.pop(5), complete=False),
        "acknowledged without an offset": after(Send("a", P, "x"), Acknowledged("a", P, "x", -1)),
    },
    "aborted read": {
        "a record that failed": after(Send("a", P, "x"), Failed("a", "x"), ReadBack(P, [(COUNT, "x")], True)),
    },
    "duplicate": {
        "appended twice": read_back(lambda records: records.update({COUNT: value(5)})),
        "acknowledged elsewhere": after(
            Send("a", P, "x"), Acknowledged("a", P, "x", COUNT), ReadBack(P, [(COUNT + 1, "x")], True)
        ),
        "acknowledged without an offset, and stored twice": after(
            Send("a", P, "x"), Acknowledged("a", P, "x", -1), ReadBack(P, [(COUNT, "x"), (COUNT + 1, "x")], True)
        ),
        "in two partitions": after(Polled("c", "g", "t-1", [(0, value(5))])),
    },
    "inconsistent offsets": {
        "two acknowledged at one": after(Send("a", P, "x"), Acknowledged("a", P, "x", 5)),
        "another read later": after(Send("a", P, "x"), Assigned("c", "g", [P]), Polled("c", "g", P, [(5, "x")])),
    },
    "unsent read": {"never sent": read_back(lambda records: records.update({COUNT: "?"}))},
    "non-monotonic poll": {
        "back": after(*polled(3)),
        "again": instead(polled(5)[0], *polled(5, 5)),
        "back within one poll": after(Assigned("c", "g", [P]), Polled("c", "g", P, [(4, value(4)), (3, value(3))])),
    },
    "skipped poll": {
        "within an assignment": [
            *instead(polled(5)[0]),
            Assigned("d", "g", [P]),
            *polled(5),
        ],
    },
    "non-monotonic send": {
        "swapped": [
            *clean(),
            Send("a", P, "x"),
            Send("a", P, "y"),
            Acknowledged("a", P, "y", COUNT),
            Acknowledged("a", P, "x", COUNT + 1),
            ReadBack(P, [(COUNT, "y"), (COUNT + 1, "x")], True),
        ],
        "swapped, and acknowledged without an offset": [
            *clean(),
            Send("a", P, "x"),
            Send("a", P, "y"),
            Acknowledged("a", P, "x", -1),
            Acknowledged("a", P, "y", COUNT),
            ReadBack(P, [(COUNT, "y"), (COUNT + 1, "x")], True),
        ],
    },
    "unseen": {
        "never polled": instead(polled(COUNT - 1)[0]),
        "acknowledged without an offset, and never polled": after(
            Send("a", P, "x"), Acknowledged("a", P, "x", -1), ReadBack(P, [(COUNT, "x")], True)
        ),
    },
}


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in PLANTED.items() for case in cases], ids=lambda text: text
)
def test_planted_anomaly_is_found(name: str, case: str) -> None:
    verdict = check(PLANTED[name][case])
    assert verdict.outcome == FAILED
    assert name in {anomaly.name for anomaly in verdict.anomalies}


ALLOWED = {
    "everything in order": clean(),
    "a time-out whose record is there": after(Send("a", P, "x"), Unknown("a", "x"), ReadBack(P, [(COUNT, "x")], True)),
    "a time-out whose record is not there": after(Send("a", P, "x"), Unknown("a", "x")),
    "an acknowledgement without an offset": after(
        Send("a", P, "x"),
        Send("a", P, "y"),
        Acknowledged("a", P, "y", COUNT + 1),
        Acknowledged("a", P, "x", -1),
        Polled("c", "g", P, [(COUNT, "x"), (COUNT + 1, "y")]),
        ReadBack(P, [(COUNT, "x"), (COUNT + 1, "y")], True),
    ),
    "a failure": after(Send("a", P, "x"), Failed("a", "x")),
    "another assignment, which begins further back": after(Assigned("c", "g", [P]), *polled(3, 4)),
    "another assignment, which skips": after(Assigned("c", "g", [P]), *polled(3), Assigned("c", "g", [P]), *polled(7)),
    "gaps between records": after(
        Send("a", P, "x"),
        Acknowledged("a", P, "x", COUNT + 3),
        Polled("c", "g", P, [(COUNT + 3, "x")]),
        ReadBack(P, [(COUNT + 3, "x")], True),
    ),
    "a repetition by a producer that is not idempotent": [
        event if not isinstance(event, Producer) else Producer("a", False)
        for event in read_back(lambda records: records.update({COUNT: value(5)}))
    ],
    "two producers in turn": after(
        Producer("b", True),
        Send("b", P, "x"),
        Send("a", P, "y"),
        Acknowledged("a", P, "y", COUNT),
        Acknowledged("b", P, "x", COUNT + 1),
        Polled("c", "g", P, [(COUNT, "y"), (COUNT + 1, "x")]),
        ReadBack(P, [(COUNT, "y"), (COUNT + 1, "x")], True),
    ),
}


@pytest.mark.parametrize("events", ALLOWED.values(), ids=ALLOWED)
def test_allowed_history_passes(events: list[Event]) -> None:
    verdict = check(events)
    assert verdict.anomalies == []
    assert verdict.outcome == PASSED


TOO_LITTLE = {
    "nothing at all": [],
    "too few records": [event for event in clean() if not isinstance(event, Acknowledged)],
    "not read back": [event for event in clean() if not isinstance(event, ReadBack)],
    "a sixth not read back": read_back(
        lambda records: [records.pop(offset) for offset in range(COUNT * 5 // 6, COUNT)], complete=False
    ),
    "nothing polled": [event for event in clean() if not isinstance(event, Polled)],
    "a sixth not polled": [
        event for event in clean() if not isinstance(event, Polled) or event.records[0][0] < COUNT * 5 // 6
    ],
}


@pytest.mark.parametrize("events", TOO_LITTLE.values(), ids=TOO_LITTLE)
def test_short_history_is_unknown(events: list[Event]) -> None:
    verdict = check(events)
    assert verdict.outcome == UNKNOWN
    assert verdict.reason


def test_history_round_trips_through_file() -> None:
    file = io.StringIO()
    for event in clean():
        write(event, file)
    written = check(read(io.StringIO(file.getvalue())))
    assert written == check(clean())
    assert [type(event) for event in read(io.StringIO(file.getvalue()))] == [type(event) for event in clean()]


def test_acknowledgements_without_offset_are_counted() -> None:
    counts = check(ALLOWED["an acknowledgement without an offset"]).counts
    assert counts["of them without offset"] == 1
    assert counts["acknowledged"] == COUNT + 2


def test_truncated_last_line_is_ignored() -> None:
    lines = ['{"event": "Failed", "process": "a", "value": "x"}\n', '{"event": "Fai']
    assert list(read(lines)) == [Failed("a", "x")]
    with pytest.raises(ValueError, match="line 1"):
        list(read(reversed(lines)))


@pytest.mark.parametrize(
    ("events", "status", "reported"),
    [
        (clean(), 0, "passed"),
        (PLANTED["duplicate"]["appended twice"], 1, "duplicate: a-5 is at t-0@5, t-0@110"),
        ([], 2, "unknown: 0 records acknowledged"),
    ],
    ids=["passed", "failed", "unknown"],
)
def test_tool_prints_verdict_of_file(events: list[Event], status: int, reported: str, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with path.open("w") as file:
        for event in events:
            write(event, file)
    command = [sys.executable, "-m", "tests.chaos.history", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert reported in done.stdout
