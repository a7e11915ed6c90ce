from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.barnabas.conftest import Command


def test_user_is_added_and_then_changed(add: Command, barnabas: Command, user: str) -> None:
    assert add() == (0, f"added {user} (SCRAM-SHA-512)\n", "")
    assert add("--iterations", "8192") == (0, f"changed {user} (SCRAM-SHA-512)\n", "")
    assert barnabas("user", "describe", user).lines[1].split() == [user, "SCRAM-SHA-512", "8192"]


def test_user_of_two_mechanisms(add: Command, user: str) -> None:
    both = ("--mechanism", "scram-sha-256", "--mechanism", "SCRAM-SHA-512")
    assert add(*both).lines == [f"added {user} (SCRAM-SHA-256)", f"added {user} (SCRAM-SHA-512)"]


def test_a_dry_run_adds_nothing_and_needs_no_password(barnabas: Command, user: str) -> None:
    assert barnabas("user", "add", user, "--dry-run") == (0, f"would add {user} (SCRAM-SHA-512)\n", "")
    assert barnabas("user", "describe", user).status == 1


def test_name_that_looks_like_a_principal_is_added_with_a_warning(barnabas: Command) -> None:
    shown = barnabas("user", "add", "User:bob", "--dry-run")
    assert (shown.status, shown.out) == (0, "would add User:bob (SCRAM-SHA-512)\n")
    assert shown.err == ("barnabas user add: the user User:bob has the principal User:User:bob; did you mean bob?\n")


def test_password_of_a_file_or_of_the_environment(
    barnabas: Command, user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    assert barnabas("user", "add", user, "--password-file", str(file)).status == 0
    monkeypatch.setenv("BARNABAS_USER_PASSWORD", "secret")
    assert barnabas("user", "add", user).out == f"changed {user} (SCRAM-SHA-512)\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "the password is missing: use --password-file FILE (- is standard input) or set BARNABAS_USER_PASSWORD"),
        (("--password-file", "/nowhere"), "--password-file /nowhere: no such file or directory"),
        (("--password-file", "-"), "the password is empty"),
        (("--mechanism", "PLAIN"), "'PLAIN' is no SCRAM mechanism: write SCRAM-SHA-256 or SCRAM-SHA-512"),
        (("--iterations", "4095"), "'4095': write a number from 4096 to 16384"),
        (("--password", "hidden"), "there is no option --password; did you mean --password-file?"),
    ],
)
def test_invalid_options_are_refused(call: Command, options: tuple[str, ...], message: str) -> None:
    shown = call("user", "add", "alice", *options, stdin=b"\n")
    assert shown.status in (1, 2)
    assert message in shown.err
