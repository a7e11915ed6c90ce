import pytest

from broker.command_line import make_parser, parse


def test_help_has_examples() -> None:
    assert "\nexamples:\n  barnabas serve " in make_parser().format_help()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--lsten", "127.0.0.1:0"], "unknown argument: --lsten; did you mean --listen?"),
        (["--ephemerl=1"], "unknown argument: --ephemerl=1; did you mean --ephemeral?"),
        (["topic"], "unknown argument: topic"),
    ],
)
def test_an_unknown_option_is_named_with_the_one_that_is_most_like_it(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as end:
        parse(words)
    assert end.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {complaint}")
