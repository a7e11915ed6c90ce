"""Start-up settings: Kafka's `server.properties`, overridden by the command line (Kafka: `KafkaConfig`).

Names, types, defaults, checks of single values and conflicts that apply at any time are in `controller.configs`. This
module has the rules that apply only at a start: identity, roles, listeners and directories. As in Kafka, an unknown
setting is not an error; `broker.settings_warnings` logs it once. Anything invalid raises `SettingsError` with the place
where it was set, the key, the value, and a valid alternative. Settings altered at run time are in the metadata image
(`broker.metadata.dynamic_config`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from posixpath import normpath
from typing import Any, NamedTuple

from broker.metadata.process_roles import (
    BROKER,
    CONTROLLER,
    QuorumVoter,
    RoleError,
    check_role_listeners,
    check_roles,
    parse_voters,
)
from broker.network.listeners import (
    PLAINTEXT,
    ListenerAddress,
    ListenerError,
    check_advertised,
    check_listeners,
    is_loopback,
    parse_endpoints,
    parse_protocol_map,
    split_host_port,
)
from controller.configs import BROKER_CONFIGS, ConfigDef, ConfigError, parse_value
from controller.configs.conflicts import check_conflicts
from controller.configs.definition import ConfigConflictError, ConfigType
from controller.configs.listener_names import is_listener_setting, without_listener
from storage.properties import PropertiesError, parse_properties

DEFAULT_ORIGIN = "default"
"""The origin of an option that the program sets because the user did not."""

CONTROL_LISTENER = "barnabas.control.listener"
METRICS_PROTOCOL = "barnabas.metrics.security.protocol"
PROVIDERS = "config.providers"
"""Names what resolves references in other settings, and begins the names of its settings."""
_TEST_PROFILE = "barnabas.test.profile"
_PROFILE_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class SettingsError(Exception):
    """The broker cannot start with these settings; the message is for the user."""


class Option(NamedTuple):
    """The text of one setting, and where it was written."""

    text: str
    origin: str
    reference: str = ""
    """The text as it was written, if it has references to secrets: messages show that."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Validated settings, by Kafka's names."""

    explicit: Mapping[str, str]
    values: Mapping[str, Any]
    unknown: Mapping[str, str]
    """The origin of each unknown setting, by name, sorted."""
    node_id: int
    log_dirs: tuple[str, ...]
    listeners: tuple[ListenerAddress, ...]
    advertised_listeners: tuple[ListenerAddress, ...]
    controller_listeners: frozenset[str]
    security_protocols: Mapping[str, str]
    """The security protocol of each listener, also of those that only other nodes have."""
    roles: frozenset[str]
    voters: tuple[QuorumVoter, ...]
    """The voters in controller.quorum.voters, sorted by id."""

    @property
    def is_broker(self) -> bool:
        """Return whether this node is a broker."""
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        """Return whether this node is a controller, and so a voter."""
        return CONTROLLER in self.roles

    def security_protocol_of(self, listener: str) -> str:
        """Return the security protocol of a listener of this node or of others."""
        return self.security_protocols.get(listener, PLAINTEXT)

    @property
    def forwarding_protocol(self) -> str | None:
        """Return the security protocol by which requests of clients are forwarded to the active controller.

        None if this node is the only controller.
        """
        if self.is_controller and len(self.voters) <= 1:
            return None
        return self.security_protocol_of(self["controller.listener.names"][0].upper())

    def __getitem__(self, name: str) -> Any:
        """Return the value of the setting `name`, its default if it was not set."""
        return self.values[name]


def read_properties(text: str, file: str) -> dict[str, Option]:
    """Return the settings in the `text` of a properties file."""
    try:
        found = parse_properties(text)
    except PropertiesError as error:
        raise SettingsError(f"{file}: {error}") from None
    return {key: Option(value, f"{file}, line {line}") for key, (value, line) in found.items()}


def read_option(argument: str) -> tuple[str, Option]:
    """Return the key and the setting of one `-D key=value`."""
    key, equals, value = argument.partition("=")
    if not key or not equals:
        raise SettingsError(f"-D {argument}: write it as key=value")
    return key.strip(), Option(value.strip(), f"-D {key.strip()}")


def check_settings(options: Mapping[str, Option]) -> Settings:
    """Return the settings made by `options`; `SettingsError` with everything that is invalid."""
    errors = _ErrorList()
    options = _with_profile(options)
    values: dict[str, Any] = {}
    for name, definition in BROKER_CONFIGS.items():
        option = options.get(name)
        with errors.collected():
            values[name] = _parse(options, name, definition, definition.default if option is None else option.text)
    for name in filter(is_listener_setting, options):
        known = BROKER_CONFIGS.get(without_listener(name))
        if known is not None:
            with errors.collected():
                values[name] = _parse(options, name, known, options[name].text)
    errors.raise_any()  # the checks below need all values
    with errors.collected():
        node_id, roles, voters, protocols, listeners, advertised = _identity(options, values)
    with errors.collected():
        try:
            split_host_port(values["barnabas.metrics.listener"] or ":0")
        except ValueError as error:
            raise _error(options, "barnabas.metrics.listener", f"barnabas.metrics.listener: {error}") from None
    with errors.collected():
        log_dirs = _log_dirs(options, values)
    with errors.collected():
        try:
            check_conflicts(values.__getitem__)
        except ConfigConflictError as error:
            raise _error(options, error.name, str(error)) from None
    errors.raise_any()
    _check_control(options, values[CONTROL_LISTENER], listeners)
    explicit = {name: option.text for name, option in options.items()}
    if "node.id" in explicit or "broker.id" in explicit:
        explicit |= {"node.id": str(node_id), "broker.id": str(node_id)}
    return Settings(
        explicit=explicit,
        values=values,
        unknown={name: options[name].origin for name in sorted(options) if not _exists(name)},
        node_id=node_id,
        log_dirs=log_dirs,
        listeners=listeners,
        advertised_listeners=advertised,
        controller_listeners=frozenset(name.upper() for name in values["controller.listener.names"]),
        security_protocols=protocols,
        roles=roles,
        voters=voters,
    )


def _with_profile(options: Mapping[str, Option]) -> Mapping[str, Option]:
    """Return the options with the defaults of `barnabas.test.profile`, if that is set."""
    profile = options.get(_TEST_PROFILE)
    if profile is None or profile.text.strip().lower() != "true":
        return options
    return {name: Option(text, profile.origin) for name, text in _PROFILE_DEFAULTS.items()} | dict(options)


def _check_control(options: Mapping[str, Option], address: str, listeners: Iterable[ListenerAddress]) -> None:
    """Raise `SettingsError` if the control API, or any listener beside it, could be reached from other machines."""
    if not address:
        return
    try:
        host, _ = split_host_port(address)
    except ValueError as error:
        raise _error(options, CONTROL_LISTENER, f"{CONTROL_LISTENER}: {error}") from None
    if not is_loopback(host):
        problem = f"{CONTROL_LISTENER}={address}: the control API is for this machine only; listen on 127.0.0.1:PORT"
        raise _error(options, CONTROL_LISTENER, problem)
    for listener in listeners:
        if not is_loopback(listener.host):
            raise _error(
                options,
                "listeners",
                f"{listener} can be reached from other machines, and {CONTROL_LISTENER} is for brokers of tests: "
                f"listen on 127.0.0.1:{listener.port}, or leave out {CONTROL_LISTENER}",
            )


class _ErrorList:
    """Errors of settings, collected to be raised together."""

    def __init__(self) -> None:
        self._errors: list[SettingsError] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect a `SettingsError` that the block raises."""
        try:
            yield
        except SettingsError as error:
            self._errors.append(error)

    def raise_any(self) -> None:
        """Raise the collected errors: a single one as it is, several as lines of one."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            lines = "".join(f"\n  {error}" for error in self._errors)
            raise SettingsError(f"{len(self._errors)} invalid settings:{lines}")


class _Identity(NamedTuple):
    node_id: int
    roles: frozenset[str]
    voters: tuple[QuorumVoter, ...]
    protocols: Mapping[str, str]
    listeners: tuple[ListenerAddress, ...]
    advertised: tuple[ListenerAddress, ...]


def _identity(options: Mapping[str, Option], values: Mapping[str, Any]) -> _Identity:
    """Return the node's id, roles, voters and listeners."""
    node_id = _node_id(options, values)
    try:
        voters = parse_voters(values["controller.quorum.voters"])
        roles = check_roles(values.__getitem__, node_id, voters)
        protocols = _security_protocols(options, values)
        listeners, advertised = _endpoints(values, protocols, roles, voters, node_id)
        _check_inter_broker(options, values, advertised)
    except RoleError as error:
        written = error.key if _is_written(options, error.key) else error.cause
        raise _error(options, written, str(error)) from None
    except ListenerError as error:
        key = error.key
        if key == "advertised.listeners" and key not in options:
            key = "listeners"  # advertised by default
        if key == "listener.security.protocol.map" and key not in options:
            key = "listeners"  # by default, a listener's name is its protocol
        is_flag = key in options and options[key].origin.startswith("--")
        raise _error(options, key, str(error) if is_flag else f"Invalid value of {key}: {error}") from None
    return _Identity(node_id, roles, voters, protocols, listeners, advertised)


def _parse(options: Mapping[str, Option], name: str, definition: ConfigDef, text: str | None) -> Any:
    try:
        return parse_value(definition, text)
    except ConfigError as error:
        raise _error(options, name, str(error)) from None


def _exists(name: str) -> bool:
    return without_listener(name) in BROKER_CONFIGS or name.startswith(f"{PROVIDERS}.")


def is_password(name: str) -> bool:
    """Return whether a setting, also of one listener, is a secret."""
    definition = BROKER_CONFIGS.get(without_listener(name))
    return definition is not None and definition.type is ConfigType.PASSWORD


def _is_written(options: Mapping[str, Option], name: str) -> bool:
    """Return whether the user set `name`; the program sets some options to its own defaults."""
    return name in options and options[name].origin != DEFAULT_ORIGIN


def _error(options: Mapping[str, Option], name: str, problem: str) -> SettingsError:
    option = options.get(name)
    if option is not None and option.reference:
        problem = problem.replace(option.text, option.reference)
    return SettingsError(f"{option.origin if option else DEFAULT_ORIGIN}: {problem}")


def _node_id(options: Mapping[str, Option], values: Mapping[str, Any]) -> int:
    # broker.id is the name of node.id before KRaft; Kafka still reads it.
    name = "broker.id" if "broker.id" in options and "node.id" not in options else "node.id"
    node_id: int = values[name]
    if "broker.id" in options and values["broker.id"] != node_id:
        raise _error(options, "broker.id", f"broker.id={values['broker.id']} differs from node.id={node_id}")
    if node_id < 0:
        raise _error(options, name, f"Invalid value {node_id} for configuration {name}: Value must be at least 0")
    return node_id


def _log_dirs(options: Mapping[str, Option], values: Mapping[str, Any]) -> tuple[str, ...]:
    name = "log.dir" if values["log.dirs"] is None else "log.dirs"
    directories: tuple[str, ...] = values[name]
    if len(set(directories)) < len(directories):
        raise _error(options, name, f"{name}={','.join(directories)} names a directory twice")
    for outer, inner in permutations(directories, 2):
        if f"{normpath(inner)}/".startswith(f"{normpath(outer).rstrip('/')}/"):
            raise _error(options, name, f"{name}: {inner} is inside {outer}; remove one of them")
    metadata = values["metadata.log.dir"]
    if metadata is not None and metadata not in directories:
        raise _error(options, "metadata.log.dir", f"metadata.log.dir={metadata} is not one of {name}: not supported")
    return directories


def _security_protocols(options: Mapping[str, Option], values: Mapping[str, Any]) -> dict[str, str]:
    """Return the security protocols by listener; by default those of controllers are not encrypted."""
    map_key = "listener.security.protocol.map"
    protocols = parse_protocol_map(map_key, _items(values[map_key]))
    if map_key not in options:
        protocols |= {
            name.upper(): protocols.get(name.upper(), PLAINTEXT) for name in values["controller.listener.names"]
        }
    return protocols


def _endpoints(
    values: Mapping[str, Any],
    protocols: Mapping[str, str],
    roles: frozenset[str],
    voters: tuple[QuorumVoter, ...],
    node_id: int,
) -> tuple[tuple[ListenerAddress, ...], tuple[ListenerAddress, ...]]:
    """Return the listeners, and the advertised listeners."""
    controllers = [name.upper() for name in values["controller.listener.names"]]
    listeners = parse_endpoints("listeners", values["listeners"], protocols)
    check_listeners("listeners", listeners)
    check_role_listeners(roles, voters, node_id, listeners, controllers)
    if values["advertised.listeners"] is None:
        advertised = tuple(endpoint for endpoint in listeners if endpoint.listener not in controllers)
    else:
        advertised = parse_endpoints("advertised.listeners", values["advertised.listeners"], protocols)
    check_advertised("advertised.listeners", advertised, listeners)
    return listeners, advertised


def _check_inter_broker(
    options: Mapping[str, Option], values: Mapping[str, Any], advertised: Iterable[ListenerAddress]
) -> None:
    """Raise `ListenerError` if the listener between brokers is set twice, or none of this broker."""
    names = [endpoint.listener for endpoint in advertised]
    by_name, by_protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    if by_name in options and by_protocol in options:
        raise ListenerError(by_name, f"{by_protocol} is set too: remove one of them")
    key = by_name if values[by_name] else by_protocol
    chosen = str(values[key])
    if key in options and names and chosen.upper() not in names:
        raise ListenerError(key, f"{chosen} is not an advertised listener; these are: {', '.join(names)}")


def _items(text: str) -> Iterable[str]:
    return (item.strip() for item in text.split(",")) if text.strip() else ()
