from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from broker.monitoring.exposition import counter, gauge, labels, lines, table

ROWS = [(labels(topic="a"), {"in": 1, "lag": None}), (labels(topic='b"\\\n'), {"in": 2.5, "lag": 7})]
TABLE = table(
    lambda _: ROWS,
    counter("bytes_total", "Bytes.", itemgetter("in")),
    gauge("lag", "Lag.", itemgetter("lag")),
)


def test_samples_of_a_metric_are_grouped_under_its_type() -> None:
    assert "".join(lines([TABLE._replace(rows=lambda _: ROWS[:1])], None)) == (  # type: ignore[arg-type]  # not used here
        "# HELP bytes_total Bytes.\n"
        "# TYPE bytes_total counter\n"
        'bytes_total{topic="a"} 1\n'
        "# HELP lag Lag.\n"
        "# TYPE lag gauge\n"
    )


def test_prometheus_parser_reads_the_page() -> None:
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families("".join(lines([TABLE], None)))  # type: ignore[arg-type]  # not used here
        for sample in family.samples
    }
    assert found == {("bytes_total", "a"): 1, ("bytes_total", 'b"\\\n'): 2.5, ("lag", 'b"\\\n'): 7}


def test_rows_are_generated_lazily() -> None:
    made = []

    def rows(_: None) -> Iterator[tuple[str, int] | None]:
        for number in range(10):
            made.append(number)
            yield labels(number=number), number

    page = lines([table(rows, gauge("n", "N.", float))], None)  # type: ignore[arg-type]  # narrower than what may come: only this comes here
    for _ in range(4):
        next(page)
    assert made == [0, 1]


def test_a_path_that_ends_early_has_no_row() -> None:
    node: Any = SimpleNamespace(broker=None, shared=SimpleNamespace(count=7))
    tables = [table("broker.count", gauge("a", "A.")), table("shared", gauge("b", "B.", "count"), by="c d")]
    assert [line for line in lines(tables, node) if line[0] != "#"] == ["b 7\n"]
    assert tables[1].labels == ("c", "d")
