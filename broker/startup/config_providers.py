"""References in the settings of a start, such as `password=${secrets:/etc/barnabas/secrets:password}` (KIP-297).

    config.providers=secrets,env
    config.providers.secrets.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.secrets.param.allowed.paths=/etc/barnabas

The providers are Kafka's own three: `${NAME:FILE:KEY}` is a value of a properties file, `${NAME:DIRECTORY:FILE}` a
file's whole content, `${NAME:VARIABLE}` an environment variable. Only settings of the start are resolved, never those
that a client alters (CVE-2024-31141). Where Kafka would use a reference that it cannot resolve as the value, the start
is refused: it could become a password that anyone can guess. So is a password with a reference to another provider.
Messages have no values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from posixpath import isabs, join, normpath

from broker.settings import PROVIDERS, Option, SettingsError, is_password
from storage.disk import Disk
from storage.properties import PropertiesError, parse_properties

_PACKAGE = "org.apache.kafka.common.config.provider."
_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
_MAX_BYTES = 1 << 20

Provider = Callable[[str, str], str]
"""Returns the value for a path and a key; `_UnresolvedError` if there is none."""


class _UnresolvedError(Exception):
    """A reference has no value; the message says why."""


def with_references_resolved(
    options: Mapping[str, Option], disk: Disk, environment: Mapping[str, str]
) -> dict[str, Option]:
    """Return the options with the values of their references.

    Raise `SettingsError` for an invalid provider, and for a reference that has no value.
    """
    declared = options.get(PROVIDERS)
    names = [name.strip() for name in declared.text.split(",") if name.strip()] if declared else []
    providers = {name: _provider(name, options, disk, environment) for name in names}
    return {
        name: option if name.startswith(PROVIDERS) else _resolved(name, option, providers)
        for name, option in options.items()
    }


def _resolved(name: str, option: Option, providers: Mapping[str, Provider]) -> Option:
    def value(reference: re.Match[str]) -> str:
        provider, path, key = reference.groups("")
        if provider not in providers:
            if is_password(name):
                raise SettingsError(
                    f"{option.origin}: {name} has the reference {reference.group()}, and {PROVIDERS} has no {provider}"
                )
            return reference.group()  # a pattern, or text that only looks like a reference
        try:
            return providers[provider](path, key)
        except _UnresolvedError as error:
            raise SettingsError(f"{option.origin}: {name} has the reference {reference.group()}: {error}") from None

    text = _REFERENCE.sub(value, option.text)
    return option if text == option.text else option._replace(text=text, reference=option.text)


def _provider(name: str, options: Mapping[str, Option], disk: Disk, environment: Mapping[str, str]) -> Provider:
    """Return the provider that is configured as `name`."""
    of_class: dict[str, Provider] = {
        "FileConfigProvider": partial(_of_properties_file, disk, _allowed_paths(name, options)),
        "DirectoryConfigProvider": partial(_of_directory, disk, _allowed_paths(name, options)),
        "EnvVarConfigProvider": partial(_of_environment, environment, _allowed_variables(name, options)),
    }
    setting = f"{PROVIDERS}.{name}.class"
    chosen = options.get(setting)
    supported = ", ".join(f"{_PACKAGE}{short}" for short in of_class)
    if chosen is None:
        raise SettingsError(f"{options[PROVIDERS].origin}: {setting} is not set; set it to one of {supported}")
    found = of_class.get(chosen.text.strip().removeprefix(_PACKAGE))
    if found is None:
        raise SettingsError(f"{chosen.origin}: {setting}={chosen.text} is not supported; supported: {supported}")
    return found


def _allowed_paths(name: str, options: Mapping[str, Option]) -> tuple[str, ...] | None:
    """Return the directories and files that references may name; None if they may name any."""
    setting = f"{PROVIDERS}.{name}.param.allowed.paths"
    option = options.get(setting)
    if option is None or not option.text.strip():
        return None
    paths = [path.strip() for path in option.text.split(",")]
    for path in paths:
        if not isabs(path):
            raise SettingsError(f"{option.origin}: {setting}: {path} is not an absolute path")
    return tuple(normpath(path) for path in paths)


def _allowed_variables(name: str, options: Mapping[str, Option]) -> re.Pattern[str] | None:
    """Return the pattern of the variables that references may name; None if they may name any."""
    setting = f"{PROVIDERS}.{name}.param.allowlist.pattern"
    option = options.get(setting)
    try:
        return re.compile(option.text.strip()) if option else None
    except re.error as error:
        raise SettingsError(f"{options[setting].origin}: {setting} is not a regular expression: {error}") from None


def _of_properties_file(disk: Disk, allowed: tuple[str, ...] | None, path: str, key: str) -> str:
    content = _read(disk, allowed, path)
    try:
        found = parse_properties(content).get(key)
    except PropertiesError as error:
        raise _UnresolvedError(f"{path}: {error}") from None
    if found is None:
        raise _UnresolvedError(f"{path} has no key {key}")
    return found.value


def _of_directory(disk: Disk, allowed: tuple[str, ...] | None, path: str, key: str) -> str:
    if "/" in key or key in ("", ".", ".."):
        raise _UnresolvedError(f"{key!r} is not the name of a file; write the reference as ${{NAME:DIRECTORY:FILE}}")
    return _read(disk, allowed, join(path, key))


def _of_environment(environment: Mapping[str, str], allowed: re.Pattern[str] | None, path: str, key: str) -> str:
    if path:
        raise _UnresolvedError("an environment variable has no path; write the reference as ${NAME:VARIABLE}")
    if allowed is not None and not allowed.fullmatch(key):
        raise _UnresolvedError(f"the variable {key} is not one of allowlist.pattern")
    if key not in environment:
        raise _UnresolvedError(f"there is no environment variable {key}")
    return environment[key]


def _read(disk: Disk, allowed: tuple[str, ...] | None, path: str) -> str:
    if not isabs(path):
        raise _UnresolvedError(f"{path!r} is not an absolute path")
    whole = normpath(path)
    if allowed is not None and not any(f"{whole}/".startswith(f"{place.rstrip('/')}/") for place in allowed):
        raise _UnresolvedError(f"{whole} is not in allowed.paths")
    try:
        return disk.read_regular_file(whole, _MAX_BYTES).decode()
    except OSError as error:
        raise _UnresolvedError(f"{whole}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise _UnresolvedError(f"{whole}: not UTF-8 text") from None
