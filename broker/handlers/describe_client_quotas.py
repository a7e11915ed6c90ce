"""DescribeClientQuotas: list the quotas of the users, client ids and IP addresses that match a filter (KIP-546).

Behaviour
- A filter component selects one entity type: by exact name, by default (null name), or either. An entity matches if it
  has every type of the filter, and with `strict` no other.
- INVALID_REQUEST if a component repeats a type, has an empty one, or has a name where none is allowed or none where
  one is required, and for IP addresses together with users or client ids. UNSUPPORTED_VERSION for an unknown type.

Version notes
- 0 and 1 have the same fields; 1 is flexible.
"""

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from controller.commands.client_quotas import ENTITY_TYPES, IP
from controller.image import QuotaEntity
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

_EXACT, _DEFAULT, _ANY = range(3)

_Entry = DescribeClientQuotasResponse.Entry
_Component = DescribeClientQuotasRequest.Component


def handle(
    broker: BrokerServer, _context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the matching entities with their quotas."""
    try:
        wanted = _filter(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            _Entry(
                entity=[_Entry.Entity(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[_Entry.Value(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in broker.image.client_quotas.items()
            if _matches(entity, wanted, request.strict)
        ],
    )


def _filter(components: list[_Component]) -> dict[str, _Component]:
    """Return the component of each entity type; KafkaError if the filter is invalid."""
    wanted: dict[str, _Component] = {}
    for component in components:
        kind, how = component.entity_type, component.match_type
        if not kind:
            raise _invalid_request("Invalid empty entity type.")
        if kind in wanted:
            raise _invalid_request(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if how not in (_EXACT, _DEFAULT, _ANY):
            raise _invalid_request(f"Unknown match type {how}")
        if (component.match is not None) != (how == _EXACT):
            raise _invalid_request(f"Match type {how} needs {'a' if how == _EXACT else 'no'} match string.")
        wanted[kind] = component
    if IP in wanted and len(wanted) > 1:
        raise _invalid_request("An ip cannot be combined with a user or client-id in one filter.")
    return wanted


def _matches(entity: QuotaEntity, wanted: dict[str, _Component], strict: bool) -> bool:
    names = dict(entity)
    return (
        wanted.keys() <= names.keys()
        and not (strict and len(names) > len(wanted))
        and all(component.match_type == _ANY or component.match == names[kind] for kind, component in wanted.items())
    )


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
