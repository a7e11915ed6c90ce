"""The principal in an Envelope, by which a broker forwards a request to the controller (KIP-590): version, then fields.

In text, a principal is `type:name`, such as User:alice.
"""

from __future__ import annotations

from protocol.errors import DecodeError
from protocol.primitives import Buffer
from protocol.schema import Bool, Message, String, message, wire

_VERSION_BYTES = 2


@message(versions=(0, 0), flexible=0)
class DefaultPrincipalData(Message):
    """The principal that sent a request."""

    type: String
    name: String
    token_authenticated: Bool = wire(default=False)


def encode_principal(principal: str) -> bytes:
    """Return the bytes of `type:name`."""
    kind, _, name = principal.partition(":")
    return bytes(_VERSION_BYTES) + DefaultPrincipalData(type=kind, name=name).encode(0)


def decode_principal(data: Buffer) -> str:
    """Return the principal as `type:name`; DecodeError if it is damaged or of an unknown version."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big")
    if len(data) < _VERSION_BYTES or version not in range(DefaultPrincipalData.VERSIONS[1] + 1):
        raise DecodeError(f"a principal of unknown version {version}")
    found = DefaultPrincipalData.decode(data, version, _VERSION_BYTES)
    return f"{found.type}:{found.name}"
