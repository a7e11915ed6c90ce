import pytest

from barnabas.commands._parser import find
from barnabas.commands._parser import make_parser as make_command_parser
from broker.__main__ import _endpoint
from broker.startup.command_line import make_parser, options, parse


def test_help_has_examples() -> None:
    assert "\nexamples:\n  barnabas serve " in make_parser().format_help()


def test_help_has_the_form_of_the_other_commands() -> None:
    """Usage in one line, one width of the option column, defaults in parentheses."""
    own, other = make_parser().format_help(), make_command_parser(find(["up"])).format_help()
    assert own.splitlines()[0] == "usage: barnabas serve [OPTION]..."
    assert other.splitlines()[0] == "usage: barnabas up [OPTION]..."
    assert "\n  --topic NAME[:PARTITIONS]     create a topic unless it exists\n" in own
    assert "(default: info)" in own
    formatter, other_formatter = make_parser()._get_formatter(), make_command_parser(find(["up"]))._get_formatter()
    for width in ("_width", "_max_help_position"):
        assert getattr(formatter, width) == getattr(other_formatter, width)


def test_an_empty_variable_for_the_loop_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_LOOP", "")
    assert parse([]).loop == "uvloop"
    monkeypatch.setenv("BARNABAS_LOOP", "asyncio")
    assert parse([]).loop == "asyncio"


@pytest.mark.parametrize("option", ["--socket", "--start-group", "--ephemeral-dir"])
def test_launcher_options_are_accepted_and_hidden(option: str) -> None:
    assert option not in make_parser().format_help()
    assert option not in options()
    assert parse([f"{option}=x"])


def test_each_option_that_is_shown_has_a_description_with_its_default() -> None:
    described = {name: about for name, (about, _) in options().items()}
    assert [name for name, about in described.items() if not about] == []
    assert described["--log-format"].endswith("(default: text)")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--lsten", "127.0.0.1:0"], "there is no option --lsten; did you mean --listen?"),
        (["--ephemerl=1"], "there is no option --ephemerl; did you mean --ephemeral?"),
        (["--port", "9093"], "there is no option --port; write --listen HOST:PORT"),
        (["--sockt=1"], "there is no option --sockt"),
        (["--lis", "127.0.0.1:0"], "there is no option --lis; did you mean --listen?"),
        (["topic"], "unexpected argument: topic"),
        (["topic", "t"], "unexpected arguments: topic t"),
        (["--log-level", "loud"], "argument --log-level: 'loud': write one of debug, info, warning, error"),
    ],
)
def test_usage_error_is_explained_after_one_usage_line(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as end:
        parse(words)
    assert end.value.code == 2
    assert capsys.readouterr().err == f"usage: barnabas serve [OPTION]...\nbarnabas serve: error: {complaint}\n"


def test_star_stands_for_all_interfaces() -> None:
    assert _endpoint("--listen", "*:9095") == _endpoint("--listen", ":9095") == "PLAINTEXT://:9095"
