"""Options of jobs: which of flag, environment and file wins, and what invalid ones are answered with."""

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from spark_jobs.archive import table
from spark_jobs.io import Destination
from spark_jobs.options import parse, parser_of, seconds
from spark_jobs.windows import WindowsOptions

NEEDED = ("--checkpoint", "c", "--to", "console")


def parsed(*words: str, **environment: str) -> WindowsOptions:
    return parse(WindowsOptions, parser_of(WindowsOptions, "job", "about", "example"), [*NEEDED, *words], environment)


def test_defaults() -> None:
    options = parsed()
    assert options.brokers == "127.0.0.1:9092"
    assert (options.topic, options.kafka, options.available_now) == ((), (), False)
    assert options.to == Destination("console", "")


def test_flags_precede_variables_precede_the_file_precedes_defaults(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("window: 1 hour\nslide: 2 hours\nlateness: 3 hours\nmax-offsets-per-trigger: 9\n")
    variables = {"BARNABAS_SPARK_SLIDE": "2 days", "BARNABAS_SPARK_LATENESS": "3 days"}
    options = parsed("--config", str(file), "--lateness", "3 weeks", **variables)
    assert (options.window, options.slide, options.lateness) == ("1 hour", "2 days", "3 weeks")
    assert options.max_offsets_per_trigger == 9


def test_lists_of_a_file_are_replaced_by_flags(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("topic: [a, b]\nkafka: [kafka.security.protocol=SSL]\navailable-now: true\n")
    assert parsed("--config", str(file)).topic == ("a", "b")
    options = parsed("--config", str(file), "-t", "c")
    assert options.topic == ("c",)
    assert options.kafka == (("kafka.security.protocol", "SSL"),)
    assert options.available_now


def test_brokers_are_those_of_all_commands() -> None:
    assert parsed(BARNABAS_BROKERS="a:1").brokers == "a:1"
    assert parsed("-b", "b:2", BARNABAS_BROKERS="a:1").brokers == "b:2"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--to", "table:x"),
            "'table:x': write topic:NAME, parquet:DIR, delta:DIR, iceberg:DIR, jdbc:URL#TABLE or console",
        ),
        (("-X", "no-value"), "'no-value': write KEY=VALUE"),
        (("--max-offsets-per-trigger", "0"), "'0': write a number of at least 1"),
        (("--windw", "1 hour"), "unrecognized arguments: --windw"),
        (("--config", "/nonexistent.yaml"), "/nonexistent.yaml"),
    ],
)
def test_invalid_options_are_named(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parsed(*words)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_the_help_has_the_defaults_that_are_not_empty() -> None:
    text = " ".join(parser_of(WindowsOptions, "job", "about", "example").format_help().split())
    assert "length of a window (default: 1 minute)" in text
    assert "(default: )" not in text


def test_archive_names_the_tables_that_it_writes() -> None:
    with pytest.raises(ArgumentTypeError, match=r"^'csv:x': write parquet:DIR or delta:DIR$"):
        table("csv:x")


def test_required_options_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(WindowsOptions, parser_of(WindowsOptions, "job", "about", "example"), [], {})
    assert "required: --checkpoint, --to" in capsys.readouterr().err


def test_intervals_are_in_seconds() -> None:
    texts = ["1 second", "5 minutes", "1 hour 30 minutes", "2days", "1 week"]
    assert [seconds(text) for text in texts] == [1, 300, 5400, 172_800, 604_800]


@pytest.mark.parametrize(
    "text", ["", "5", "minutes", "5 m", "0 seconds", "1 hour or so", "1 hour 5 fortnights", "-1 hour", "1.5 hours"]
)
def test_other_intervals_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="write an interval such as '5 minutes'"):
        seconds(text)
