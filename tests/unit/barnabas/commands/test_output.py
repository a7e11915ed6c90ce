from __future__ import annotations

import argparse
import io
import json
import sys

import pytest
from kafka import errors

from barnabas.commands._output import (
    Report,
    amount_of,
    cell,
    explain,
    explain_code,
    plain,
    print_facts,
    print_table,
    show,
    size_text,
)


def test_columns_fit_their_widest_cell_and_numbers_are_right_aligned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("name", "log_end"), [{"name": "a", "log_end": 1}, {"name": "longer", "log_end": None}])
    assert capsys.readouterr().out == "NAME    LOG-END\na             1\nlonger        -\n"


def test_a_table_without_rows_is_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "n"), [])
    assert capsys.readouterr().out == "NAME  N\n"


def test_facts_are_printed_one_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"id": "x", "log_end": 3})
    assert capsys.readouterr().out == "ID       x\nLOG-END  3\n"


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (True, "yes"), (False, "no"), ([1, 2], "1,2"), ([], "-"), (0, "0"), ("", "")]
)
def test_value_is_formatted_for_the_table(value: list[int] | int | str | None, shown: str) -> None:
    assert cell(value) == shown


def test_names_of_others_neither_begin_a_line_nor_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "User:a\nALLOW User:b\x1b[2J\x9b\u202eé"
    print_table(("principal",), [{"principal": name}])
    Report(argparse.Namespace(command="acl add", json=False)).done("added", name)
    shown = "User:a\\nALLOW User:b\\x1b[2J\\x9b\\u202eé"
    assert capsys.readouterr().out == f"PRINCIPAL\n{shown}\nadded {shown}\n"


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.977 KiB"),
        (1536, "1.5 KiB"),
        (20 << 30, "20 GiB"),
        (3 << 60, "3.07e+03 PiB"),
    ],
)
def test_a_size_has_a_unit(size_bytes: int, shown: str) -> None:
    assert size_text(size_bytes) == shown


def test_partition_without_a_leader_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("partition", "leader"), [{"partition": 0, "leader": -1}])
    assert capsys.readouterr().out.splitlines()[1].split() == ["0", "none"]


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False)],
)
def test_problems_are_red_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, environment: dict[str, str], coloured: bool
) -> None:
    class Output(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", output := Output())
    print_table(("n",), [{"n": 1}, {"n": 2}], wrong=lambda row: row["n"] == 2)
    print_facts({"good": 1, "bad": 2}, wrong={"bad"})
    red = ["\x1b[31m2\x1b[0m", "\x1b[31mBAD   2\x1b[0m"]
    plain_text = ["2", "BAD   2"]
    assert output.getvalue().splitlines()[2::2] == (red if coloured else plain_text)
    assert output.getvalue().splitlines()[1::2] == ["1", "GOOD  1"]


def test_json_output_has_all_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show(argparse.Namespace(json=True), ("a",), [{"a": None, "b": "ü"}])
    assert json.loads(capsys.readouterr().out) == [{"a": None, "b": "ü"}]


def test_text_report_prints_line_by_line_and_fails_if_an_item_failed(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(argparse.Namespace(command="topic create", json=False))
    report.done("created", "a", "well", partitions=1)
    report.failed("b", "no")
    assert report.end() == 1
    assert capsys.readouterr() == ("created a: well\n", "barnabas topic create: b: no\n")


def test_json_report_is_printed_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(argparse.Namespace(command="topic create", json=True))
    report.done("created", "a", "well", partitions=1)
    assert report.end() == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "a", "result": "created", "partitions": 1}]


def test_client_error_is_printed_without_its_class() -> None:
    assert explain(errors.GroupAuthorizationFailedError("not yours")) == "not yours"


def test_unsupported_request_is_explained() -> None:
    assert (explain(errors.IncompatibleBrokerVersion("X")) or "").startswith("the broker does not support this")


def test_unknown_error_without_message_refers_to_the_broker_log() -> None:
    assert explain(errors.UnknownError()) == "the broker failed to do this; see its log"
    assert explain(errors.UnknownError("the disk is gone")) == "the disk is gone"


def test_other_exceptions_are_not_explained() -> None:
    assert explain(ValueError("a bug")) is None


@pytest.mark.parametrize(
    ("text", "observed"),
    [
        ("[Error 37] InvalidPartitionsError: only 3: no more", "only 3: no more"),
        ("[Error 35] IncompatibleBrokerVersion: no", "no"),
        ("KafkaTimeoutError: late", "late"),
        (
            "KafkaError: Could not execute transactional request for unknown reasons: "
            "[Error 7] RequestTimedOutError: late",
            "late",
        ),
        ("just: words", "just: words"),
    ],
)
def test_error_class_names_of_the_client_are_omitted(text: str, observed: str) -> None:
    assert plain(text) == observed


def test_message_of_the_broker_is_preferred_to_the_text_of_its_code() -> None:
    assert explain_code(37, "would be no increase") == "would be no increase"
    assert explain_code(3, None) == "there is no such topic or partition"
    assert explain_code(31_000, None) == str(errors.UnknownError.description)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.TopicAuthorizationFailedError({"orders"}), "this user is not authorized to access topic orders; `barn"),
        (errors.TopicAuthorizationFailedError({"b", "a"}), "this user is not authorized to access topics a, b; `barn"),
        (errors.GroupAuthorizationFailedError("g"), "this user is not authorized to access group g; `barnabas acl add"),
        (
            errors.GroupAuthorizationFailedError("FindCoordinatorResponse error for GROUP/my own: Group refused."),
            "this user is not authorized to access group my own; `barnabas acl add` can allow it",
        ),
        (errors.TopicAuthorizationFailedError("Topic authorization failed."), "Topic authorization failed."),
        (
            errors.GroupAuthorizationFailedError(),
            "Returned by the broker when the client is not authorized to access a",
        ),
    ],
)
def test_refused_topics_and_groups_are_named(error: Exception, message: str) -> None:
    assert (explain(error) or "").startswith(message)


def test_one_is_singular() -> None:
    assert (amount_of(1, "record"), amount_of(0, "record")) == ("1 record", "0 records")


def test_operation_that_a_command_needs_is_named() -> None:
    assert explain(errors.TopicAuthorizationFailedError({"a b", "a"}), {"topic": "READ"}) == (
        "this user is not authorized: it needs READ on topic a, a b "
        "(`barnabas acl add --allow-principal User:NAME --operation READ --topic a --topic 'a b'`)"
    )
