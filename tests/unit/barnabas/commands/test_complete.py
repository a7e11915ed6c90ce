"""Completion candidates for an incomplete command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.barnabas.conftest import Command, Shown


def offered(call: Callable[..., Shown], *words: str) -> list[str]:
    shown = call("complete", *words)
    assert (shown.status, shown.err) == (0, "")
    return [line.partition("\t")[0] for line in shown.lines]


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["to"], ["topic", "token"]),
        (["se"], ["serve"]),
        (["u"], ["up", "user"]),
        (["up", "--exit"], ["--exit-with-parent"]),
        (["topic", "de"], ["describe", "delete"]),
        (["cluster", "q"], ["quorum"]),
        (["cluster", "--j"], ["--json"]),
        (["produce", "t", "-z", "l"], ["lz4"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["topic", "trim", "--dr"], ["--dry-run"]),
        (["topic", "create", ""], []),
        (["nonsense", ""], []),
        (["topic", "nonsense", ""], []),
    ],
)
def test_commands_options_and_choices(
    call: Command, words: list[str], candidates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARNABAS_BROKERS", "127.0.0.1:1")
    found = call("complete", *words)
    assert found.err == ""
    assert [line.partition("\t")[0] for line in found.lines] == candidates


def test_option_candidates_have_a_description(call: Command) -> None:
    assert call("complete", "topic", "delete", "--dry").out == "--dry-run\tonly print what would be deleted\n"


def test_option_description_equals_its_help(call: Command) -> None:
    assert "(default: 2.0)" in call("complete", "topic", "delete", "--time").out


def test_topics_and_groups_are_completed_from_the_broker(barnabas: Command, topic: str) -> None:
    barnabas("produce", f"{topic}-a", stdin=b"x\n")
    barnabas("topic", "create", f"{topic}-b")
    barnabas("consume", f"{topic}-a", "-g", f"{topic}-g", "-e")
    assert offered(barnabas, "topic", "describe", topic) == [f"{topic}-a", f"{topic}-b"]
    assert offered(barnabas, "consume", "-e", f"{topic}-a") == [f"{topic}-a"]
    assert offered(barnabas, "group", "describe", topic) == [f"{topic}-g"]
    assert offered(barnabas, "consume", "t", "--group", topic) == [f"{topic}-g"]
    assert f"topic/{topic}-b" in offered(barnabas, "config", "get", "topic/")
    assert offered(barnabas, "produce", topic) == [f"{topic}-a", f"{topic}-b"]
    assert offered(barnabas, "produce", "t", topic) == []  # a file: the shell's own completion


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["serve", "--eph"], ["--ephemeral"]),
        (["serve", "--log-level", "w"], ["warning"]),
        (["serve", "-D", "log.retention.h"], ["log.retention.hours="]),
        (["serve", "-Dlog.retention.h"], ["-Dlog.retention.hours="]),
        (["up", "-D", "num.part"], ["num.partitions="]),
        (["topic", "create", "t", "-c", "retention.m"], ["retention.ms="]),
        (["topic", "alter", "t", "--reset", "retention.m"], ["retention.ms"]),
        (["config", "set", "topic/t", "retention.m"], ["retention.ms="]),
        (["config", "get", "broker/1", "num.part"], ["num.partitions"]),
        (["config", "set", "brokers", "log.retention.h"], ["log.retention.hours="]),
    ],
)
def test_options_of_serve_and_names_of_settings(call: Command, words: list[str], candidates: list[str]) -> None:
    assert offered(call, *words) == candidates
