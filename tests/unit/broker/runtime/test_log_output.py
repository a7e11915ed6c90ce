import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from broker.runtime import log_output


@pytest.fixture(autouse=True)
def restored_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    flags = logging.logThreads, logging.logProcesses, logging.logMultiprocessing
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.logThreads, logging.logProcesses, logging.logMultiprocessing = flags


def test_text_is_one_line_with_time_level_and_logger() -> None:
    stream = io.StringIO()
    log_output.configure("info", "text", stream)
    logging.getLogger("broker.test").warning("disk is %d %% full", 90)
    line = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING broker\.test: disk is 90 % full\n"
    assert re.fullmatch(line, stream.getvalue())


def test_json_is_one_object_a_line() -> None:
    stream = io.StringIO()
    log_output.configure("info", "json", stream)
    logging.getLogger("broker.test").info('topic "%s"\ncreated', "flüge")
    event = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event.pop("time"))
    assert event == {"level": "info", "logger": "broker.test", "message": 'topic "flüge"\ncreated'}


def test_json_carries_the_traceback_in_the_same_line() -> None:
    stream = io.StringIO()
    log_output.configure("info", "json", stream)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        logging.getLogger("broker.test").exception("failed")
    assert stream.getvalue().count("\n") == 1
    assert "RuntimeError: boom" in json.loads(stream.getvalue())["exception"]


def test_events_below_the_level_are_dropped() -> None:
    stream = io.StringIO()
    log_output.configure("warning", "text", stream)
    logging.getLogger("broker.test").info("chatter")
    assert stream.getvalue() == ""


def test_text_of_clients_in_a_message_cannot_forge_a_line() -> None:
    stream = io.StringIO()
    log_output.configure("info", "text", stream)
    logging.getLogger("broker.test").error(
        "Produce of %s failed\tonce", "a\n2026-01-01 WARNING forged\x1b[2J\x85\u2028é"
    )
    text = stream.getvalue()
    assert text.endswith("failed\tonce\n")
    assert "a\\n2026-01-01 WARNING forged\\x1b[2J\\x85\\u2028é" in text


def test_traceback_keeps_its_lines() -> None:
    stream = io.StringIO()
    log_output.configure("info", "text", stream)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        logging.getLogger("broker.test").exception("failed")
    assert stream.getvalue().endswith("\nRuntimeError: boom\n")


def test_clients_text_is_quoted_in_printable_ascii_and_cut() -> None:
    assert log_output.quoted('a"\n\u2028\x1b') == r'"a\"\n\u2028\u001b"'
    assert log_output.quoted("x" * 256) == f'"{"x" * 256}"'
    assert log_output.quoted("x" * 257) == f'"{"x" * 256}..."'
