import argparse

import pytest

from barnabas._arguments import Help, Parser, did_you_mean, unknown_arguments


@pytest.fixture
def parser() -> Parser:
    parser = Parser(prog="barnabas x", formatter_class=Help, allow_abbrev=False)
    parser.add_argument("-n", "--count", metavar="N", help="so many")
    parser.add_argument("--level", choices=("low", "high"), help="how much")
    parser.add_argument("--socket", help=argparse.SUPPRESS)
    return parser


@pytest.mark.parametrize(
    ("left", "complaint"),
    [
        (["--cuont", "3"], "there is no option --cuont; did you mean --count?"),
        (["--levl=low"], "there is no option --levl; did you mean --level?"),
        (["--sockt=1"], "there is no option --sockt"),
        (["-c", "3"], "there is no option -c"),
        (["--max", "3"], "there is no option --max; write --count N"),
        (["3"], "unexpected argument: 3"),
        (["3", "4"], "unexpected arguments: 3 4"),
    ],
)
def test_unknown_arguments_get_a_suggestion(parser: Parser, left: list[str], complaint: str) -> None:
    assert unknown_arguments(parser, left, {"--max": "--count N"}) == complaint


def test_invalid_option_value_is_refused_with_the_valid_ones(
    parser: Parser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(["--level", "loud"])
    assert capsys.readouterr().err.endswith("argument --level: 'loud': write one of low, high\n")


def test_the_help_names_the_value_of_an_option_once(parser: Parser) -> None:
    assert "\n  -n, --count N       so many\n" in parser.format_help()


def test_dissimilar_argument_gets_no_suggestion() -> None:
    assert did_you_mean("retention", ["retention.ms"]) == "; did you mean retention.ms?"
    assert did_you_mean("x", ["retention.ms"]) == ""
