"""Rules for topic names, and the names of internal topics.

Names become parts of directory and metric names: they have at most 249 characters of a small alphabet, and two topics
whose names differ only in `.` and `_` cannot coexist, because metrics write `.` as `_`.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from controller.image import MetadataImage

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"

METADATA_TOPIC_ID = bytes(15) + b"\x01"

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

_MAX_LENGTH = 249
_MAX_LOOKED_UP_PARTS = 4
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION with the reason if `name` is not valid."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > _MAX_LENGTH:
        problem = f"the length of '{name}' is longer than the max allowed length {_MAX_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def unify_collision_chars(name: str) -> str:
    """Return a name as metrics write it; no two topics may share that (Kafka: `Topic.unifyCollisionChars`)."""
    return name.replace(".", "_")


def colliding_topic(name: str, image: MetadataImage) -> str | None:
    """Return the topic whose name differs from `name` only in `.` and `_`; None if there is none.

    With few separators each variant is looked up; else all topics are indexed, once per image.
    """
    parts = re.split("[._]", name)
    if len(parts) == 1:
        return None
    if len(parts) > _MAX_LOOKED_UP_PARTS:
        by_unified_name = image.memo.get(unify_collision_chars)
        if by_unified_name is None:
            by_unified_name = image.memo[unify_collision_chars] = {
                unify_collision_chars(topic): topic for topic in image.topics_by_name()
            }
        found: str | None = by_unified_name.get(unify_collision_chars(name))
        return found if found != name else None
    for separators in product("._", repeat=len(parts) - 1):
        other = parts[0] + "".join(separator + part for separator, part in zip(separators, parts[1:], strict=True))
        if other != name and image.topic(other) is not None:
            return other
    return None
