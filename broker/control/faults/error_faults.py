"""Errors in responses of any API, for a whole request or for some of its partitions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from broker.control.faults.request_content import TopicName, selected
from broker.control.faults.rule import RequestedPartition
from broker.error_responses import error_response
from protocol.api import ApiKey, response_class
from protocol.errors import ErrorCode
from protocol.fields import fields_of
from protocol.headers import decode_response_header
from protocol.messages.metadata import MetadataRequest
from protocol.primitives import Part, read_parts
from protocol.schema import Message

_SIZE_BYTES = 4
_MESSAGE = "injected by a fault rule of the control API"
_NAMES = ("name", "topic", "topic_name")
_OTHER_IDENTITIES = (
    "group_id", "transactional_id", "member_id", "partition_index", "partition", "partition_id", "index",
)  # fmt: skip


def read_response(key: ApiKey, version: int, parts: list[Part]) -> Message:
    """Return a response from its frame; slices of files are read."""
    frame = memoryview(bytearray(read_parts(parts)))[_SIZE_BYTES:]
    _, body_at = decode_response_header(key, version, frame)
    return response_class(key).decode(frame, version, body_at)


def error_of(
    key: ApiKey,
    version: int,
    request: Message,
    code: ErrorCode,
    partitions: Collection[RequestedPartition],
    topic_name: TopicName,
) -> Message:
    """Return the response in which `partitions` of a request failed with `code`, and has no others; all if empty.

    LookupError if the response has no place for an error code.
    """
    if not partitions:
        return error_response(key, version, request, code, _MESSAGE)
    if isinstance(request, MetadataRequest) and not request.topics:  # all topics
        named = [MetadataRequest.Topic(topic_id=bytes(16), name=name) for name, _ in partitions]
        failed: Message = MetadataRequest(topics=named)
    else:
        failed = selected(request, partitions.__contains__, topic_name)
    return error_response(key, version, failed, code, _MESSAGE, of_each=True)


def merge(response: Any, errors: Any) -> None:
    """Put the entries of `errors` in the place of those of `response` for the same topics, partitions and groups."""
    for field in fields_of(type(response)):
        if not field.is_list or field.struct is None:
            continue
        entries = getattr(response, field.name)
        known = {_identity(entry): at for at, entry in enumerate(entries or ())}
        for failed in getattr(errors, field.name) or ():
            at = known.get(_identity(failed))
            if at is None:
                entries.append(failed)
            elif _has_entries(failed):
                merge(entries[at], failed)
            else:
                entries[at] = failed


def _has_entries(struct: Any) -> bool:
    return any(field.is_list and field.struct is not None and getattr(struct, field.name) for field in _fields(struct))


def _fields(struct: Any) -> Any:
    return fields_of(type(struct))


def _identity(entry: Any) -> tuple[object, ...]:
    """Return what tells an entry from others of its list: a topic's name, or else its id, and numbers and ids."""
    values = {field.name: getattr(entry, field.name) for field in _fields(entry)}
    topic = next((values[name] for name in _NAMES if values.get(name)), None) or values.get("topic_id")
    return topic, *(values.get(name) for name in _OTHER_IDENTITIES)
