"""Listeners: where the broker listens, and the addresses that it advertises, as `name://host:port`.

A listener has an upper-case name, to which `listener.security.protocol.map` assigns a security protocol. An empty host
binds all interfaces, and is advertised as the machine's name. Port 0 binds any free port, which is advertised in place
of a 0.
"""

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import NamedTuple

PLAINTEXT = "PLAINTEXT"
SECURITY_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The names of the security protocols; the position of each is its number in registrations."""

_ENDPOINT = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[([0-9A-Za-z:.%_-]*)\]|([0-9A-Za-z.%_-]*)):(-?[0-9]+)")
_UNROUTABLE = ("0.0.0.0", "::")  # noqa: S104 - refused as advertised hosts


class ListenerError(ValueError):
    """A listener setting is invalid: `key` names it, the message has the reason."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


class ListenerAddress(NamedTuple):
    """One address to listen on or to advertise."""

    listener: str
    host: str
    port: int
    security_protocol: str = PLAINTEXT

    def __str__(self) -> str:
        return f"{self.listener}://{join_host_port(self.host, self.port)}"


def join_host_port(host: str, port: int) -> str:
    """Return `host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_host_port(address: str) -> tuple[str, int]:
    """Return the host, without brackets, and the port of HOST:PORT; ValueError for anything else."""
    host, colon, port = address.rpartition(":")
    bracketed = host[:1] == "[" and host[-1:] == "]"
    if not (colon and port.isascii() and port.isdecimal()) or (":" in host and not bracketed):
        raise ValueError("write it as HOST:PORT, with [] around an IPv6 host")
    if int(port) > 65535:
        raise ValueError(f"the port {port} is not between 0 and 65535")
    return host[1:-1] if bracketed else host, int(port)


def uses_tls(security_protocol: str) -> bool:
    """Return whether connections with that security protocol are encrypted."""
    return security_protocol.endswith("SSL")


def uses_sasl(security_protocol: str) -> bool:
    """Return whether clients with that security protocol authenticate with SASL."""
    return security_protocol.startswith("SASL")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to `host`: `localhost` or a loopback address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def parse_endpoints(key: str, items: Iterable[str], protocols: Mapping[str, str]) -> tuple[ListenerAddress, ...]:
    """Return the endpoints that the setting `key` lists; `protocols` maps their names to security protocols.

    Raise `ListenerError` for invalid syntax, a duplicate name, or an unsupported security protocol.
    """
    endpoints: dict[str, ListenerAddress] = {}
    for item in items:
        match = _ENDPOINT.fullmatch(item)
        if match is None:
            raise ListenerError(key, f"{item!r} is not of the form NAME://HOST:PORT, with [] around an IPv6 host")
        name, ipv6, plain, port = match.groups()
        name = name.upper()
        if not 0 <= int(port) <= 65535:
            raise ListenerError(key, f"the port of {item!r} is not between 0 and 65535")
        if name in endpoints:
            raise ListenerError(key, f"the listener {name} is listed twice")
        endpoints[name] = ListenerAddress(name, ipv6 or plain or "", int(port), _security_protocol(name, protocols))
    return tuple(endpoints.values())


def parse_protocol_map(key: str, items: Iterable[str]) -> dict[str, str]:
    """Return the security protocol of each listener, parsed from `NAME:PROTOCOL` items."""
    protocols = {}
    for item in items:
        name, _, protocol = (part.strip().upper() for part in item.partition(":"))
        if not name or protocol not in SECURITY_PROTOCOLS:
            choices = ", ".join(SECURITY_PROTOCOLS)
            raise ListenerError(key, f"{item!r} is not of the form NAME:PROTOCOL; protocols are {choices}")
        protocols[name] = protocol
    return protocols


def check_listeners(key: str, endpoints: Iterable[ListenerAddress]) -> None:
    """Raise `ListenerError` if two listeners have the same port."""
    ports: dict[int, str] = {}
    for endpoint in endpoints:
        other = ports.setdefault(endpoint.port, endpoint.listener)
        if endpoint.port and other != endpoint.listener:
            raise ListenerError(key, f"{other} and {endpoint.listener} have the same port {endpoint.port}")


def check_advertised(key: str, advertised: Iterable[ListenerAddress], listeners: Iterable[ListenerAddress]) -> None:
    """Raise `ListenerError` for an advertised listener that does not exist, or an unroutable address."""
    names = {endpoint.listener for endpoint in listeners}
    for endpoint in advertised:
        if endpoint.listener not in names:
            known = ", ".join(sorted(names))
            raise ListenerError(key, f"{endpoint.listener} is not one of the listeners: {known}")
        if endpoint.host in _UNROUTABLE:
            raise ListenerError(
                key,
                f"clients cannot connect to {join_host_port(endpoint.host, endpoint.port)}; "
                "set the address of this broker with --advertise HOST:PORT (advertised.listeners)",
            )


def _security_protocol(name: str, protocols: Mapping[str, str]) -> str:
    protocol = protocols.get(name)
    if protocol is None:
        raise ListenerError("listener.security.protocol.map", f"the listener {name} has no security protocol")
    return protocol
