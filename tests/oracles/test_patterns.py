"""Which patterns are valid and what they match, against RE2/J in Apache Kafka's jars."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

from broker.regex.parser import PatternSyntaxError, compile_pattern
from storage.steps import finish
from tests.oracles.apache_kafka import JVM, kafka_classpath

PATTERNS = Path(__file__).parent / "java" / "Patterns.java"
COUNT = 3_000

ATOMS = (
    *(
        "a",
        "b",
        "k",
        "K",
        "s",
        "é",
        "É",
        "ß",
        "\u017f",
        "\u212a",
        "-",
        "_",
        " ",
        "0",
        "7",
        "\n",
        "&",
        "~",
        ",",
        ":",
        "=",
        "#",
    ),
    *(".", "^", "$", "|", "(", ")", "*", "+", "?", "**", "+?", "??", "*?", "{", "}", "{2}", "{,3}", "{1,2}", "{0}"),
    *("{2,1}", "{1001}", "{01}", "[", "]", "[^", "[a-c]", "[a-", "[^\\d]", "[[:alpha:]]", "[[:^alpha:]x]", "[[:foo:]]"),
    *(
        "\\d",
        "\\D",
        "\\w",
        "\\W",
        "\\s",
        "\\S",
        "\\pL",
        "\\PL",
        "\\p{Lu}",
        "\\p{^Lu}",
        "\\P{^Nd}",
        "\\p{Any}",
        "\\p{Foo}",
    ),
    *("\\b", "\\B", "\\A", "\\z", "\\Z", "\\C", "\\Q", "\\E", "\\Q*a\\E", "\\x41", "\\x{e9}", "\\x", "\\x{110000}"),
    *("\\101", "\\1", "\\8", "\\0", "\\08", "\\n", "\\t", "\\a", "\\v", "\\.", "\\-", "\\_", "\\é", "\\"),
    *("(?i)", "(?i:", "(?-i)", "(?s)", "(?m)", "(?U)", "(?ims-U:", "(?-)", "(?i-)", "(?P<n>", "(?P<m>", "(?<n>"),
    *("(?P<>", "(?=", "(?:", "(?!"),
)
TEXTS = (
    *(
        "",
        "a",
        "b",
        "ab",
        "aa",
        "aab",
        "abab",
        "k",
        "K",
        "\u017f",
        "s",
        "S",
        "\u212a",
        "é",
        "É",
        "ß",
        "ẞ",
        "A",
        "-",
        "_",
        "0",
    ),
    *(
        "7",
        "42",
        "a b",
        " ",
        "\n",
        "a\n",
        "\na",
        "a\nb",
        "[",
        "]",
        "{",
        "}",
        "*",
        "*a",
        "a{,3}",
        "{01}",
        "x",
        "e9",
        "?",
    ),
    *("ñ", "Ω", "٣", "ab-0", "\\", "\t", "aaaa", "bbbb", "B", "\x07", "a-", "a]"),
)


def patterns() -> list[str]:
    random = Random(1)
    lengths = (2, 4, 7, 10)
    return ["".join(random.choices(ATOMS, k=random.randint(1, random.choice(lengths)))) for _ in range(COUNT)]


def ours(pattern: str) -> list[str]:
    try:
        program = compile_pattern(pattern)
    except PatternSyntaxError:
        return ["invalid"] + ["false"] * len(TEXTS)
    return ["valid", *(str(finish(program.matches(text))).lower() for text in TEXTS)]


def theirs(tried: Sequence[str]) -> list[list[str]]:
    lines = "".join(f"P{one}\0" + "".join(f"T{text}\0" for text in TEXTS) for one in tried)
    stdin = lines.replace("\n", "\x01").replace("\0", "\n")
    command = [*JVM, "-Dfile.encoding=UTF-8", "-cp", kafka_classpath(), str(PATTERNS)]
    done = subprocess.run(command, input=stdin.encode(), stdout=subprocess.PIPE, check=True)
    answers = done.stdout.decode().splitlines()
    size = len(TEXTS) + 1
    return [answers[at : at + size] for at in range(0, len(answers), size)]


def test_patterns_are_valid_and_match_as_in_re2j() -> None:
    tried = patterns()
    expected = theirs(tried)
    assert sum(answers[0] == "valid" for answers in expected) > COUNT / 4
    differ = [one for one, answers in zip(tried, expected, strict=True) if ours(one) != answers]
    assert not differ
