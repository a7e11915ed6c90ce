"""Changes of quotas of users, client ids and addresses (KIP-546; Kafka: `ClientQuotaControlManager`).

An entity is a user, a client id, both together, or an address, each by name or as the default of its type. Its changes
are made completely or not at all; an entity that a request names twice is refused. A quota is a positive number. The
caller resolves host names, as that takes time.
"""

from collections import Counter
from collections.abc import Collection

from controller.commands.controller_result import ControllerResult
from controller.image import NO_QUOTAS, MetadataImage, QuotaEntity, quota_entity
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from protocol.records.metadata import ClientQuotaRecord

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)

# The largest value of each quota. Those with a finite limit are whole numbers, within `_EPSILON`.
_QUOTAS = {
    "producer_byte_rate": float((1 << 63) - 1),
    "consumer_byte_rate": float((1 << 63) - 1),
    "request_percentage": float("inf"),
    "controller_mutation_rate": float("inf"),
}
_IP_QUOTAS = {"connection_creation_rate": float((1 << 31) - 1)}
_EPSILON = 1e-6

_Op = AlterClientQuotasRequest.Entry.Op


def alter_client_quotas(
    image: MetadataImage, request: AlterClientQuotasRequest, unknown_hosts: Collection[str] = ()
) -> ControllerResult[AlterClientQuotasResponse]:
    """Set and remove quotas, refusing an `ip` among `unknown_hosts`; no records if the request only validates."""
    records: list[ClientQuotaRecord] = []
    results: dict[QuotaEntity, AlterClientQuotasResponse.Entry] = {}
    entities = [
        quota_entity((part.entity_type, part.entity_name) for part in entry.entity) for entry in request.entries
    ]
    times = Counter(entities)
    for entity, entry in zip(entities, request.entries, strict=True):
        result = AlterClientQuotasResponse.Entry(
            error_message=None,
            entity=[
                AlterClientQuotasResponse.Entry.Entity(entity_type=part.entity_type, entity_name=part.entity_name)
                for part in entry.entity
            ],
        )
        results[entity] = result
        try:
            if times[entity] > 1:
                raise _invalid_request("Each quota entity must appear at most once.")
            _check_entity(entity, unknown_hosts)
            records += _alter(image, entity, entry.ops)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    response = AlterClientQuotasResponse(entries=list(results.values()))
    return ControllerResult(() if request.validate_only else tuple(records), response)


def _check_entity(entity: QuotaEntity, unknown_hosts: Collection[str]) -> None:
    if not entity:
        raise _invalid_request("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _invalid_request(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid_request(f"Empty {kind} not supported")
    names = dict(entity)
    if len(names) < len(entity):
        raise _invalid_request("Invalid client quota entity, an entity type appears twice")
    if IP in names:
        if len(names) > 1:
            raise _invalid_request("Invalid quota entity combination, IP entity should not be combined with others")
        if names[IP] in unknown_hosts:
            raise _invalid_request(f"{names[IP]} is not a valid IP or resolvable host.")


def _alter(image: MetadataImage, entity: QuotaEntity, ops: list[_Op]) -> list[ClientQuotaRecord]:
    """Return the records of the changed quotas."""
    limits = _IP_QUOTAS if entity[0][0] == IP else _QUOTAS
    current = image.client_quotas.get(entity, NO_QUOTAS)
    parts = [ClientQuotaRecord.Entity(entity_type=kind, entity_name=name) for kind, name in entity]
    records = []
    seen = set()
    for op in ops:
        if op.key in seen:
            raise _invalid_request(f"Duplicate quota key {op.key}")
        seen.add(op.key)
        if op.remove:
            if op.key in current:
                records.append(ClientQuotaRecord(entity=parts, key=op.key, value=0.0, remove=True))
            continue
        _check_value(op.key, op.value, limits)
        if current.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity=parts, key=op.key, value=op.value, remove=False))
    return records


def _check_value(key: str, value: float, limits: dict[str, float]) -> None:
    limit = limits.get(key)
    if limit is None:
        raise _invalid_request(f"Invalid configuration key {key}")
    if not value > 0:  # refuses NaN too
        raise _invalid_request(f"Quota {key} must be greater than 0")
    if value > limit:
        kind = "an INT" if key in _IP_QUOTAS else "a LONG"
        raise _invalid_request(f"Proposed value for {key} is too large for {kind}.")
    if limit != float("inf") and abs(value - round(value)) > _EPSILON:
        raise _invalid_request(f"{key} cannot be a fractional value.")


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
