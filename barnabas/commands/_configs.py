"""Settings of topics, brokers and groups: DescribeConfigs and IncrementalAlterConfigs.

A resource is written KIND/NAME. `brokers` (without a name) is the cluster-wide default of all brokers. The requests are
made here and sent by kafka-python: its own methods support neither that default nor documentation.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas._arguments import did_you_mean
from barnabas.commands._client import send
from barnabas.commands._output import CommandError, explain_code
from barnabas.commands._topics import closest

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from barnabas.commands._admin import Admin

ALL_BROKERS = "brokers"
KINDS = {"topic": 2, "broker": 4, "brokers": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
SOURCES = {
    0: "unknown",
    1: "topic",
    2: "broker",
    3: "brokers",
    4: "static",  # set at the start, in a file, by an option or in the environment
    5: "default",
    6: "broker-logger",
    7: "client-metrics",
    8: "group",
}
UNKNOWN_TYPE = "unknown"  # the type of a setting that the broker does not know
TYPES = (UNKNOWN_TYPE, "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
_LISTENER = "listener.name."  # the beginning of the name of a setting of a single listener
OWN_SOURCES = (1, 2, 3, 4, 6, 7, 8)
SET, DELETE, APPEND, SUBTRACT = range(4)


class Setting(NamedTuple):
    """One setting of a resource."""

    name: str
    value: str | None
    source: str
    type: str
    read_only: bool
    sensitive: bool
    is_own: bool  # set for this resource, neither inherited nor the default
    synonyms: list[dict[str, Any]]
    documentation: str | None


class Change(NamedTuple):
    """One change of a setting."""

    name: str
    operation: int
    value: str | None = None


def resource(text: str) -> str:
    """Return KIND/NAME or `brokers` if valid; ArgumentTypeError otherwise."""
    kind, slash, name = text.partition("/")
    if kind not in KINDS or (kind == "brokers") == bool(slash) or (slash and not name):
        listed = ", ".join(f"{kind}/NAME" for kind in KINDS if kind != "brokers")
        raise argparse.ArgumentTypeError(f"{text!r}: write {listed} or brokers")
    if kind in ("broker", "broker-logger") and not name.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: a broker is named by its id")
    return text


def describe_configs(
    client: KafkaAdminClient, of: str, names: Sequence[str] | None = None, documentation: bool = False
) -> list[Setting]:
    """Return the settings of a resource, ordered by name."""
    from kafka.protocol.admin import DescribeConfigsRequest

    kind, name, node = _address(of)
    request = DescribeConfigsRequest(
        resources=[(kind, name, None if names is None else list(names))],
        include_synonyms=True,
        include_documentation=documentation,
        min_version=3 if documentation else 1,
    )
    (result,) = send(client, request, node).results
    if result.error_code:
        meant = closest(client, name) if of.startswith("topic/") else ""
        raise CommandError(f"{of}: {explain_code(result.error_code, result.error_message)}{meant}")
    return sorted((_setting(entry, of) for entry in result.configs), key=lambda setting: setting.name)


def topics_values(client: KafkaAdminClient, topics: Sequence[str], name: str) -> dict[str, str]:
    """Return the value of one setting for each of the topics that still exist."""
    from kafka.protocol.admin import DescribeConfigsRequest

    if not topics:
        return {}
    request = DescribeConfigsRequest(resources=[(KINDS["topic"], topic, [name]) for topic in topics])
    results = send(client, request).results
    return {one.resource_name: one.configs[0].value for one in results if not one.error_code and one.configs}


def known_settings(client: Admin, of: str) -> dict[str, Setting]:
    """Return every setting that the resource may have, by name.

    DescribeConfigs of `brokers` returns only settings that are set; the others are those of a broker that answers.
    """
    described = {setting.name: setting for setting in describe_configs(client, of)}
    if of != ALL_BROKERS:
        return described
    known = {setting.name: setting for setting in describe_a_broker(client)}
    for name, setting in described.items():
        synonyms = known[name].synonyms if name in known else setting.synonyms
        known[name] = setting._replace(synonyms=synonyms)
    return known


def describe_a_broker(client: Admin, names: Sequence[str] | None = None) -> list[Setting]:
    """Return settings of the first broker that answers; CommandError if none does."""
    failure = CommandError("no broker is listed")
    for number in client.listed():
        try:
            return describe_configs(client, f"broker/{number}", names)
        except CommandError as error:
            failure = error
    raise failure


def definition_of(name: str, known: Mapping[str, Setting]) -> Setting | None:
    """Return the setting of that name or, for one of a single listener, the setting that it overrides there.

    `listener.name.ssl.ssl.keystore.location` overrides `ssl.keystore.location`; before some settings of SASL there is a
    mechanism, too. None if the brokers know neither.
    """
    _, rest = _of_listener(name)
    names = (name, rest, rest.partition(".")[2])
    return next((known[one] for one in names if one in known and known[one].type != UNKNOWN_TYPE), None)


def closest_setting(name: str, known: Mapping[str, Setting]) -> str:
    """Return "; did you mean X?" for the known setting closest to `name`, or "" if none is close."""
    listener, rest = _of_listener(name)
    return did_you_mean(name, [listener + one for one in known]) if listener and rest else did_you_mean(name, known)


def _of_listener(name: str) -> tuple[str, str]:
    """Return the prefix of a setting of a single listener, and the rest of its name; ("", "") for another setting."""
    if not name.startswith(_LISTENER):
        return "", ""
    listener, _, rest = name.removeprefix(_LISTENER).partition(".")
    return f"{_LISTENER}{listener}.", rest


def alter_configs(
    client: Admin, of: str, changes: Sequence[Change], known: Mapping[str, Setting], dry_run: bool
) -> str | None:
    """Change settings of a resource; return the error message, None if there is none.

    Brokers accept the reset of an unknown setting. A mistyped name must be an error, so it is looked up in `known`, the
    settings of the resource.
    """
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    for change in changes:
        if change.operation != SET and change.name not in known and definition_of(change.name, known) is None:
            return f"there is no setting {change.name!r}{closest_setting(change.name, known)}"
    kind, name, node = _address(of)
    request = IncrementalAlterConfigsRequest(
        resources=[(kind, name, [(change.name, change.operation, change.value) for change in changes])],
        validate_only=dry_run,
    )
    (response,) = send(client, request, node).responses
    if not response.error_code:
        return None
    # Brokers accept unknown settings of theirs: the error has another cause.
    unknown = () if of.startswith("broker") else [change.name for change in changes if change.name not in known]
    meant = "".join(did_you_mean(name, known) for name in unknown)
    return f"{explain_code(response.error_code, response.error_message)}{meant}"


def _address(of: str) -> tuple[int, str, int | None]:
    """Return a resource's type, its name, and the broker that must get the request, if any."""
    kind, _, name = of.partition("/")
    return KINDS[kind], name, int(name) if kind in ("broker", "broker-logger") else None


def _setting(entry: Any, of: str) -> Setting:
    inherited = of.startswith(("topic/", "group/")) and entry.config_source in (2, 3, 4)
    return Setting(
        name=entry.name,
        value=entry.value,
        source=SOURCES.get(entry.config_source, "unknown"),
        type=TYPES[entry.config_type] if 0 <= entry.config_type < len(TYPES) else UNKNOWN_TYPE,
        read_only=entry.read_only,
        sensitive=entry.is_sensitive,
        is_own=entry.config_source in OWN_SOURCES and not inherited,
        synonyms=[
            {"name": one.name, "value": one.value, "source": SOURCES.get(one.source, "unknown")}
            for one in entry.synonyms
        ],
        documentation=entry.documentation or None,
    )
