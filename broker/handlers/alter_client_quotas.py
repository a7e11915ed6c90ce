"""AlterClientQuotas: set and remove quotas of users, client ids and IP addresses (KIP-546).

Behaviour
- The controller decides each entity independently (`controller.commands.client_quotas`).
- As in Kafka, an IP entity may be a host name. It must resolve now, and is stored as it was sent.
- `broker.quotas` enforces byte rates, request percentages, rates of controller mutations and of new connections.

Version notes
- 0 and 1 have the same fields; 1 is flexible.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from controller.commands.client_quotas import IP, alter_client_quotas
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from broker.controller_server import ControllerServer
    from broker.network.connection import RequestContext


async def handle(
    controller: ControllerServer, _context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Submit the command; return its response once its records are committed."""
    hosts = {part.entity_name for entry in request.entries for part in entry.entity if part.entity_type == IP}
    unknown = [host for host in hosts if host and not await _resolves(controller.loop, host)]
    return await controller.raft.submit(lambda image: alter_client_quotas(image, request, unknown))


async def _resolves(loop: AbstractEventLoop, host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        try:
            await loop.getaddrinfo(host, None)
        except (OSError, UnicodeError):
            return False
    return True
