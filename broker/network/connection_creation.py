"""The limits on the rate of new connections, from the broker configs and the client quotas (KIP-612).

Without any limit the server has no `ConnectionRates`, and an accepted connection costs nothing more. An `ip` of a quota
may be a host name, as in Kafka; it takes effect once it is resolved. The rules are `broker.quotas.connection_rates`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from controller.image import QuotaEntity

if TYPE_CHECKING:
    from broker.metadata.dynamic_config import DynamicConfig
    from broker.network.socket_server import Server
    from broker.quotas.connection_rates import ConnectionRates
    from broker.settings import Settings

SETTING = "max.connection.creation.rate"
_UNLIMITED = (1 << 31) - 1
_IP, _QUOTA = "ip", "connection_creation_rate"

_log = logging.getLogger("broker.server")


class ConnectionCreationLimits:
    """Applies the limits to a server, whenever one of them changes."""

    def __init__(
        self,
        settings: Settings,
        dynamic_config: DynamicConfig,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        inter_broker_listener: str,
    ) -> None:
        """Limit nothing before the first `apply`."""
        self._inter_broker_listener = inter_broker_listener
        self._settings = settings
        self._dynamic_config = dynamic_config
        self._server = server
        self._loop = loop
        self._rates: ConnectionRates | None = None
        self._quotas: Mapping[str | None, float] = {}
        self._addresses: dict[str, float] = {}
        self._resolving: asyncio.Task[None] | None = None

    def apply(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Use the current configs, and the quotas of a metadata image."""
        found = {
            entity[0][1]: values[_QUOTA]
            for entity, values in quotas.items()
            if entity[0][0] == _IP and _QUOTA in values
        }
        if found != self._quotas:
            self._quotas = found
            names, self._addresses = _parted(found)
            if self._resolving is not None:
                self._resolving.cancel()
            self._resolving = self._loop.create_task(self._resolve(names)) if names else None
        self._limit()

    def _limit(self) -> None:
        of_broker = self._dynamic_config[SETTING]
        names = (endpoint.listener for endpoint in self._settings.listeners)
        own = {name: self._dynamic_config.own_of_listener(name, SETTING) for name in names}
        per_listener = {name: rate for name, rate in own.items() if rate is not None and rate != _UNLIMITED}
        if of_broker == _UNLIMITED and not per_listener and not self._quotas:
            self._server.connection_rates = None
            return
        from broker.quotas.connection_rates import RateLimits

        if self._rates is None:
            self._rates = self._new_rates()
        self._rates.limit(
            RateLimits(
                None if of_broker == _UNLIMITED else of_broker, per_listener, self._addresses, self._quotas.get(None)
            )
        )
        self._server.connection_rates = self._rates

    def _new_rates(self) -> ConnectionRates:
        from broker.monitoring.rate import SampleWindow
        from broker.quotas.connection_rates import ConnectionRates

        settings = self._settings
        window = SampleWindow(settings["quota.window.num"], 1000 * settings["quota.window.size.seconds"])
        clients = {endpoint.listener for endpoint in settings.listeners} - set(settings.controller_listeners)
        exempt = set(settings.controller_listeners)
        if len(clients) > 1:
            exempt.add(self._inter_broker_listener)
        return ConnectionRates(window, lambda: 1000 * self._loop.time(), exempt)

    async def _resolve(self, names: Mapping[str, float]) -> None:
        for name, limit in names.items():
            try:
                found = await self._loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                _log.warning("The quota of ip %s has no effect: %s", name, getattr(error, "strerror", None) or error)
            else:
                self._addresses.update((str(address[0]), limit) for *_, address in found)
        self._limit()


def _parted(quotas: Mapping[str | None, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the quotas of host names, and those of addresses, as sockets write these."""
    from ipaddress import ip_address  # imported only if there are quotas of addresses

    names, addresses = {}, {}
    for name, limit in quotas.items():
        if name is not None:
            try:
                addresses[str(ip_address(name))] = limit
            except ValueError:
                names[name] = limit
    return names, addresses
