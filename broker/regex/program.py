"""Programs of instructions, and their execution: all threads at once, one character of the text after the other.

A state is the set of instructions at which threads are, and the kind of the character before. States and the
transitions between them are kept as they are computed (a lazy DFA), up to `_MAX_KEPT` instructions and transitions. So
most characters cost one look-up, and none more than one visit of each instruction, and one test of each class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.regex.classes import CharacterClass

if TYPE_CHECKING:
    from storage.steps import Steps

_MAX_KEPT = 200_000
_VISITS_A_STEP = 250
_CHARACTERS_A_STEP = 4_000

BEGIN_TEXT, END_TEXT, BEGIN_LINE, END_LINE, WORD_BOUNDARY, NO_WORD_BOUNDARY = range(6)

# The kinds of the characters before and after a position.
_NONE, _NEWLINE, _WORD, _OTHER = range(4)


class Split(NamedTuple):
    """Go on at both distances from this instruction."""

    first: int
    second: int


class Jump(NamedTuple):
    """Go on at the distance from this instruction."""

    distance: int


class Assertion(NamedTuple):
    """Go on at the next instruction if the position is of the kind."""

    kind: int


Instruction = str | CharacterClass | Split | Jump | Assertion
"""A character and a class go on at the next instruction, after a character that they match."""


class _ThreadSet:
    """The instructions of the threads before a character, and the transitions that are known."""

    __slots__ = ("before", "is_match", "next", "threads")

    def __init__(self, threads: tuple[int, ...], before: int) -> None:
        self.threads = threads
        self.before = before
        self.next: dict[str, _ThreadSet] = {}
        self.is_match: bool | None = None


class Program:
    """A compiled pattern; the threads that are at its end match."""

    def __init__(self, instructions: list[Instruction]) -> None:
        self._code = instructions
        self._states: dict[tuple[tuple[int, ...], int], _ThreadSet] = {}
        self._kept = 0
        self._visits = 0
        self._start = _ThreadSet((0,), _NONE)

    def matches(self, text: str) -> Steps[bool]:
        """Return whether the whole text matches, in steps."""
        state = self._start
        for first in range(0, len(text), _CHARACTERS_A_STEP):
            if first:
                yield None
            for character in text[first : first + _CHARACTERS_A_STEP]:
                following = state.next.get(character)
                if following is None:
                    following = self._advance(state, character)
                    if self._visits > _VISITS_A_STEP:
                        self._visits = 0
                        yield None
                state = following
                if not state.threads:
                    return False
        if state.is_match is None:
            state.is_match = len(self._code) in self._closure(state, _NONE)
        return state.is_match

    def _advance(self, state: _ThreadSet, character: str) -> _ThreadSet:
        kind = _kind_of(character)
        code, end = self._code, len(self._code)
        threads = []
        tested: dict[int, bool] = {}  # by the identity of a class: a repetition has the same one many times
        for at in self._closure(state, kind):
            if at == end:
                continue
            instruction = code[at]
            if isinstance(instruction, CharacterClass):
                has = tested.get(id(instruction))
                if has is None:
                    has = tested[id(instruction)] = instruction.has(character)
                    self._visits += len(instruction.parts)
            else:
                has = instruction == character
            if has:
                threads.append(at + 1)
        following = self._state(tuple(sorted(threads)), kind)
        state.next[character] = following
        return following

    def _closure(self, state: _ThreadSet, after: int) -> set[int]:
        """Return the instructions that the threads reach before the next character, which is of the kind `after`."""
        code, end = self._code, len(self._code)
        reached: set[int] = set()
        todo = list(state.threads)
        while todo:
            at = todo.pop()
            if at in reached:
                continue
            reached.add(at)
            if at == end:
                continue
            instruction = code[at]
            if isinstance(instruction, Split):
                todo += (at + instruction.first, at + instruction.second)
            elif isinstance(instruction, Jump):
                todo.append(at + instruction.distance)
            elif isinstance(instruction, Assertion) and _holds(instruction.kind, state.before, after):
                todo.append(at + 1)
        self._visits += len(reached)
        return reached

    def _state(self, threads: tuple[int, ...], before: int) -> _ThreadSet:
        """Return the state, which gets one more transition; drop all states and transitions if they are too many."""
        if self._kept > _MAX_KEPT:
            for state in self._states.values():
                state.next.clear()
            self._states.clear()
            self._start.next.clear()
            self._kept = 0
        self._kept += 1  # the transition
        found = self._states.get((threads, before))
        if found is None:
            found = self._states[threads, before] = _ThreadSet(threads, before)
            self._kept += len(threads) + 1
        return found


def _kind_of(character: str) -> int:
    if character == "\n":
        return _NEWLINE
    return _WORD if character.isascii() and (character.isalnum() or character == "_") else _OTHER


def _holds(kind: int, before: int, after: int) -> bool:
    if kind == BEGIN_TEXT:
        return before == _NONE
    if kind == END_TEXT:
        return after == _NONE
    if kind == BEGIN_LINE:
        return before in (_NONE, _NEWLINE)
    if kind == END_LINE:
        return after in (_NONE, _NEWLINE)
    return ((before == _WORD) != (after == _WORD)) == (kind == WORD_BOUNDARY)
