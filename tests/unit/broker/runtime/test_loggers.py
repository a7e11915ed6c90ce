"""Levels of the process's loggers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from broker.runtime import loggers

NAME = "broker.test_loggers.child"


@pytest.fixture(autouse=True)
def _child() -> Iterator[None]:
    child, parent = logging.getLogger(NAME), logging.getLogger("broker.test_loggers")
    yield
    child.setLevel(logging.NOTSET)
    parent.setLevel(logging.NOTSET)


def test_a_logger_has_its_parent_s_level_until_it_has_its_own() -> None:
    loggers.set_level("broker.test_loggers", "ERROR")
    assert loggers.levels()[NAME] == "ERROR"
    loggers.set_level(NAME, "TRACE")
    assert loggers.levels()[NAME] == "TRACE"
    loggers.set_level(NAME, None)
    assert loggers.levels()[NAME] == "ERROR"


@pytest.mark.parametrize(
    ("level", "name"), [(1, "TRACE"), (10, "DEBUG"), (25, "INFO"), (30, "WARN"), (45, "ERROR"), (99, "FATAL")]
)
def test_numeric_level_between_names_is_named_by_lower_one(level: int, name: str) -> None:
    logging.getLogger(NAME).setLevel(level)
    assert loggers.levels()[NAME] == name


def test_root_is_logger_but_placeholder_is_not() -> None:
    assert loggers.exists("root")
    assert loggers.exists(NAME)
    logging.getLogger("nowhere.at.all")
    assert not loggers.exists("nowhere.at")
    assert "nowhere.at" not in loggers.levels()
    assert next(iter(loggers.levels())) == "root"
