"""Envelope: a client's request that a broker forwards to the active controller (KIP-590).

Behaviour
- The embedded request is handled as if its client had sent it here, with the principal of the envelope.
- NOT_CONTROLLER unless this node is the active controller, also if it loses leadership while handling the request.
- INVALID_REQUEST if the embedded request cannot be decoded or is not a forwarded API.
"""

from ipaddress import ip_address

from broker.controller_server import ControllerServer
from broker.network.connection import Connection, RequestContext
from broker.routes import FORWARDED
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.headers import decode_request_header
from protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from protocol.primitives import read_parts
from protocol.records.principal import decode_principal

_SIZE_BYTES = 4


async def handle(controller: ControllerServer, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Return the response to the embedded request."""
    if not controller.raft.leads:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    try:
        header, _ = decode_request_header(request.request_data)
        client = Connection(context.connection_id, context.listener, str(ip_address(request.client_host_address)))
        if request.request_principal is not None:
            client.principal, client.token_authenticated = decode_principal(request.request_principal)
        if header.api_key not in FORWARDED:
            raise DecodeError(f"{header.api_key.name} is not a forwarded API")
        frame = await controller.dispatcher.embedded(memoryview(request.request_data), client)
    except (DecodeError, ValueError):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    return EnvelopeResponse(response_data=read_parts(frame)[_SIZE_BYTES:])
