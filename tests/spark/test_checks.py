"""What is refused before Spark starts: each job is given options, and a JAVA_HOME on which Spark would not start."""

import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import JOBS
from spark_jobs.job import Job

STREAM = ("-t", "orders", "--checkpoint", "c")
VALID = {
    "archive": (*STREAM, "--to", "parquet:out"),
    "mirror": (*STREAM, "--to-brokers", "127.0.0.1:9192"),
    "replay": (*STREAM, "--to", "{topic}-copy"),
    "windows": (*STREAM, "--to", "console", "--lateness", "0 seconds", "--trigger", "1 minute 0.5 seconds"),
    "sessions": (*STREAM, "--to", "topic:visits"),
    "join": (*STREAM, "--to", "topic:paid", "--with", "payments"),
    "table": (
        *STREAM,
        "--to",
        "delta:out",
        "--schema",
        "id long, `a, b`: array<struct<c:int>> NOT NULL, d decimal(9,2)",
    ),
    "validate": STREAM,
    "redrive": STREAM,
    "metrics": (*STREAM, "--to", "topic:roll-ups"),
    "quality": ("-t", "orders", "--report", "report.html"),
}
TO = "write topic:NAME, parquet:DIR, delta:DIR, iceberg:DIR, jdbc:URL#TABLE or console"
USAGE, FAILED = 2, 1
# Job, words behind the valid ones, and message.
WRONG = [
    ("archive", "--to|csv:out", "--to: 'csv:out': write parquet:DIR or delta:DIR"),
    ("archive", "--to|parquet:", "--to: 'parquet:': write parquet:DIR"),
    ("archive", "--to|topic:out", "'topic:out': write parquet:DIR or delta:DIR"),
    ("archive", "--trigger|often", "--trigger: 'often': write an interval such as '5 minutes'"),
    ("archive", "--keep-merged|-1", "--keep-merged"),
    ("archive", "--file-size|big", "'big': write a number of at least 1"),
    ("archive", "--brokers|localhost", "'localhost': write HOST:PORT, several with commas"),
    ("archive", "--checkpoint|", "--checkpoint: the value is empty"),
    ("archive", "--start|yesterday", "--start: 'yesterday': write earliest, latest, or a time such as 2026-01-"),
    ("archive", "--topic-pattern|o.*", "name the topics by --topic or by --topic-pattern, not by both"),
    ("archive", "--config|absent.yaml", "absent.yaml"),
    ("archive", "--master|nonsense", "--master: 'nonsense': write a master of Spark, such as local[2], spark://"),
    ("archive", "--master|spark://host", "--master: 'spark://host': write a master of Spark"),
    ("archive", "--master|local[x]", "--master: 'local[x]': write a master of Spark"),
    ("archive", "--spark-conf|spark.master=local[0]", "--spark-conf: 'local[0]': write a master of Spark"),
    ("archive", "--topic-pattern|[x", "--topic-pattern: '[x' is not one of Java's regular expressions: a '['"),
    ("mirror", "--groups|(a", "--groups: '(a' is not one of Java's regular expressions: a '(' without its ')'"),
    ("mirror", "--to-brokers|nowhere", "'nowhere': write HOST:PORT"),
    ("mirror", "-t|b|--to|all", "--to all would mix 2 topics: write {topic} in it"),
    ("replay", "--start|0:5", "--start: '0:5': write earliest, a time such as 2026-01-31T12:00, or offsets of"),
    ("replay", "--end|earliest", "--end: 'earliest': write latest, a time"),
    ("replay", "--pace|0", "--pace: '0': write a number above 0"),
    ("replay", "--rate|5|--pace|1", "choose --rate or --pace"),
    ("replay", "--archive|jdbc:x#y", "--archive: 'jdbc:x#y': write parquet:DIR or delta:DIR"),
    ("replay", "--to|{topic}", "orders would be replayed into itself: name another topic"),
    ("windows", "--window|5", "--window: '5': write an interval such as '5 minutes'"),
    ("windows", "--window|0 minutes", "longer than 0"),
    ("windows", "--window|1.5 minutes", "--window: '1.5 minutes': write an interval"),
    ("windows", "--slide|1 fortnight", "--slide: '1 fortnight': write an interval"),
    (
        "windows",
        "--slide|2 minutes",
        "--slide '2 minutes' leaves out records between the windows of '1 minute'",
    ),
    ("windows", "--lateness|-1 minute", "--lateness"),
    ("windows", "--to|topics:x", f"'topics:x': {TO}; did you mean topic?"),
    ("windows", "--late|somewhere", f"--late: 'somewhere': {TO}"),
    ("windows", "--late|topic:x|--to|topic:x", "--late would mix with --to"),
    ("windows", "--to|topic:orders", "the job would read its own results from orders"),
    ("windows", "--late|topic:orders", "the job would read its own results from orders"),
    ("windows", "--min-partitions|0", "'0': write a number of at least 1"),
    ("sessions", "--gap|long", "--gap: 'long': write an interval"),
    ("sessions", "--to|topic:orders", "the job would read its own results from orders"),
    ("join", "--within|1 our", "--within: '1 our': write an interval"),
    ("join", "--table|users", "choose --with TOPIC or --table TOPIC: a job joins with one of them"),
    ("join", "--to|topic:payments", "the job would read its own results from payments"),
    ("table", "--to|console", "'console': write delta:DIR, iceberg:DIR, jdbc:URL#TABLE or parquet:DIR"),
    ("table", "--schema|id", "--schema: 'id': write a name and a type for each column"),
    (
        "table",
        "--schema|id long, name sting",
        "--schema: 'name sting': Spark has no type sting; did you mean string?",
    ),
    ("table", "-t|more", "a table is of one topic"),
    ("table", "--envelope|debezum", "invalid choice: 'debezum'"),
    ("validate", "--schema|absent.json", "the schema absent.json cannot be read: No such file or directory"),
    ("validate", "--schema|broken.json", "broken.json is not JSON"),
    ("validate", "--format|avro", "avro needs a schema"),
    (
        "validate",
        "--dead-letters|orders",
        "orders, its good records and its dead letters need topics of their own",
    ),
    ("redrive", "--delay|soon", "--delay: 'soon': write an interval"),
    ("redrive", "--factor|-2", "--factor"),
    ("redrive", "--factor|0", "--factor: '0': write a number above 0"),
    ("redrive", "--parked|{topic}", "the job would read the parked letters of orders"),
    ("metrics", "--granularities|1min", "--granularities: '1min': write an interval"),
    ("metrics", "--rules|rules.yaml", "alerts need both --rules FILE and --alerts TOPIC"),
    ("metrics", "--granularities|1 minute, 90 seconds", "90 seconds is not a multiple of 1 minute"),
    ("metrics", "--rules|misspelt.yaml|--alerts|a", "rule slow: there is no key evry; did you mean every?"),
    ("metrics", "--rules|absent.yaml|--alerts|a", "the rules absent.yaml cannot be read: No such file or directory;"),
    ("metrics", "--pattern|(?<ms>.*)|--value|s", "--pattern has no group 's'"),
    ("metrics", "--picture|p.gif", "--picture p.gif: write a name that ends in .png or .svg"),
    ("metrics", "--alerts|orders|--rules|rules.yaml", "the job would read its own results from orders"),
    ("metrics", "--alerts|roll-ups|--rules|rules.yaml", "--alerts would mix with --to"),
    ("quality", "--window|hourly", "--window: 'hourly': write an interval"),
    ("quality", "--report|absent/report.html", "the directory of --report does not exist"),
    ("quality", "--start|latest", "--start latest leaves nothing to report on"),
    ("quality", "--to|topic:orders|--checkpoint|c", "the job would read its own results from orders"),
    ("quality", "--to|console", "--to needs --checkpoint"),
]
# Jobs without the last of their required options.
MISSING = {
    "archive": "--to",
    "windows": "--to",
    "sessions": "--to",
    "join": "--to",
    "table": "--schema",
    "metrics": "--to",
}


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Start in an empty directory with a JAVA_HOME that has no Java; return what a job says when it starts Spark."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("BARNABAS_SPARK_JARS", str(tmp_path / "jars"))
    return f"JAVA_HOME is {tmp_path}, where no bin/java is"


def job(name: str) -> Job[Any]:
    found: Job[Any] = import_module(f"spark_jobs.{name}").JOB
    return found


def status(name: str, *words: str) -> int:
    try:
        return job(name).main(words)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize("name", JOBS)
def test_a_valid_call_starts_spark(no_spark: str, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert status(name, *VALID[name]) == FAILED
    assert no_spark in capsys.readouterr().err


@pytest.mark.parametrize(("name", "words", "message"), WRONG)
def test_a_wrong_option_ends_a_job_before_spark_starts(
    no_spark: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    name: str,
    words: str,
    message: str,
) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "rules.yaml").write_text("rules: [{name: slow, when: mean > 100}]")
    (tmp_path / "misspelt.yaml").write_text("rules: [{name: slow, evry: 1 hour, when: mean > 100}]")
    ended = status(name, *VALID[name], *words.split("|"))
    printed = capsys.readouterr().err
    assert message in printed
    assert no_spark not in printed
    assert ended == USAGE
    assert not (tmp_path / "jars").exists()


def test_a_missing_package_is_no_wrong_option(
    no_spark: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "order.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    assert status("validate", *STREAM, "--schema", "order.json") == FAILED
    assert "jsonschema-rs is not installed: pip install 'barnabas[formats]'" in capsys.readouterr().err


def test_a_join_needs_another_stream_or_table(no_spark: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("join", *VALID["join"][:-2]) == USAGE
    assert "name the other stream by --with TOPIC, or the table by --table TOPIC" in capsys.readouterr().err


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_option_ends_a_job_before_spark_starts(
    no_spark: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    at = VALID[name].index(MISSING[name])
    assert status(name, *VALID[name][:at], *VALID[name][at + 2 :]) == USAGE
    printed = capsys.readouterr().err
    assert f"the following arguments are required: {MISSING[name]}" in printed
    assert no_spark not in printed


@pytest.mark.parametrize("name", JOBS)
def test_topics_are_named_before_spark_starts(no_spark: str, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert status(name, *VALID[name][2:]) == USAGE
    printed = capsys.readouterr().err
    assert "name the topics by --topic NAME" in printed or "name it by --topic NAME" in printed
    assert no_spark not in printed


@pytest.mark.parametrize("name", JOBS)
def test_the_kinds_of_to_are_those_of_the_job(no_spark: str, capsys: pytest.CaptureFixture[str], name: str) -> None:
    kinds = {"archive": "parquet:DIR or delta:DIR", "table": "delta:DIR, iceberg:DIR, jdbc:URL#TABLE or parquet:DIR"}
    listed = kinds.get(name, TO.removeprefix("write "))
    with pytest.raises(SystemExit):
        job(name).parsed(["--help"])
    helped = " ".join(capsys.readouterr().out.split())
    if "{topic}" in helped:
        return  # a name of topics
    assert f": {listed}" in helped
    assert status(name, *VALID[name], "--to", "nothing:x") == USAGE
    assert f"'nothing:x': write {listed}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [("-m", "barnabas", "spark", "run", "windows"), ("-m", "spark_jobs.windows")], ids=["barnabas", "module"]
)
def test_both_commands_check_first(no_spark: str, command: tuple[str, ...]) -> None:
    wrong = [sys.executable, *command, *VALID["windows"], "--slide", "1 hour"]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        wrong, capture_output=True, text=True, check=False, env={"PYTHONPATH": root, "JAVA_HOME": "/"}
    )
    assert (done.returncode, done.stderr.startswith("windows: --slide '1 hour' leaves out records")) == (2, True), done


def test_a_master_that_is_away_is_named_before_spark_waits_for_it(
    no_spark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        with socket.create_server(("127.0.0.1", 0)) as closed:
            away = f"127.0.0.1:{closed.getsockname()[1]}"
        for words in (("--master", f"spark://{away}"), ("--spark-conf", f"spark.master=spark://{away}")):
            assert status("windows", *VALID["windows"], *words) == FAILED
            line = f"windows: no master answers at spark://{away} yet: Spark tries for about a minute\n"
            assert capsys.readouterr().err.startswith(line)
        for master in (f"spark://{there}", f"spark://{away},{there}", "local[2]"):
            assert status("windows", *VALID["windows"], "--master", master) == FAILED
            assert "no master answers" not in capsys.readouterr().err


def test_submit_checks_first_unless_the_driver_runs_elsewhere(no_spark: str) -> None:
    from barnabas.commands._output import CommandError, WrongCall
    from barnabas.commands.spark.submit import pass_on

    words = ["validate", *STREAM, "--schema", "absent.json"]
    with pytest.raises(WrongCall, match=r"the schema absent\.json cannot be read"):
        pass_on(words)
    with pytest.raises(CommandError, match="JAVA_HOME is"):
        pass_on(["--deploy-mode", "cluster", *words])
