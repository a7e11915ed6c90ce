"""The help of every command, and the parsing of its arguments."""

from __future__ import annotations

import pytest

from barnabas.commands._parser import COMMANDS, find, make_parser
from tests.unit.barnabas.conftest import Command


def leaves() -> list[str]:
    """Return the words of every command without subcommands."""
    found = []
    for name in COMMANDS:
        module = find([name, "--help"]).module
        found += [f"{name} {sub}" for sub in module.SUBCOMMANDS] if hasattr(module, "SUBCOMMANDS") else [name]
    return found


@pytest.mark.parametrize("words", leaves())
def test_each_command_has_help_and_examples_of_itself(call: Command, words: str) -> None:
    status, out, _ = call(*words.split(), "--help")
    assert status == 0
    assert out.startswith(f"usage: barnabas {words} [OPTION]...")
    examples = out.partition("\nexamples:\n")[2]
    assert f"barnabas {words.removesuffix(' info')}" in examples
    assert max(map(len, out.splitlines())) <= 120


@pytest.mark.parametrize("name", [name for name in COMMANDS if find([name, "--help"]).is_group])
def test_a_command_with_subcommands_lists_them(call: Command, name: str) -> None:
    status, out, _ = call(name, "--help")
    assert status == 0
    assert all(f"\n  {sub} " in out for sub in find([name, "--help"]).module.SUBCOMMANDS)


@pytest.mark.parametrize("name", [name for name in COMMANDS if find([name, "--help"]).is_group])
def test_a_command_with_subcommands_has_examples_of_them(call: Command, name: str) -> None:
    assert f"\nexamples:\n  barnabas {name} " in call(name, "--help").out


@pytest.mark.parametrize(
    ("words", "command"),
    [(["topic", "ls"], "topic list"), (["group", "rm"], "group delete"), (["config", "ls"], "config list")],
)
def test_list_and_delete_have_shell_aliases(words: list[str], command: str) -> None:
    assert find(words).command == command


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        (["topic", "-b", "h:1", "ls"], "topic list", ["-b", "h:1"]),
        (["topic", "--brokers=h:1", "-X", "a=b", "rm", "t"], "topic delete", ["--brokers=h:1", "-X", "a=b", "t"]),
        (["cluster", "-b", "h:1"], "cluster", ["-b", "h:1"]),
    ],
)
def test_connection_options_may_stand_before_a_subcommand(words: list[str], command: str, rest: list[str]) -> None:
    found = find(words)
    assert (found.command, found.rest) == (command, rest)


def test_connection_options_may_stand_before_the_command(call: Command) -> None:
    status, _, err = call("-b", "127.0.0.1:1", "topic", "ls")
    assert (status, err.startswith("barnabas topic list: no broker answers at 127.0.0.1:1 (")) == (1, True)
    assert call("-b", "127.0.0.1:1") == (2, "", "barnabas: -b stands before the command; options come after it\n")


def test_alias_exists_only_for_existing_commands(call: Command) -> None:
    assert "unknown command 'rm'" in call("config", "rm").err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("acl delete", "remove"),
        ("user remove", "delete"),
        ("quota delete", "remove"),
        ("token rm", "expire"),
        ("config delete", "reset"),
        ("group reset", "seek"),
        ("user create", "add"),
        ("quota add", "set"),
    ],
)
def test_other_word_for_a_subcommand_is_suggested(call: Command, words: str, meant: str) -> None:
    group, word = words.split()
    shown = call(group, word, "x")
    assert shown == (2, "", f"barnabas {group}: unknown command {word!r}; did you mean {meant}?\n")


def test_unknown_subcommand_is_named(call: Command) -> None:
    expected = "barnabas topic: unknown command 'grow'; `barnabas topic --help` lists them\n"
    assert call("topic", "grow", "t") == (2, "", expected)
    assert call("topic", "creat", "t").err == "barnabas topic: unknown command 'creat'; did you mean create?\n"
    assert call("topic", "--json", "list").err == (
        "barnabas topic: --json stands before the command; options come after it\n"
    )


def test_without_a_subcommand_the_help_is_printed_as_the_error(call: Command) -> None:
    assert call("topic") == (2, "", call("topic", "--help").out)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["topic", "list", "--jsno"], "there is no option --jsno; did you mean --json?"),
        (["topic", "list", "--partition=3"], "there is no option --partition"),
        (["consume", "t", "-y", "5"], "there is no option -y"),
        (["group", "list", "readers"], "unexpected argument: readers"),
    ],
)
def test_unexpected_arguments_are_named(call: Command, words: list[str], complaint: str) -> None:
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].endswith(f"error: {complaint}")


def test_default_subcommand_is_used_if_none_is_named() -> None:
    for words in ([], ["--json"]):
        assert find(["cluster", *words]) == find(["cluster", "info", *words])._replace(command="cluster")
    assert find(["cluster", "quorum"]).command == "cluster quorum"
    assert find(["cluster", "--help"]).is_group


@pytest.mark.parametrize(
    "words",
    [
        ["produce", "t", "-p", "0", "FILE"],
        ["produce", "-p", "0", "t", "FILE"],
        ["produce", "t", "FILE", "-p", "0"],
        ["produce", "-p", "0", "--", "t", "FILE"],
    ],
)
def test_options_may_stand_anywhere_among_the_arguments(words: list[str]) -> None:
    found = find(words)
    options = make_parser(found).parse_intermixed_args(found.rest)
    assert (options.topic, options.file, options.partition) == ("t", ["FILE"], 0)


def test_options_are_not_abbreviated() -> None:
    with pytest.raises(SystemExit):
        make_parser(find(["topic", "delete"])).parse_args(["t", "--dry"])
