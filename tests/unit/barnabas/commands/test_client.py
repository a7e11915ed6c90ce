import argparse

import pytest

from barnabas.commands._client import add_bootstrap, client_options, pair, positive


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_bootstrap(parser)
    return parser.parse_args(arguments)


def test_the_broker_of_this_machine_is_the_default(monkeypatch):
    monkeypatch.delenv("BARNABAS_BOOTSTRAP", raising=False)
    assert parse().bootstrap == ["127.0.0.1:9092"]


def test_the_environment_may_name_another_and_the_option_yet_another(monkeypatch):
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", "a:1,b:2")
    assert parse().bootstrap == ["a:1", "b:2"]
    assert client_options(parse("--bootstrap", "[::1]:3"))["bootstrap_servers"] == ["[::1]:3"]


@pytest.mark.parametrize("address", ["localhost", "localhost:kafka", ":9092", "a:1,,b:2", ""])
def test_what_is_no_address_is_a_wrong_call(address, capsys):
    with pytest.raises(SystemExit) as end:
        parse("--bootstrap", address)
    assert end.value.code == 2
    assert "write it as HOST:PORT" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "read"), [("a=b", ("a", "b")), ("a=", ("a", "")), ("a=b=c", ("a", "b=c"))])
def test_a_pair_is_parted_at_its_first_equals_sign(text, read):
    assert pair(text) == read


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_a_pair_needs_a_name_and_an_equals_sign(text):
    with pytest.raises(argparse.ArgumentTypeError, match="write it as NAME=VALUE"):
        pair(text)


def test_a_number_of_things_is_at_least_one():
    assert positive("12") == 12
    for text in ("0", "-1", "two", "", "1.5", "\u0663"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a number of at least 1"):
            positive(text)
