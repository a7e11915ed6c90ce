import pytest

from storage.properties import PropertiesError, format_properties, parse_properties


def values(text: str) -> dict[str, str]:
    return {key: value for key, (value, _) in parse_properties(text).items()}


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a = b ", "a", "b "),
        ("  a:b", "a", "b"),
        ("a b", "a", "b"),
        ("a\t=\tb", "a", "b"),
        ("a==b", "a", "=b"),
        ("a", "a", ""),
        ("a=", "a", ""),
        ("a.b=host:9092,host2:9093", "a.b", "host:9092,host2:9093"),
        (r"a\=b\:c\ d = e", "a=b:c d", "e"),
        (r"a=\ b\\\t\n\q", "a", " b\\\t\nq"),
        (r"a=\u00e9\uD83D\uDE00", "a", "\u00e9\U0001f600"),
        ("=b", "", "b"),
    ],
)
def test_one_line(line: str, key: str, value: str) -> None:
    assert values(line) == {key: value}


def test_comments_and_blank_lines_are_ignored() -> None:
    assert values("# a=1\n\n  ! b=2\n \t \nc=3\n") == {"c": "3"}


def test_a_backslash_at_the_end_joins_lines_without_the_next_ones_indent() -> None:
    assert values("fruits = apple, \\\n    banana, \\\r\n  pear\nx=1") == {"fruits": "apple, banana, pear", "x": "1"}


def test_two_backslashes_at_the_end_are_one_and_join_nothing() -> None:
    assert values("a=b\\\\\nc=d") == {"a": "b\\", "c": "d"}


def test_a_continued_line_may_look_like_a_comment() -> None:
    assert values("a=b\\\n#c") == {"a": "b#c"}


def test_a_file_may_end_in_a_continuation() -> None:
    assert values("a=b\\") == {"a": "b"}


def test_last_of_two_values_is_used() -> None:
    assert parse_properties("a=1\n\na=2\n") == {"a": ("2", 3)}


def test_value_has_its_first_line_number() -> None:
    assert parse_properties("#\na=1\\\n2\nb=3") == {"a": ("12", 2), "b": ("3", 4)}


@pytest.mark.parametrize("line", [r"a=\u12", r"a=\u00g0", r"a=\u+123", r"a=\u"])
def test_a_broken_escape_names_its_line(line: str) -> None:
    with pytest.raises(PropertiesError, match=r"^line 2: "):
        parse_properties("#\n" + line)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("a.b", "c d", "a.b=c d"),
        ("a b", " c", r"a\ b=\ c"),
        ("k", "a=b:c#d!e\\", r"k=a\=b\:c\#d\!e\\"),
        ("k", "\u00e9\n\U0001f600", r"k=\u00E9\n\uD83D\uDE00"),
    ],
)
def test_lines_are_written_as_java_does(key: str, value: str, line: str) -> None:
    assert format_properties({key: value}) == line + "\n"
    assert values(line) == {key: value}
