import pytest

from broker.startup.shell_completion import candidates, main


def names(*words: str) -> list[str]:
    return [line.partition("\t")[0] for line in candidates(*words)]


def test_options_are_completed_with_descriptions() -> None:
    assert "--ephemeral\tkeep the data in a temporary directory" in list(candidates("options"))
    assert "-D" not in names("options")


def test_option_values_are_completed() -> None:
    assert names("values", "--log-format") == ["text", "json"]
    assert names("values", "--config") == names("values", "--unknown") == []
    assert names("values", "-D") == names("settings", "broker")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("broker", "num.partitions="),
        ("topic", "retention.ms="),
        ("group", "consumer.session.timeout.ms="),
        ("client-metrics", "interval.ms="),
    ],
)
def test_settings_are_completed_by_kind(kind: str, name: str) -> None:
    assert name in names("settings", kind)
    assert names("settings", "nonsense") == []


def test_the_program_prints_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complete", "values", "--log-format"]) == 0
    assert capsys.readouterr().out == "text\njson\n"
