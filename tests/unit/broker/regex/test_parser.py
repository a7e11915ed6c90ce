"""The syntax of RE2/J; `tests/oracles/test_patterns.py` compares with the original."""

from __future__ import annotations

import pytest

from broker.regex.parser import MAX_DEPTH, MAX_INSTRUCTIONS, MAX_LENGTH, PatternSyntaxError, compile_pattern
from storage.steps import finish


def matches(pattern: str, text: str) -> bool:
    return finish(compile_pattern(pattern).matches(text))


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("payments-.*", ["payments-", "payments-1"], ["payments", "my-payments-1", "payments-\n"]),
        ("a|bc|", ["", "a", "bc"], ["b", "abc"]),
        ("(a|b)+c?", ["a", "abac"], ["", "c", "acc"]),
        ("a{2}b{0,1}c{1,}", ["aac", "aabcc"], ["ac", "aabbc", "aa"]),
        ("(ab){2,3}?", ["abab", "ababab"], ["ab", "abababab"]),
        ("(a*)*", ["", "aa"], ["b"]),
        ("x{,3}", ["x{,3}"], ["xxx"]),
        ("[^a-c\\d-]", ["d", "\n"], ["b", "7", "-", "dd"]),
        ("[]a]+", ["]a"], ["b"]),
        ("[[:alpha:][:^ascii:]]+", ["aé"], ["1"]),
        ("\\w\\W\\s\\S", ["a- x"], ["ax y"]),
        ("\\p{Lu}\\PN", ["ÉA"], ["éA", "É1"]),
        ("(?i)k(?-i)k", ["kk", "Kk", "\u212ak"], ["kK"]),
        ("((?i)a)b", ["ab", "Ab"], ["aB"]),
        ("(?i:[x-z])\\Q.*\\E", ["Y.*"], ["Yab"]),
        ("(?i)[^k]", ["a"], ["k", "K", "\u212a"]),
        ("(?s)a.b", ["a\nb"], ["ab"]),
        ("(?m)a$\\n^b", ["a\nb"], ["ab"]),
        ("a$b", [], ["a\nb", "ab"]),
        ("\\Aa\\b-\\Bc\\z", [], ["a-c"]),
        ("\\Aa\\b-\\bc\\z", ["a-c"], ["ac"]),
        ("\\x41\\x{1F600}\\101\\0\\n\\.", ["A\U0001f600A\0\n."], ["A"]),
        ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
    ],
)
def test_pattern_matches_whole_texts(pattern: str, matching: list[str], other: list[str]) -> None:
    program = compile_pattern(pattern)
    assert [text for text in matching + other if finish(program.matches(text))] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "a)", "(a", "[", "[a", "[b-a]", "[[:nosuch:]]", "\\", "\\8", "\\1", "\\C", "\\Z", "\\E", "[\\b]"),
        *("*", "|+", "(?", "(*a)", "a**", "a+?*", "a{2}{3}", "{*", "a{1001}", "a{2,1}", "\\x{110000}", "\\xg", "\\pX"),
        *("\\p{Lu", "\\p{Greek}", "(?=a)", "(?-)", "(?i-)", "(?P<n>a)(?P<n>b)", "(?P<>a)", "(?<=a)"),
    ],
)
def test_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternSyntaxError):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "a" * (MAX_LENGTH + 1),
        "(a{1000}){11}",
        "(((a{10}){10}){10}){11}",
        "(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1),
        "a{1000}" * (MAX_INSTRUCTIONS // 1000 + 1),
    ],
)
def test_pattern_above_a_limit_is_refused(pattern: str) -> None:
    with pytest.raises(PatternSyntaxError):
        compile_pattern(pattern)


def test_deep_pattern_within_the_limit_is_compiled() -> None:
    depth = MAX_DEPTH - 1
    assert matches("(" * depth + "a" + ")" * depth, "a")


def test_repetitions_of_empty_groups_are_compiled() -> None:
    assert matches("(((((){1000}){1000}){1000}){1000})*a", "a")


def test_code_of_nested_groups_and_alternatives_is_in_order() -> None:
    assert matches("((a|b(c|d){2}|)e|f){3}", "bcdefae")
    assert not matches("((a|b(c|d){2}|)e|f){3}", "bcefae")
