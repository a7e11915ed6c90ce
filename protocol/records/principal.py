"""The principal in an Envelope, by which a broker forwards a request to the controller (KIP-590): version, then fields.

In text, a principal is `type:name`, such as User:alice.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.primitives import Buffer
from protocol.schema import Bool, Message, String, message, wire

_VERSION_BYTES = 2


@message(versions=(0, 0), flexible=0)
class DefaultPrincipalData(Message):
    """The principal that sent a request."""

    type: String
    name: String
    token_authenticated: Bool = wire(default=False)


class ForwardedPrincipal(NamedTuple):
    """A principal, as `type:name`, and whether the client authenticated with a delegation token."""

    name: str
    token_authenticated: bool = False


def encode_principal(principal: ForwardedPrincipal) -> bytes:
    """Return the bytes of a principal."""
    kind, _, name = principal.name.partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=principal.token_authenticated)
    return bytes(_VERSION_BYTES) + data.encode(0)


def decode_principal(data: Buffer) -> ForwardedPrincipal:
    """Return the principal; DecodeError if it is damaged or of an unknown version."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big")
    found = DefaultPrincipalData.decode(data, version, _VERSION_BYTES)
    return ForwardedPrincipal(f"{found.type}:{found.name}", found.token_authenticated)
