"""What a topic may be called, and which topics are the brokers' own.

Names become names of directories and of metrics: they are limited to 249 characters of a small alphabet, and because
metrics write `.` as `_`, two topics whose names differ only in those cannot both exist.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import product

from protocol.errors import ErrorCode, KafkaError

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

_MAX_LENGTH = 249
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


def colliding_topic(name: str, existing: Collection[str]) -> str | None:
    """Return a topic among `existing` that differs from `name` only in where it has `.` and where `_`.

    `existing` is looked up in, not gone through, unless the name has so many of those characters that it is shorter.
    """
    parts = re.split("[._]", name)
    ways = 1 << len(parts) - 1
    if ways == 1:
        return None
    if ways > len(existing):
        plain = name.replace(".", "_")
        return next((other for other in existing if other != name and other.replace(".", "_") == plain), None)
    for separators in product("._", repeat=len(parts) - 1):
        other = parts[0] + "".join(separator + part for separator, part in zip(separators, parts[1:], strict=True))
        if other != name and other in existing:
            return other
    return None
