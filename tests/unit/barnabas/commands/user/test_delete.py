from __future__ import annotations

from tests.unit.barnabas.conftest import Command

BOTH = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512")


def test_all_mechanisms_of_a_user_are_deleted_by_its_short_name(add: Command, barnabas: Command, user: str) -> None:
    add(*BOTH)
    assert barnabas("user", "rm", user).lines == [f"deleted {user} (SCRAM-SHA-256)", f"deleted {user} (SCRAM-SHA-512)"]
    assert barnabas("user", "describe", user).status == 1


def test_one_mechanism_is_deleted(add: Command, barnabas: Command, user: str) -> None:
    add(*BOTH)
    sha_256 = ("--mechanism", "SCRAM-SHA-256")
    assert barnabas("user", "delete", user, *sha_256).lines == [f"deleted {user} (SCRAM-SHA-256)"]
    again = barnabas("user", "delete", user, *sha_256)
    assert (again.status, again.out) == (1, "")
    assert f"{user} (SCRAM-SHA-256): has no such credential, only SCRAM-SHA-512" in again.err


def test_a_dry_run_deletes_nothing(add: Command, barnabas: Command, user: str) -> None:
    add()
    assert barnabas("user", "delete", user, "--dry-run") == (0, f"would delete {user} (SCRAM-SHA-512)\n", "")
    assert barnabas("user", "describe", user).status == 0


def test_an_unknown_user_fails_and_the_others_are_deleted(add: Command, barnabas: Command, user: str) -> None:
    add()
    shown = barnabas("user", "delete", user[:-1], user)
    assert (shown.status, shown.out) == (1, f"deleted {user} (SCRAM-SHA-512)\n")
    assert f"{user[:-1]}: there is no such SCRAM user; did you mean {user}?" in shown.err


def test_unknown_user_may_be_one_of_plain(barnabas: Command) -> None:
    shown = barnabas("user", "delete", "nobody-has-this-name")
    assert shown == (
        1,
        "",
        "barnabas user delete: nobody-has-this-name: there is no such SCRAM user (users of PLAIN are in the settings "
        "of the brokers, those of `barnabas up --secure` in users.properties)\n",
    )
