"""Users of one test: each has another name, so that tests can share a broker."""

from __future__ import annotations

import pytest

from tests.unit.barnabas.conftest import Command, Shown


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """Return a name that no other test uses."""
    return str(request.node.name).removeprefix("test_")


@pytest.fixture
def add(barnabas: Command, user: str) -> Command:
    """Return a function that adds the user with these options; the password is standard input's first line."""

    def run(*options: str, stdin: bytes = b"secret\n") -> Shown:
        return barnabas("user", "add", user, "--password-file", "-", *options, stdin=stdin)

    return run
