"""The content of a request of any API: its topics with their partitions, its groups and transactional ids.

Found by the names of fields, as in `broker.error_responses`: a struct with a topic's name or id has its partitions in a
list, of numbers or of structs with an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

from broker.control.faults.rule import RequestContent, RequestedPartition
from protocol.api import ApiKey, request_class
from protocol.fields import Field, fields_of
from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Struct

M = TypeVar("M", bound=Struct)
TopicName: TypeAlias = Callable[[bytes], str | None]
"""Returns the name of the topic with an id."""

_NAMES = ("name", "topic", "topic_name")
_TOPIC_ID = "topic_id"
_INDEXES = ("index", "partition", "partition_index", "partition_id")
_PARTITION_LISTS = ("partitions", "partition_data", "partition_indexes")
_TOPIC_LISTS = ("topics", "topic_data", "topic_partitions", "v3_and_below_topics")
_TOPIC_NAME_LISTS = ("topic_names",)
_NESTED_LISTS = ("groups", "markers", "transactions")
_GROUPS = ("group_id", "group", "groups", "groups_names")
_TRANSACTIONAL_IDS = ("transactional_id", "v3_and_below_transactional_id", "transactional_ids")
_COORDINATOR_KEYS = ("key", "coordinator_keys")
_GROUP_KEY, _TRANSACTION_KEY = 0, 1


def content_of(request: Message, topic_name: TopicName) -> RequestContent:
    """Return the content of a request. A Fetch in a session names the partitions that change; see `fetch_faults`."""
    groups = set(_texts(request, _GROUPS))
    transactional_ids = set(_texts(request, _TRANSACTIONAL_IDS))
    partitions = list(_partitions(request, topic_name))
    for nested in _nested(request):
        groups |= set(_texts(nested, _GROUPS))
        transactional_ids |= set(_texts(nested, _TRANSACTIONAL_IDS))
        partitions += _partitions(nested, topic_name)
    if request.API_KEY == ApiKey.FIND_COORDINATOR:
        kind = getattr(request, "key_type", _GROUP_KEY)
        keys = set(_texts(request, _COORDINATOR_KEYS))
        groups |= keys if kind == _GROUP_KEY else set()
        transactional_ids |= keys if kind == _TRANSACTION_KEY else set()
    return RequestContent(tuple(partitions), frozenset(groups), frozenset(transactional_ids))


def conditions_of(api_key: int) -> frozenset[str]:
    """Return which of the conditions topic, partition, group and transactional_id requests of an API can fulfil."""
    fields = list(fields_of(request_class(ApiKey(api_key))))
    structs = [one.struct for one in fields if one.name in _NESTED_LISTS and one.is_list and one.struct is not None]
    fields = [*fields, *(field for struct in structs for field in fields_of(struct))]
    found = set()
    for field in fields:
        if field.name in _TOPIC_NAME_LISTS or (field.name in _TOPIC_LISTS and field.struct is not None):
            found |= {"topic", "partition"}
        if field.struct is None and field.name in _GROUPS:
            found.add("group")
        if field.struct is None and field.name in _TRANSACTIONAL_IDS:
            found.add("transactional_id")
    if api_key == ApiKey.FIND_COORDINATOR:
        found |= {"group", "transactional_id"}
    return frozenset(found)


def selected(request: M, keep: Callable[[RequestedPartition], bool], topic_name: TopicName) -> M:
    """Return a copy of a request, or a struct in it, with the topics and partitions that `keep` returns True for."""
    copy = _copy(request)
    for field in fields_of(type(request)):
        value = getattr(request, field.name)
        if not field.is_list or not value:
            continue
        if field.name in _TOPIC_NAME_LISTS:
            setattr(copy, field.name, [name for name in value if keep((name, None))])
        elif field.name in _TOPIC_LISTS and field.struct is not None:
            topics = (_selected_topic(topic, keep, topic_name) for topic in value)
            setattr(copy, field.name, [topic for topic in topics if topic is not None])
        elif field.name in _NESTED_LISTS and field.struct is not None:
            setattr(copy, field.name, [selected(one, keep, topic_name) for one in value])
    return copy


def _selected_topic(topic: Any, keep: Callable[[RequestedPartition], bool], topic_name: TopicName) -> Any:
    """Return a copy of a topic with the chosen partitions; None if none of them is chosen."""
    name = _name(topic, topic_name)
    field = _partition_list(topic)
    if field is None:
        return topic if keep((name, None)) else None
    chosen = [one for one in getattr(topic, field.name) or () if keep((name, _index(one)))]
    if not chosen:
        return None
    copy = _copy(topic)
    setattr(copy, field.name, chosen)
    return copy


def _copy(value: M) -> M:
    copy = object.__new__(type(value))
    for field in fields_of(type(value)):
        setattr(copy, field.name, getattr(value, field.name))
    return copy


def _partitions(struct: Any, topic_name: TopicName) -> Iterator[RequestedPartition]:
    for field in fields_of(type(struct)):
        if field.name in _TOPIC_NAME_LISTS:
            for name in getattr(struct, field.name) or ():
                yield name, None
        elif field.name in _TOPIC_LISTS and field.is_list and field.struct is not None:
            for topic in getattr(struct, field.name) or ():
                yield from _partitions_of(topic, topic_name)


def _partitions_of(topic: Any, topic_name: TopicName) -> Iterator[RequestedPartition]:
    name = _name(topic, topic_name)
    field = _partition_list(topic)
    if field is None:
        yield name, None
        return
    for one in getattr(topic, field.name) or ():
        yield name, _index(one)


def _name(topic: Any, topic_name: TopicName) -> str:
    """Return the name of a topic in a request; empty if there is no topic with its id."""
    for name in _NAMES:
        found = getattr(topic, name, None)
        if found:
            return str(found)
    topic_id = getattr(topic, _TOPIC_ID, ZERO_UUID)
    return "" if topic_id == ZERO_UUID else topic_name(topic_id) or ""


def _partition_list(topic: Any) -> Field | None:
    return next((field for field in fields_of(type(topic)) if field.is_list and field.name in _PARTITION_LISTS), None)


def _index(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    index: int = next(getattr(partition, name) for name in _INDEXES if hasattr(partition, name))
    return index


def _nested(request: Any) -> Iterator[Any]:
    for field in fields_of(type(request)):
        if field.name in _NESTED_LISTS and field.is_list and field.struct is not None:
            yield from getattr(request, field.name) or ()


def _texts(struct: Any, names: tuple[str, ...]) -> Iterator[str]:
    for field in fields_of(type(struct)):
        if field.name in names and field.struct is None:
            value = getattr(struct, field.name)
            if isinstance(value, str):
                yield value
            elif isinstance(value, list):
                yield from (one for one in value if isinstance(one, str))
