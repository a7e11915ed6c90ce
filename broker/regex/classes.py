"""Character classes of RE2/J, and Unicode's simple case folding."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

MAX_RUNE = 0x10FFFF

DIGIT = ((0x30, 0x39),)
SPACE = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))
WORD = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
PERL = {"d": DIGIT, "s": SPACE, "w": WORD}
POSIX = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_CATEGORIES = {
    "C": "cfos",
    "L": "lmotu",
    "M": "cen",
    "N": "dlo",
    "P": "cdefios",
    "S": "ckmo",
    "Z": "lps",
}
CATEGORIES = frozenset(major + minor for major, minors in _CATEGORIES.items() for minor in ("", *minors))
"""The general categories that `\\p{...}` can name. RE2/J also knows scripts, such as Greek, which Python does not."""

# Characters that fold to the key, besides its upper and title case.
_ALSO = {
    "k": "\u212a",
    "s": "\u017f",
    "\xe5": "\u212b",
    "\xdf": "\u1e9e",
    "\u03b2": "\u03d0",
    "\u03b5": "\u03f5",
    "\u03b8": "\u03d1\u03f4",
    "\u03b9": "\u0345\u1fbe",
    "\u03ba": "\u03f0",
    "\u03bc": "\xb5",
    "\u03c0": "\u03d6",
    "\u03c1": "\u03f1",
    "\u03c3": "\u03c2",
    "\u03c6": "\u03d5",
    "\u03c9": "\u2126",
    "\u0432": "\u1c80",
    "\u0434": "\u1c81",
    "\u043e": "\u1c82",
    "\u0441": "\u1c83",
    "\u0442": "\u1c84\u1c85",
    "\u044a": "\u1c86",
    "\u0463": "\u1c87",
    "\u1e61": "\u1e9b",
    "\ua64b": "\u1c88",
}
_WITHOUT_FOLDING = "\u0130\u0131"
"""The dotted capital and the dotless small i: they have case mappings, but no simple folding."""


class Part(NamedTuple):
    """A part of a class: ranges of code points, or a general category; `negated` is the complement."""

    ranges: tuple[tuple[int, int], ...] = ()
    category: str = ""
    negated: bool = False

    def has(self, characters: str) -> bool:
        """Return whether one of the characters, which fold to each other, is in the part."""
        if self.category:
            found = any(unicodedata.category(one).startswith(self.category) for one in characters)
        else:
            found = any(first <= ord(one) <= last for one in characters for first, last in self.ranges)
        return found != self.negated


class CharacterClass(NamedTuple):
    """A set of characters: the union of its parts, or the complement of that."""

    parts: tuple[Part, ...]
    negated: bool = False
    folds_case: bool = False

    def has(self, character: str) -> bool:
        """Return whether the character is in the class."""
        characters = orbit(character) if self.folds_case else character
        return any(part.has(characters) for part in self.parts) != self.negated


ANY = CharacterClass((Part(((0, MAX_RUNE),)),))
ANY_BUT_NEWLINE = CharacterClass((Part(((0, 9), (11, MAX_RUNE))),))


def literal(character: str, *, folds_case: bool) -> CharacterClass | str:
    """Return what matches a character: itself, or a class if others fold to it."""
    if not folds_case or len(orbit(character)) == 1:
        return character
    return CharacterClass(tuple(Part(((ord(one), ord(one)),)) for one in orbit(character)))


@lru_cache(maxsize=4096)
def orbit(character: str) -> str:
    """Return the characters that fold to each other, this one included."""
    if character in _WITHOUT_FOLDING:
        return character
    key = _fold(character)
    return "".join(dict.fromkeys((character, key, *_single(key.upper()), *_single(key.title()), *_ALSO.get(key, ""))))


def _fold(character: str) -> str:
    upper = _single(character.upper()) or character
    return _single(upper.lower()) or upper


def _single(text: str) -> str:
    return text if len(text) == 1 and text not in _WITHOUT_FOLDING else ""
