"""The operations of the control API on the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from broker.control.api_problem import bad_request

if TYPE_CHECKING:
    from broker.control.control import Control


class NetworkBody(NamedTuple):
    """From whom the broker is cut off: from clients, from other nodes."""

    clients: bool = False
    brokers: list[int] | None = None


async def describe_network(control: Control) -> dict[str, Any]:
    """Return from whom the broker is cut off."""
    peers = control.network.peers
    return {"clients": None in peers, "brokers": sorted(peer for peer in peers if peer is not None)}


async def cut_network(control: Control, body: NetworkBody) -> dict[str, Any]:
    """Cut the broker off from these, and from no others."""
    own = control.node.shared.settings.node_id
    if own in (body.brokers or ()):
        raise bad_request(f"brokers: {own} is this broker itself")
    control.network.set(frozenset((*(body.brokers or ()), *((None,) if body.clients else ()))))
    return await describe_network(control)


async def heal_network(control: Control) -> dict[str, Any]:
    """Remove all cuts."""
    control.network.set(frozenset())
    return await describe_network(control)
