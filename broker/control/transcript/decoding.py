"""Exchanges as JSON and as lines of text.

Fields that have their defaults are left out, error codes have their names, ids of topics their text, and records are
described by their batches. Secrets are redacted, because transcripts end in the output of tests: tokens of SASL, salted
passwords, HMACs of delegation tokens, requests in envelopes, and values of settings that DescribeConfigs does not show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from controller.configs import BROKER_CONFIGS, TOPIC_CONFIGS
from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS
from controller.configs.group import GROUP_CONFIGS
from controller.configs.listener_names import without_listener
from protocol.api import APIS, request_class, response_class
from protocol.errors import DecodeError, ErrorCode
from protocol.fields import Field, fields_of
from protocol.headers import decode_request_header, decode_response_header
from protocol.primitives import ZERO_UUID, uuid_text
from protocol.record_batch import HEADER_BYTES, MAGIC, read_header
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.control.transcript.exchange import Exchange, Frame

_SIZE_BYTES = 4
_DAY_MS = 24 * 3_600_000
_REDACTED = "(redacted)"
_SECRETS = frozenset({"auth_bytes", "hmac", "request_data", "response_data", "salted_password"})
_CODES = ("error_code", "partition_error_code")
_NAMES = {int(code): code.name for code in ErrorCode}


def described(exchange: Exchange, broker_id: int) -> dict[str, Any]:
    """Return an exchange as JSON."""
    api = APIS[exchange.header.api_key]
    return {
        "number": exchange.number,
        "time_ms": exchange.time_ms,
        "broker": broker_id,
        "api": api.name,
        "version": exchange.header.api_version,
        "correlation_id": exchange.header.correlation_id,
        "client_id": exchange.header.client_id,
        "client_host": exchange.client_host,
        "request": _decoded_request(exchange),
        "response": _decoded_response(exchange),
        "took_ms": exchange.took_ms,
        "fault": exchange.rule_id,
        "closed": exchange.reason or None,
    }


def line_of(exchange: Exchange) -> str:
    """Return an exchange as a line of text, without the line feed; its time is UTC."""
    api = APIS[exchange.header.api_key]
    seconds, thousandths = divmod(exchange.time_ms % _DAY_MS, 1000)
    at = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{thousandths:03d}"
    client = exchange.header.client_id or exchange.client_host
    begin = f"{at} #{exchange.number} {client}: {api.name} v{exchange.header.api_version}"
    request = _text(_decoded_request(exchange))
    if exchange.took_ms is None:
        end = "no response yet"
    else:
        end = f"{exchange.took_ms:.1f} ms: {exchange.reason or _text(_decoded_response(exchange))}"
    fault = "" if exchange.rule_id is None else f" (fault {exchange.rule_id})"
    return f"{begin} {request} -> {end}{fault}"


def names_topic(described_request: Any, topic: str, topic_id: str) -> bool:
    """Return whether a request as JSON names a topic, by its name or id, in any field."""
    if isinstance(described_request, dict):
        return any(names_topic(value, topic, topic_id) for value in described_request.values())
    if isinstance(described_request, list):
        return any(names_topic(value, topic, topic_id) for value in described_request)
    return described_request in (topic, topic_id) and isinstance(described_request, str)


def request_of(exchange: Exchange) -> Any:
    """Return the request of an exchange as JSON."""
    return _decoded_request(exchange)


def _decoded_request(exchange: Exchange) -> Any:
    key, version, _, _ = exchange.header
    try:
        if not isinstance(exchange.request, bytes):
            return _size(exchange.request)
        _, body_at = decode_request_header(exchange.request)
        return _shown(request_class(key).decode(exchange.request, version, body_at), version)
    except (DecodeError, KeyError) as error:
        return {"undecodable": str(error)}


def _decoded_response(exchange: Exchange) -> Any:
    key, version, _, _ = exchange.header
    if exchange.response is None:
        return None
    try:
        if not isinstance(exchange.response, bytes):
            return _size(exchange.response)
        frame = exchange.response[_SIZE_BYTES:]
        _, body_at = decode_response_header(key, version, frame)
        return _shown(response_class(key).decode(frame, version, body_at), version)
    except DecodeError as error:
        return {"undecodable": str(error)}


def _size(frame: Frame) -> dict[str, Any]:
    return {"bytes": frame}


def _shown(struct: Any, version: int) -> dict[str, Any]:
    found = {field.name: _value(field, value, version) for field, value in _set_fields(struct, version)}
    secrets = _SECRETS & found.keys()
    if isinstance(found.get("value"), str) and _is_secret_setting(found.get("name", "")):
        secrets |= {"value"}
    return found | dict.fromkeys(secrets, _REDACTED)


def _is_secret_setting(name: str) -> bool:
    """Return whether a setting has a secret value; as in DescribeConfigs, an unknown one has."""
    if any(name in known for known in (TOPIC_CONFIGS, GROUP_CONFIGS, CLIENT_METRICS_CONFIGS)):
        return False
    definition = BROKER_CONFIGS.get(without_listener(name))
    return definition is None or definition.sensitive


def _set_fields(struct: Any, version: int) -> Iterator[tuple[Field, Any]]:
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if version in field.versions and value != field.default:
            yield field, value


def _value(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_item(field, one, version) for one in value]
    return _item(field, value, version)


def _item(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return _shown(value, version)
    if field.name in _CODES:
        return _NAMES.get(value, value)
    if field.scalar == "Uuid":
        return None if value == ZERO_UUID else uuid_text(value)
    if field.scalar == "Records":
        return None if value is None else _batches(bytes(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return value


def _batches(data: bytes) -> Any:
    """Return the batches of records: those whose headers were kept."""
    batches, at = [], 0
    while len(data) - at >= HEADER_BYTES:
        header = read_header(data, at)
        if header.magic != MAGIC:
            break
        found: dict[str, Any] = {"base_offset": header.base_offset, "records": header.record_count}
        if header.producer_id >= 0:
            found |= {
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
            }
        if header.is_transactional:
            found["transactional"] = True
        batches.append(found)
        at += header.size_bytes
    return {"bytes": len(data), "batches": batches} if data else None


def _text(value: Any) -> str:
    """Return a value in one line: {topic_data: [{name: t}]}."""
    if isinstance(value, dict):
        return f"{{{_joined(f'{name}: {_text(one)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{_joined(map(_text, value))}]"
    return "null" if value is None else str(value)


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts)
