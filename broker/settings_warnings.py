"""Warnings at a start about settings that are valid, but do not do what users may expect of them.

They name what other machines can do without authentication, what is ignored, and what each setting would need. Errors
are `broker.settings`.
"""

from __future__ import annotations

import logging
import re

from broker.network.listeners import PLAINTEXT, ListenerAddress, is_loopback, split_host_port, uses_sasl, uses_tls
from broker.security.listener_security import JAAS, METRICS
from broker.settings import METRICS_PROTOCOL, PROVIDERS, Settings, is_password
from controller.acls.acl import ANONYMOUS
from controller.acls.authorizer import parse_super_users
from controller.configs import BROKER_CONFIGS
from controller.configs.listener_names import is_listener_setting, listener_of, listener_prefix, without_listener
from controller.configs.unsupported import POLICY_CLASSES
from controller.configs.unsupported_security import SECURITY_CONFIGS

_AUTHORIZER_SETTINGS = {"super.users", "allow.everyone.if.no.acl.found"}
_SECURITY_CONFIGS = {definition.name: definition for definition in SECURITY_CONFIGS}

_NEXT_USER = re.compile(r",\s*User:")

_log = logging.getLogger("broker")


def warn_of_settings(settings: Settings) -> None:
    """Log unknown settings, security settings without effect, and a replication factor above 1 on a single node."""
    if settings.unknown:
        names = "; ".join(_unknown(name, origin) for name, origin in settings.unknown.items())
        _log.warning("Ignoring unknown settings: %s", names)
    _warn_of_listener_settings(settings)
    if idle := sorted(name for name, value in settings.explicit.items() if _is_unsupported_security(name, value)):
        of_clients = [one for one in settings.listeners if one.listener not in settings.controller_listeners]
        open_to_all = any(listener.security_protocol == PLAINTEXT for listener in of_clients)
        everything = "" if settings["authorizer.class.name"] else " and do everything"
        _log.warning(
            "Security settings without effect: %s%s",
            ", ".join(idle),
            f". Any client can connect{everything}, without authentication or encryption" if open_to_all else "",
        )
    for name, effect in POLICY_CLASSES.items():
        if settings[name]:
            _log.warning("%s=%s is a Java class, which cannot be loaded: %s", name, settings[name], effect)
    if PROVIDERS not in settings.explicit:
        for name in sorted(name for name, text in settings.explicit.items() if is_password(name) and "${" in text):
            _log.warning("%s has ${...}, which is taken as it is, because %s is not set", name, PROVIDERS)
    _warn_of_super_users(settings)
    _warn_of_open_listeners(settings)
    _warn_of_open_metrics(settings)
    if settings["delegation.token.secret.key"] and settings.forwarding_protocol == PLAINTEXT:
        _log.warning(
            "delegation.token.secret.key: requests for delegation tokens are refused, because they would be forwarded "
            "to a controller listener with PLAINTEXT. Set SASL or TLS for the first of controller.listener.names"
        )
    if "group.initial.rebalance.delay.ms" in settings.explicit and not settings["group.initial.rebalance.delay.ms"]:
        _log.debug(
            "group.initial.rebalance.delay.ms=0, as in the server.properties that Apache Kafka comes with: a new group "
            "does not wait for more members (default: 3000)"
        )
    replicas = settings["default.replication.factor"]
    if replicas > 1 and not settings.voters:
        _log.warning(
            "default.replication.factor=%d, but there is one broker: topics need an explicit replication factor of 1",
            replicas,
        )


def _warn_of_listener_settings(settings: Settings) -> None:
    """Warn of settings of single listeners and mechanisms that belong to none."""
    known = {METRICS, *settings.controller_listeners, *(one.listener for one in settings.listeners)}
    if "listener.security.protocol.map" in settings.explicit:  # it may have listeners that only other nodes have
        known.update(settings.security_protocols)
    for name in filter(is_listener_setting, settings.explicit):
        listener, setting = listener_of(name), without_listener(name)
        if listener.upper() not in known:
            _log.warning("%s: without effect, because there is no listener %s", name, listener.upper())
        elif name.removesuffix(setting) != name.removesuffix(setting).lower():
            _log.warning(
                "%s: without effect, because names of listeners and mechanisms are lower case in settings", name
            )
        elif name == f"{listener_prefix(listener)}{JAAS}":
            _log.warning("%s: without effect; write it as %sMECHANISM.%s", name, listener_prefix(listener), JAAS)
    if settings.explicit.get(JAAS):
        _log.warning("%s: without effect; write it as listener.name.LISTENER.MECHANISM.%s", JAAS, JAAS)


def _warn_of_super_users(settings: Settings) -> None:
    if not settings["authorizer.class.name"]:
        if idle := sorted(_AUTHORIZER_SETTINGS & settings.explicit.keys()):
            _log.warning(
                "%s: without effect, because authorizer.class.name is not set: every client can do everything",
                ", ".join(idle),
            )
        return
    users = parse_super_users(settings["super.users"])
    if ANONYMOUS in users:
        _log.warning("super.users has %s: every client that does not authenticate can do everything", ANONYMOUS)
    for user in sorted(user for user in users if _NEXT_USER.search(user)):
        _log.warning("super.users: %s is one principal, because semicolons separate them, not commas", user)


def _warn_of_open_listeners(settings: Settings) -> None:
    """Warn of the listeners that other machines can connect to without authentication, all in one line."""
    reachable = [listener for listener in settings.listeners if not is_loopback(listener.host)]
    if found := [str(listener) for listener in reachable if not _authenticates(settings, listener)]:
        _log.warning(
            "%s: other machines can connect without authentication%s. Set SASL or ssl.client.auth=required for it, or "
            "listen on 127.0.0.1",
            ", ".join(found),
            f", as {ANONYMOUS}" if settings["authorizer.class.name"] else " and do everything",
        )


def _warn_of_open_metrics(settings: Settings) -> None:
    """Warn if other machines can read the metrics without a token or certificate, or a token on its way."""
    address, encrypted = settings["barnabas.metrics.listener"], uses_tls(settings[METRICS_PROTOCOL])
    if not address or is_loopback(split_host_port(address)[0]):
        return
    if not (settings["barnabas.metrics.token"] or (encrypted and _requires_certificates(settings, METRICS))):
        _log.warning(
            "barnabas.metrics.listener=%s: other machines can read the metrics, with the names of topics and users, "
            "without authentication. Set barnabas.metrics.token and %s=SSL, or listen on 127.0.0.1",
            address,
            METRICS_PROTOCOL,
        )
    elif not encrypted:
        _log.warning(
            "barnabas.metrics.listener=%s: barnabas.metrics.token is sent without encryption, and can be read. "
            "Set %s=SSL",
            address,
            METRICS_PROTOCOL,
        )


def _authenticates(settings: Settings, listener: ListenerAddress) -> bool:
    if uses_sasl(listener.security_protocol):
        return True
    return uses_tls(listener.security_protocol) and _requires_certificates(settings, listener.listener)


def _requires_certificates(settings: Settings, listener: str) -> bool:
    own = settings.explicit.get(f"{listener_prefix(listener)}ssl.client.auth")
    return (settings["ssl.client.auth"] if own is None else own) == "required"


def _is_unsupported_security(name: str, value: str) -> bool:
    """Return whether a setting, also of one listener, requests security that is not implemented."""
    definition = _SECURITY_CONFIGS.get(without_listener(name))
    return definition is not None and (value or None) != (definition.default or None)


def _unknown(name: str, origin: str) -> str:
    """Return the origin and name of an unknown setting, and the most similar known one."""
    from difflib import get_close_matches

    from controller.configs.topic import BROKER_SYNONYMS

    # A topic setting may have a synonym among the broker settings.
    meant = BROKER_SYNONYMS.get(name) or get_close_matches(name, BROKER_CONFIGS, n=1, cutoff=0.8)
    place = origin if origin.endswith(f" {name}") else f"{origin}: {name}"
    return f"{place} (did you mean {meant[0]}?)" if meant else place
