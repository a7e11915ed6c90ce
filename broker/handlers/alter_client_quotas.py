"""AlterClientQuotas: set and remove quotas of users, clients and addresses (KIP-546).

Behaviour
- The controller decides each entity on its own (`controller.commands.client_quotas`).
- The name of a host stands for an address as in Kafka: it has to resolve now, and is kept as it was given.
- Quotas are kept and told; nothing is throttled by them yet.

Version notes
- Both versions say the same; 1 and later are flexible.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from controller.commands.client_quotas import IP, alter_client_quotas
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from broker.broker import Broker
    from broker.network.connection import RequestContext


async def handle(
    broker: Broker, _context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Submit the command and answer when it holds."""
    hosts = {part.entity_name for entry in request.entries for part in entry.entity if part.entity_type == IP}
    unknown = [host for host in hosts if host and not await _resolves(broker.loop, host)]
    return await broker.controller.submit(lambda image: alter_client_quotas(image, request, unknown))


async def _resolves(loop: AbstractEventLoop, host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        try:
            await loop.getaddrinfo(host, None)
        except (OSError, UnicodeError):
            return False
    return True
