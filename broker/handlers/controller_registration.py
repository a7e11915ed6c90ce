"""ControllerRegistration: a controller that starts registers its endpoints and feature levels (KIP-919)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.controllers import register_controller
from protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


async def handle(
    broker: Node, _context: RequestContext, request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    """Submit the command; return its response once its records are committed."""
    return await broker.controller.submit(partial(register_controller, request=request))
