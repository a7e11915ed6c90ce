"""Execution in linear time, in steps and with bounded memory."""

from __future__ import annotations

import pytest

from broker.regex import program as module
from broker.regex.classes import CharacterClass
from broker.regex.parser import compile_pattern
from storage.steps import Steps, finish


def turns(steps: Steps[bool]) -> int:
    """Return the number of steps that yielded."""
    return sum(1 for _ in steps)


def test_pattern_that_backtracks_exponentially_elsewhere_takes_linear_time() -> None:
    program = compile_pattern("(a?){30}a{30}(a*)*b")
    assert not finish(program.matches("a" * 5_000))
    assert finish(program.matches("a" * 5_000 + "b"))


def test_work_of_a_large_pattern_is_cut_into_steps() -> None:
    program = compile_pattern("(a?){1000}" * 3)
    assert turns(program.matches("a" * 50)) >= 10


def test_long_text_is_cut_into_steps() -> None:
    assert turns(compile_pattern("a*").matches("a" * 20_000)) == 4


def test_known_transitions_are_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile_pattern("(ab|ac)*")
    assert finish(program.matches("abac"))
    monkeypatch.setattr(program, "_advance", None)
    assert finish(program.matches("abababac"))


def test_states_are_dropped_when_they_hold_too_many_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_KEPT", 100)
    program = compile_pattern(".*a.{20}")
    texts = ["".join("ab"[number >> bit & 1] for bit in range(21)) for number in range(0, 1 << 21, 40_009)]
    assert [finish(program.matches(text)) for text in texts] == [text[0] == "a" for text in texts]
    assert sum(len(state.threads) + 1 for state in program._states.values()) <= 100 + 25


def test_transitions_are_dropped_when_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_KEPT", 100)
    program = compile_pattern(".*")
    assert finish(program.matches("".join(map(chr, range(0x4E00, 0x4E00 + 1_000)))))
    assert sum(len(state.next) for state in program._states.values()) <= 100


def test_class_that_is_repeated_is_tested_once_for_each_character(monkeypatch: pytest.MonkeyPatch) -> None:
    tested = []
    has = CharacterClass.has

    def count(self: CharacterClass, character: str) -> bool:
        tested.append(character)
        return has(self, character)

    monkeypatch.setattr(CharacterClass, "has", count)
    assert finish(compile_pattern("([a-c]?){1000}x").matches("abx"))
    assert tested == ["a", "b", "x"]
