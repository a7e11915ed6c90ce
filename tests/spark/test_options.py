"""Options of jobs: which of flag, environment and file wins, and what invalid ones are answered with."""

from argparse import ArgumentTypeError
from dataclasses import fields
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_jobs import JOBS
from spark_jobs.archive import table
from spark_jobs.cluster import Cluster
from spark_jobs.errors import JobError, remedy_of
from spark_jobs.io import Destination
from spark_jobs.options import (
    above_zero,
    addresses,
    duration,
    java_pattern,
    length,
    microseconds,
    parse,
    parser_of,
    seconds,
)
from spark_jobs.quality import QualityOptions
from spark_jobs.source_options import CLIENT_OPTIONS, SOURCE_OPTIONS, VALUES, begins_elsewhere
from spark_jobs.windows import WindowsOptions

NEEDED = ("--checkpoint", "c", "--to", "console")


def parsed(*words: str, **environment: str) -> WindowsOptions:
    return parse(WindowsOptions, parser_of(WindowsOptions, "job", "about", "example"), [*NEEDED, *words], environment)


@pytest.mark.parametrize("name", JOBS)
def test_the_help_says_which_options_may_be_repeated(name: str) -> None:
    options = import_module(f"spark_jobs.{name}").JOB.options
    said = {field.name for field in fields(options) if "may be repeated" in field.metadata["help"]}
    repeated = {field.name for field in fields(options) if field.metadata["repeated"]}
    assert said == (repeated - {"topic"} if name == "table" else repeated)  # a table is of one topic


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
        (("-X", "startingoffsets=latest"), "'startingoffsets' is set by --start of the job"),
        (("-X", "startingOffsets={}", "--start", "latest"), "choose --start or -X startingOffsets, not both"),
        (("-X", "subscribe=a"), "'subscribe' is set by --topic of the job"),
        (("-X", "failOnDatLoss=false"), "source has no option 'failOnDatLoss'; did you mean failOnDataLoss?"),
        (("-X", "security.protocol=SSL"), "no option 'security.protocol'; did you mean kafka.security.protocol?"),
        (("-X", "securty.protocol=SSL"), "no option 'securty.protocol'; did you mean kafka.security.protocol?"),
        (("-X", "failOnDataLoss=no"), "failOnDataLoss is true or false, not 'no'"),
        (
            ("-X", "kafka.isolation.level=nonsense"),
            "kafka.isolation.level is read_committed or read_uncommitted, not 'nonsense'",
        ),
        (("-X", "kafka.security.protocol=SLS"), "not 'SLS'; did you mean SSL?"),
        (("--max-offsets-per-trigger", "0"), "'0': write a number of at least 1"),
        (("--windw", "1 hour"), "there is no option --windw; did you mean --window?"),
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


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[*]", "local[2]", "local[2,3]", "local[*, 1]", "local-cluster[2,1,1024]", "yarn"),
        *("spark://a:7077", "spark://a:7077,b-2.example:7077", "spark://[::1]:7077", "k8s://https://a:6443", "k8s://a"),
    ],
)
def test_masters_of_spark_are_accepted(master: str) -> None:
    assert parsed("--master", master, "--spark-conf", f"spark.master={master}").master == master


@pytest.mark.parametrize(
    ("pattern", "valid"),
    [
        (pattern, True)
        for pattern in (r"a.*", "[]a]", "[^]a]", "[[]a]]", "[a&&[b]]", "[a(]", r"\Q[(\E", r"\[\(", "]", "a|b?")
    ]
    + [
        (pattern, True)
        for pattern in ("(?<a>.)+", "(?i)a", "(?x)a # (\n", "(a|)*", "[*]+", "a*?b++", r"[\]]", r"\\", "a*+")
    ]
    + [(pattern, False) for pattern in ("[x", "(a", "a)", "*a", "(+)", "a|*", "a\\", "[]", "[a[b]", r"\Qa\E(", "?")],
)
def test_patterns_that_are_refused_are_none_of_java(spark: SparkSession, pattern: str, valid: bool) -> None:
    cluster = object.__new__(Cluster)
    cluster._jvm = spark._jvm
    if valid:
        assert cluster._compiled(pattern)
        assert java_pattern(pattern) == pattern
        return
    with pytest.raises(JobError, match="is not one of Java's regular expressions: "):
        cluster._compiled(pattern)
    with pytest.raises(ArgumentTypeError, match="is not one of Java's regular expressions: "):
        java_pattern(pattern)


def test_a_fault_that_only_java_sees_ends_in_a_sentence(spark: SparkSession) -> None:
    cluster = object.__new__(Cluster)
    cluster._jvm = spark._jvm
    assert java_pattern(r"\p{Nothing}")
    with pytest.raises(JobError, match=r"^'.*Nothing.*' is not one of Java's regular expressions: .*Nothing.*$"):
        cluster.matching(r"\p{Nothing}")


def test_a_slip_in_an_option_of_kafka_s_client_is_warned_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    slip = ("kafka.securty.protocol", "SSL")
    assert parsed("-X", "=".join(slip)).kafka == (slip,)
    assert capsys.readouterr().err.splitlines() == [
        "Kafka's client has no option kafka.securty.protocol of its own; did you mean kafka.security.protocol?"
    ]


def test_an_option_that_spark_may_have_in_a_newer_version_is_passed_on_with_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    newer = ("shareAcknowledgements", "true")
    assert parsed("-X", "=".join(newer)).kafka == (newer,)
    warning = "Spark 4.0's Kafka source has no option shareAcknowledgements, and ignores it"
    assert capsys.readouterr().err.splitlines() == [warning]


def test_options_of_sources_clients_and_plug_ins_are_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    given = [f"{name}=1" for name in SOURCE_OPTIONS if not begins_elsewhere(name) and name.lower() not in VALUES]
    given += [
        "KAFKA.group.id=g",
        "kafka.my.interceptor.url=x",
        "kafka.security.protocol=sasl_ssl",
        "FAILONDATALOSS=False",
    ]
    given += ['startingOffsets={"a":{"0":5}}']
    words = [word for one in given for word in ("-X", one)]
    assert [f"{key}={value}" for key, value in parsed(*words).kafka] == given
    assert capsys.readouterr().err == ""


def test_the_options_of_kafka_s_client_are_those_of_the_connector(spark: SparkSession) -> None:
    clients = cast("Any", spark._jvm).org.apache.kafka.clients
    configs = (clients.consumer.ConsumerConfig, clients.producer.ProducerConfig, clients.admin.AdminClientConfig)
    names = {name for config in configs for name in config.configNames() if not name.startswith("internal.")}
    assert names == CLIENT_OPTIONS


def test_an_option_that_an_executor_refuses_ends_in_a_sentence() -> None:
    text = "[STREAM_FAILED] Query failed\nNo enum constant org.apache.kafka.common.IsolationLevel.NONSENSE"
    assert (remedy_of(Exception(text)) or "").startswith("Kafka's client refuses an option of -X: No enum constant")


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


def error_of(capsys: pytest.CaptureFixture[str], *words: str, **environment: str) -> str:
    """Return the message with which invalid options end."""
    parser = parser_of(WindowsOptions, "job", "about", "example")
    with pytest.raises(SystemExit) as end:
        parse(WindowsOptions, parser, words, environment, elsewhere=lambda: [QualityOptions])
    assert end.value.code == 2
    return capsys.readouterr().err.splitlines()[-1].removeprefix("job: error: ")


def test_misspelt_flags_are_named_with_the_most_similar_one(capsys: pytest.CaptureFixture[str]) -> None:
    # Also where what is misspelt is required.
    assert error_of(capsys, "--chekpoint", "c", "--to", "console") == (
        "there is no option --chekpoint; did you mean --checkpoint?"
    )
    assert error_of(capsys, *NEEDED, "--max-offset-per-trigger=9") == (
        "there is no option --max-offset-per-trigger; did you mean --max-offsets-per-trigger?"
    )
    assert error_of(capsys, *NEEDED, "--qqq") == "there is no option --qqq"
    assert error_of(capsys, *NEEDED, "--key", "page", "size") == (
        "there is no argument size: put quotes around a value with spaces"
    )


def test_misspelt_keys_of_a_file_are_named_with_the_most_similar_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.yaml"
    for text, message in (
        ("chekpoint: c\nto: console\n", "there is no option 'chekpoint'; did you mean checkpoint?"),
        ("max_offsets_per_trigger: 9\n", "'max_offsets_per_trigger'; did you mean max-offsets-per-trigger?"),
        ("qqq: 1\n", "there is no option 'qqq'"),
        ("5: 1\n", "there is no option '5'"),
        ("- a\n", "write an option a line, such as 'window: 5 minutes'"),
        ("", "write an option a line, such as 'window: 5 minutes'"),
    ):
        file.write_text(text)
        printed = error_of(capsys, "--config", str(file))
        assert printed.startswith(f"{file}: "), printed
        assert printed.endswith(message)


def test_a_file_that_cannot_be_read_is_named_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    call = ("--config", str(file))
    assert error_of(capsys, *call) == f"the file {file} cannot be read: No such file or directory; correct --config"
    file.write_bytes(b"\xff")
    assert error_of(capsys, *call) == f"the file {file} cannot be read: not UTF-8: invalid start byte; correct --config"
    file.write_text("window: 1 hour\ntopic: [a\n")
    assert (
        error_of(capsys, *call) == f"{file} is not YAML: line 3, column 1: expected ',' or ']', but got '<stream end>'"
    )


def test_misspelt_variables_are_named_with_the_most_similar_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(capsys, "--to", "console", BARNABAS_SPARK_CHEKPOINT="c") == (
        "there is no variable BARNABAS_SPARK_CHEKPOINT; did you mean BARNABAS_SPARK_CHECKPOINT?"
    )
    assert "did you mean BARNABAS_SPARK_LATENESS?" in error_of(capsys, *NEEDED, BARNABAS_SPARK_LATENES="1 hour")


def test_variables_of_other_jobs_and_of_kubernetes_are_ignored_and_others_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    others = {"PORT": "tcp://10.0.0.1:7077", "PORT_7077_TCP": "x", "SERVICE_HOST": "x", "REPORT": "r", "JARS": "/j"}
    environment = {f"BARNABAS_SPARK_{name}": value for name, value in others.items()}
    parser = parser_of(WindowsOptions, "job", "about", "example")
    parse(WindowsOptions, parser, NEEDED, environment, elsewhere=lambda: [QualityOptions])
    assert capsys.readouterr().err == ""
    parse(WindowsOptions, parser, NEEDED, {"BARNABAS_SPARK_QQQ": "1"})
    assert capsys.readouterr().err == "ignored: the variable BARNABAS_SPARK_QQQ is of no option\n"


def test_empty_variables_count_as_unset() -> None:
    parser = parser_of(WindowsOptions, "job", "about", "example")
    names = ("BARNABAS_BROKERS", "BARNABAS_SPARK_TRIGGER", "BARNABAS_SPARK_MIN_PARTITIONS", "BARNABAS_SPARK_CHEKPOINT")
    options = parse(WindowsOptions, parser, NEEDED, dict.fromkeys(names, ""))
    assert (options.brokers, options.trigger, options.min_partitions) == ("127.0.0.1:9092", "1 second", None)


def test_a_number_above_0() -> None:
    assert above_zero("0.5") == 0.5
    for wrong in ("fast", "0", "-1", "inf", "nan"):
        with pytest.raises(ArgumentTypeError, match="write a number above 0"):
            above_zero(wrong)


def test_addresses_are_host_and_port() -> None:
    for right in ("127.0.0.1:9092", "a:1, b:2", "[::1]:9092", "SSL://kafka-1.example.com:9093"):
        assert addresses(right) == right
    for wrong in ("", "a", "a:", ":9092", "a:b", "a:1,,b:2", "a:1 b:2"):
        with pytest.raises(ArgumentTypeError, match="write HOST:PORT"):
            addresses(wrong)


@pytest.mark.parametrize(
    ("text", "microseconds_"),
    [
        ("5 minutes", 300_000_000),
        ("0 seconds", 0),
        ("1 Day  2 hours", 93_600_000_000),
        ("interval 1 week", 604_800_000_000),
        ("0.5 seconds", 500_000),
        ("1 millisecond 1 microsecond", 1001),
    ],
)
def test_intervals_are_those_of_spark(spark: SparkSession, text: str, microseconds_: int) -> None:
    assert microseconds(text) == microseconds_
    times = spark.sql("SELECT TIMESTAMP '2026-01-01 00:00:00' AS time")
    times.withWatermark("time", text).schema  # noqa: B018 - Spark reads the interval
    if microseconds_:
        [(window,)] = times.select(f.window("time", text)).collect()
        assert window.end - window.start == timedelta(microseconds=microseconds_)


@pytest.mark.parametrize(
    "text", ["5", "5minutes", "1.5 minutes", "minutes", "5 min", "-1 minute", "1 minute30 seconds"]
)
def test_other_intervals_are_refused_before_spark_reads_them(text: str) -> None:
    for parse_interval in (duration, length):
        with pytest.raises(ArgumentTypeError, match="write an interval such as '5 minutes'"):
            parse_interval(text)
    with pytest.raises(ArgumentTypeError, match="longer than 0"):
        length("0 minutes")
