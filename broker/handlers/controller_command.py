"""APIs that only submit a command of the controller (`command` of a row in `broker.routes`)."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from broker.controller_server import ControllerServer
from broker.network.connection import RequestContext


def handler(command: str) -> Callable[..., Any]:
    """Return the handler that submits the command `MODULE:FUNCTION` of `controller.commands`."""
    module, _, function = command.partition(":")
    return partial(_submit, getattr(import_module(f"controller.commands.{module}"), function or module))


async def _submit(
    command: Callable[..., Any], controller: ControllerServer, _context: RequestContext, request: Any
) -> Any:
    """Submit a command; return its response once its records are committed, or within the request's timeout."""
    settings = controller.settings
    return await controller.raft.submit(
        lambda image: command(image, request, settings), getattr(request, "timeout_ms", None)
    )
