"""The sender of a request: a client, or another node of the cluster."""

from __future__ import annotations

import re

from broker.network.connection import Connection
from broker.network.network_client import SOFTWARE
from protocol.api import APIS, ApiKey
from protocol.errors import DecodeError
from protocol.headers import RequestHeader
from protocol.messages.api_versions import ApiVersionsRequest

_NODE = re.compile(r"(?:broker|controller)-([0-9]+)")


def sending_node(header: RequestHeader, connection: Connection, frame: memoryview, body_at: int) -> int | None:
    """Return the id of the node that sent a request, None for a client.

    Nodes have the name of their software, which they send in their first request, ApiVersions.
    """
    is_node = connection.client_software[0] == SOFTWARE
    if header.api_key is ApiKey.API_VERSIONS and not is_node:
        is_node = _software(header, frame, body_at) == SOFTWARE
    found = _NODE.fullmatch(header.client_id or "") if is_node else None
    return None if found is None else int(found[1])


def _software(header: RequestHeader, frame: memoryview, body_at: int) -> str:
    """Return the name of the software in an ApiVersions request; empty if it has none."""
    if header.api_version not in APIS[ApiKey.API_VERSIONS].versions:
        return ""
    try:
        return ApiVersionsRequest.decode(frame, header.api_version, body_at).client_software_name
    except DecodeError:
        return ""
