"""Broker configurations that are valid alone but not together."""

from __future__ import annotations

import pytest

from controller.configs.conflicts import check_conflicts
from controller.configs.definition import ConfigConflictError
from tests.unit.controller.cluster import Settings


def check(**options: str) -> None:
    """Check for conflicts among configurations; `__` in a name stands for a dot."""
    check_conflicts(Settings({name.replace("__", "."): text for name, text in options.items()}).__getitem__)


def test_defaults_do_not_conflict() -> None:
    check()


@pytest.mark.parametrize(
    "options",
    [
        {"log__retention__ms": "-5"},
        {"log__retention__hours": "-1"},
        {"log__retention__hours": "0", "log__retention__minutes": "1"},
        {"max__connections__per__ip": "0", "max__connections__per__ip__overrides": "10.0.0.1:5"},
        {"log__dirs": "/a,/b", "cordoned__log__dirs": ""},
        {"log__dirs": "/a,/b", "cordoned__log__dirs": "*"},
        {"log__dirs": "/a,/b", "cordoned__log__dirs": "/a,/b"},
        {"log__dir": "/a", "cordoned__log__dirs": "/a"},
        {"early__start__listeners": "Plaintext,CONTROLLER"},
    ],
)
def test_compatible_configs_are_accepted(options: dict[str, str]) -> None:
    check(**options)


@pytest.mark.parametrize(
    ("options", "name", "problem"),
    [
        ({"log__roll__ms": "0"}, "log.roll.ms", "greater than or equal to 1"),
        ({"log__roll__jitter__ms": "-1"}, "log.roll.jitter.ms", "greater than or equal to 0"),
        ({"log__retention__ms": "0"}, "log.retention.ms", "must be unlimited"),
        ({"log__retention__minutes": "0"}, "log.retention.minutes", "must be unlimited"),
        ({"log__retention__hours": "0"}, "log.retention.hours", "must be unlimited"),
        ({"log__cleaner__dedupe__buffer__size": "1048576"}, "log.cleaner.dedupe.buffer.size", "1MB per cleaner thread"),
        ({"log__cleaner__threads": "0"}, "log.cleaner.dedupe.buffer.size", "1MB per cleaner thread"),
        ({"max__connections__per__ip": "0"}, "max.connections.per.ip", "zero only if max.connections.per.ip.overrides"),
        ({"log__dirs": "/a,/b", "cordoned__log__dirs": "/a,/c"}, "cordoned.log.dirs", "Missing entries : /c"),
        ({"log__dir": "/a", "cordoned__log__dirs": "/c"}, "cordoned.log.dirs", "Missing entries : /c"),
        ({"cordoned__log__dirs": "*,/c"}, "cordoned.log.dirs", "must not contain other values"),
        (
            {"group__consumer__session__timeout__ms": "1"},
            "group.consumer.session.timeout.ms",
            "greater than or equal to group.consumer.min.session.timeout.ms",
        ),
    ],
)
def test_conflicting_configs_are_reported(options: dict[str, str], name: str, problem: str) -> None:
    with pytest.raises(ConfigConflictError) as found:
        check(**options)
    assert found.value.name == name
    assert problem in str(found.value)
