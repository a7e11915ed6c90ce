"""The report of the job `quality`: shares, drift, and the page."""

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quality_page import page, plots, tiles
from spark_jobs.quality_report import Drift, FieldCount, Named, TopicQuality, WindowQuality, age, by_topic
from spark_jobs.wording import counted

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def window(hour: int, fields: dict[str, dict[str, int]] | None = None, **changes: object) -> WindowQuality:
    """Return a window of ten objects; `fields` has how often each field has each type."""
    counts = [FieldCount(name, kind, n) for name, types in (fields or {}).items() for kind, n in types.items()]
    made = {"records": 10, "fields": tuple(sorted(counts)), "identified": 10, "identities": 10, **changes}
    return WindowQuality("orders", NOON + hour * HOUR, NOON + (hour + 1) * HOUR, **made)  # type: ignore[arg-type]


def test_completeness_is_the_share_of_objects_with_a_field_that_is_not_null() -> None:
    one = window(0, {"id": {"number": 8}, "note": {"string": 2, "null": 6}}, nulls=1, malformed=1)
    assert one.objects == 8
    assert [one.completeness(name) for name in ("id", "note", "absent")] == [1.0, 0.25, 0.0]
    assert window(0, records=3, nulls=3).completeness("id") is None
    two = window(1, {"id": {"number": 2}})
    assert {f.name: f.completeness for f in TopicQuality([one, two]).fields()} == {"id": 10 / 18, "note": 2 / 18}


def test_repeated_identities_are_counted() -> None:
    topic = TopicQuality([window(0, identities=7), window(1)])
    assert (topic.duplicates, topic.uniqueness) == (3, 1 - 3 / 20)
    assert TopicQuality([window(0, identified=0, identities=0)]).uniqueness is None


def test_the_share_of_the_largest_key_is_of_records_with_keys() -> None:
    one = window(0, null_keys=2, top_keys=(Named("a", 6), Named(None, 2), Named("b", 2)))
    assert one.largest_key_share == 6 / 8
    assert window(0, null_keys=10).largest_key_share is None
    assert TopicQuality([one, one]).top_keys(1) == [Named("a", 12)]


def test_a_partition_is_compared_with_the_mean() -> None:
    topic = TopicQuality([window(0, partitions=(Named("0", 9), Named("10", 2), Named("2", 1)))])
    assert topic.partitions() == [Named("0", 9), Named("2", 1), Named("10", 2)]
    assert topic.partition_skew() == 9 / 4


def test_windows_without_records_are_counted() -> None:
    assert TopicQuality([window(5), window(0), window(2)]).empty_windows == 3


def test_drift_names_fields_that_appear_vanish_and_change_their_type() -> None:
    topic = TopicQuality(
        [
            window(0, {"id": {"number": 10}, "old": {"string": 10}, "sparse": {"string": 1}, "note": {"null": 10}}),
            window(1, {"id": {"number": 10}, "old": {"string": 10}, "note": {"string": 10}}),
            window(2, {"id": {"number": 9, "string": 1}, "new": {"object<a: number>": 10}, "sparse": {"string": 1}}),
            window(
                3,
                {
                    "id": {"string": 10},
                    "new": {"object<a: string>": 10},
                    "sparse": {"string": 1},
                    "note": {"string": 1},
                },
            ),
            window(4, records=2, malformed=2),
        ]
    )
    assert topic.drift() == [
        Drift(NOON + 2 * HOUR, "id", "number becomes string"),
        Drift(NOON + 2 * HOUR, "new", "appears as object<a: number>"),
        Drift(NOON + 2 * HOUR, "old", "is missing"),
        Drift(NOON + 3 * HOUR, "new", "object<a: number> becomes object<a: string>"),
    ]


def test_topics_are_apart() -> None:
    windows = [window(0), WindowQuality("clicks", NOON, NOON + HOUR, 5), window(1)]
    assert [(topic.topic, topic.records) for topic in by_topic(windows)] == [("clicks", 5), ("orders", 20)]


def test_an_age_is_in_its_largest_unit() -> None:
    spans = [timedelta(seconds=5), timedelta(minutes=1), timedelta(hours=3, minutes=9), timedelta(days=4321)]
    assert [age(span) for span in spans] == ["5 s", "1 minute", "3 hours", "4,321 days"]


names = st.text(max_size=30)
named = st.lists(st.builds(Named, st.none() | names, st.integers(1, 9)), max_size=4).map(tuple)
summaries = st.builds(
    WindowQuality,
    names,
    st.just(NOON),
    st.just(NOON + HOUR),
    st.integers(1, 10**12),
    top_keys=named,
    partitions=named,
    fields=st.lists(st.builds(FieldCount, names, names, st.integers(1, 9)), max_size=4).map(tuple),
    mean_delay_s=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    newest=st.none() | st.just(NOON),
)


@given(summaries)
def test_a_window_is_the_same_after_it_was_stored(stored: WindowQuality) -> None:
    text = stored.text()
    assert "\n" not in text
    assert WindowQuality.parse(text) == stored


class Tags(HTMLParser):
    """Collects the tags of a page with their attributes, and checks that they are nested."""

    VOID = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


HOSTILE = "<script>alert('$x^2$')</script>"


def test_the_page_needs_no_other_file_and_runs_no_code_of_the_records() -> None:
    windows = [
        window(
            hour,
            {HOSTILE: {HOSTILE: 5}, "$": {"number": 9}},
            top_keys=(Named(HOSTILE, 9),),
            identities=9,
            mean_delay_s=1.0,
        )
        for hour in range(3)
    ]
    text = page(windows, now=NOON, unique=HOSTILE)
    tags = Tags(text).found
    assert {"html", "svg", "table"} <= {tag for tag, _ in tags}
    assert not {"script", "link", "iframe", "img"} & {tag for tag, _ in tags}
    outside = [value for _, attributes in tags for name, value in attributes.items() if name in ("src", "href")]
    assert not [value for value in outside if value]
    linked = [value or "" for _, attributes in tags for name, value in attributes.items() if name == "xlink:href"]
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in linked)
    assert "&lt;script&gt;alert" in text
    assert "100 %" not in re.findall(r"<b>(.*?)</b>", text)[3]


def test_a_page_without_windows_says_so() -> None:
    assert "No window is complete yet" in page([], now=NOON, unique="")


def test_only_plots_with_something_to_show_are_drawn() -> None:
    plain = [plot.title for plot in plots(TopicQuality([window(0, {"id": {"number": 10}})]))]
    assert plain == ["Records in each window", "Completeness of fields"]
    full = window(
        0, {"id": {"number": 10}}, identities=9, top_keys=(Named("a", 9),), mean_delay_s=1.0, longest_delay_s=2.0
    )
    assert [plot.title for plot in plots(TopicQuality([full]))] == [
        "Records in each window",
        "Completeness of fields",
        "Most frequent keys",
        "Share of the largest key",
        "Repeated records",
        "Delay in seconds",
    ]
    for empty in (window(0, nulls=10), window(0)):  # objects without fields
        assert [plot.title for plot in plots(TopicQuality([empty]))] == ["Records in each window"]


def test_a_record_of_a_distant_time_does_not_make_the_plots_large() -> None:
    far = [window(0, {"id": {"number": 10}}), window(24 * 365 * 900, {"id": {"number": 5}})]
    assert sum(len(plot.svg) for plot in plots(TopicQuality(far))) < 300_000


def test_a_report_is_about_the_last_windows() -> None:
    [topic] = by_topic([window(hour) for hour in range(5)], 2)
    assert [one.start for one in topic.windows] == [NOON + 3 * HOUR, NOON + 4 * HOUR]


def test_one_window_is_no_plural() -> None:
    assert [counted(number, "window") for number in (0, 1, 1200)] == ["0 windows", "1 window", "1,200 windows"]
    assert counted(2, "micro-batch") == "2 micro-batches"
    [topic] = by_topic([window(0)])
    assert next(tile.note for tile in tiles(topic, NOON, "") if tile.label == "Records").endswith(" in 1 window")


def test_tiles_warn_of_stale_and_malformed_records() -> None:
    bad = TopicQuality([window(0, malformed=1, nulls=1, newest=NOON)])
    levels = {tile.label: (tile.value, tile.level) for tile in tiles(bad, NOON + 5 * HOUR, "")}
    assert levels["Malformed"] == ("10 %", "bad")
    assert levels["Newest record"] == ("5 hours old", "warn")
    assert levels["Unique"] == ("100 %", "good")
    almost = TopicQuality([window(0, records=10**6, malformed=1, newest=NOON)])
    assert tiles(almost, NOON, "")[1].value == "< 0.01 %"
