"""Internal topics, in which the brokers keep state: what is lost with their records, and what prints these."""

from __future__ import annotations

from barnabas.commands._groups import OFFSETS
from barnabas.commands._transactions import TRANSACTIONS

HELD = {
    OFFSETS: "the committed offsets and the states of all groups",
    TRANSACTIONS: "the producer ids and the open transactions of all transactional ids",
    "__share_group_state": "the states of all share groups",
}
"""What each internal topic holds. Kafka marks no other topic as internal."""


def is_internal(topic: str | None) -> bool:
    """Return whether only brokers write to this topic."""
    return topic in HELD


def held_by(topic: str) -> str:
    """Return what an internal topic holds."""
    return HELD.get(topic, "state of the brokers")


def needs_force(topic: str, doing: str, does: str) -> str:
    """Return why an internal topic is not changed: `doing` that loses state, and `--force` `does` it."""
    return f"an internal topic with {held_by(topic)}: {doing} loses them; --force {does} it"


def not_written(topic: str) -> str:
    """Return why records for an internal topic are refused."""
    return f"{topic} is an internal topic with {held_by(topic)}: only brokers write to it"


def not_read(topic: str) -> str:
    """Return why an internal topic is not consumed, with the command that prints it."""
    return (
        f"{topic} is an internal topic, which is not consumed: on a broker's machine, "
        f"`barnabas log dump DATA-DIRECTORY -t {topic}` prints its records"
    )
