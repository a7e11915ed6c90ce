"""What a topic may be called, and which topics are the brokers' own.

Names become names of directories and of metrics: they are limited to 249 characters of a small alphabet, and because
metrics write `.` as `_`, two topics whose names differ only in those cannot both exist.
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
_FEW_PARTS = 4
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION, saying why, if no topic can be called `name`."""
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


def plain_form(name: str) -> str:
    """Return what metrics make of a name: no two topics may have it in common."""
    return name.replace(".", "_")


def colliding_topic(name: str, image: MetadataImage) -> str | None:
    """Return the topic that differs from `name` only in where it has `.` and where `_`.

    Where there are few ways to write the name, each is looked up; for other names all topics are indexed, once for an
    image.
    """
    parts = re.split("[._]", name)
    if len(parts) == 1:
        return None
    if len(parts) > _FEW_PARTS:
        by_plain_form = image.memo.get(plain_form)
        if by_plain_form is None:
            by_plain_form = image.memo[plain_form] = {plain_form(topic): topic for topic in image.topics_by_name()}
        found: str | None = by_plain_form.get(plain_form(name))
        return found if found != name else None
    for separators in product("._", repeat=len(parts) - 1):
        other = parts[0] + "".join(separator + part for separator, part in zip(separators, parts[1:], strict=True))
        if other != name and image.topic(other) is not None:
            return other
    return None
