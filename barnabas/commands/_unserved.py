"""Diagnosis of waiting records: partitions without leader or log directory, a lost controller, open transactions.

kafka-python treats all of these as transient, and retries silently. A command that has waited for `STALLED_S` calls
this module for the reason. Only a failed directory is permanent.
"""

from __future__ import annotations

import argparse
import shlex
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from barnabas.commands._client import admin
from barnabas.commands._held_back import pending_offsets
from barnabas.commands._output import SHOWN, CommandError, complain, some
from barnabas.commands._partitions import led_by, without_leader, without_log
from barnabas.commands._topics import choose, end_offsets, last_stable_offsets, partitions_of
from barnabas.commands._transactions import holder, open_rows
from barnabas.commands.cluster.quorum import describe as describe_quorum

if TYPE_CHECKING:
    from kafka import TopicPartition

    from barnabas.commands._admin import Admin

STALLED_S = 2.0
"""After how long without a received or acknowledged record the cluster is queried for the reason."""

SLOW_S = 0.5
QUORUM_MS = 1500
"""Timeout of a request for the quorum's leader."""


class Unserved(CommandError):  # noqa: N818 - a state of the cluster
    """Some partitions cannot be served; waiting for them is useless."""


def why_quiet(
    options: argparse.Namespace,
    topics: Collection[str],
    partitions: Collection[int] | None = None,
    controller_first: bool = False,
) -> str | None:
    """Return why partitions of these topics (or patterns) are not served now; None if that is unknown.

    With `controller_first` a lost controller comes before the partitions: it also delays what has no partition yet.
    Raise `Unserved` if the reason is permanent.
    """
    from kafka.errors import KafkaError

    def wanted(names: list[str]) -> list[str]:
        return [name for name in names if partitions is None or int(name.rpartition("-")[2]) in partitions]

    try:
        with admin(options, request_timeout_ms=2 * QUORUM_MS) as client:
            away = client.away()
            described = client.describe_log_dirs(brokers=client.answering(away))
            chosen = choose(client, list(topics))
            unreachable = [(wanted(led_by(chosen, number)), why) for number, why in away.items()]
            why = (
                (lost_controller(client) if controller_first else None)
                or _not_served(wanted(without_log(chosen, described)))
                or _leaderless(wanted(without_leader(chosen)))
                or _unreachable(unreachable)
                or lost_controller(client)
            )
    except (CommandError, KafkaError):
        return None
    if isinstance(why, Unserved):
        raise why
    return why


def why_held_back(
    options: argparse.Namespace,
    topics: Collection[str],
    partitions: Collection[int] | None = None,
    read_to: Mapping[TopicPartition, int] | None = None,
) -> str | None:
    """Return which partitions of these topics (or patterns) hold records behind an open transaction; None if none do.

    A read_committed consumer waits for the end of the transaction (`barnabas.commands.topic.describe`). With `read_to`,
    only the partitions that have been read up to these offsets, and are held back there.
    """
    from kafka import TopicPartition
    from kafka.errors import KafkaError

    with suppress(CommandError, KafkaError), admin(options, request_timeout_ms=2 * QUORUM_MS) as client:
        found = partitions_of(choose(client, list(topics)))
        wanted = [one for one in found if partitions is None or one.partition in partitions]
        ends, stable = end_offsets(client, wanted), last_stable_offsets(client, wanted)
        rows, _ = open_rows(client, [one for one in wanted if stable[one] < ends[one]], client.answering())
        held = {
            f"{name} waits at offset {row['start']} for {holder(name, row)}": topic
            for (topic, index), (row, *_) in rows.items()
            if read_to is None or read_to.get(TopicPartition(topic, index)) == row["start"]
            for name in [f"{topic}-{index}"]
        }
        if held:
            names = shlex.join(dict.fromkeys(list(held.values())[:SHOWN]))
            return f"{some([*held])}; `barnabas topic describe {names}` shows them"
    return None


def why_pending(options: argparse.Namespace, partitions: Collection[TopicPartition]) -> str | None:
    """Return which of these partitions have a pending offset of the consumer's group; None if none has.

    A read_committed consumer begins to read a partition when the transaction that commits its offset has ended.
    """
    from kafka.errors import KafkaError

    if not partitions:
        return None
    with suppress(CommandError, KafkaError), admin(options, request_timeout_ms=2 * QUORUM_MS) as client:
        found, transactions = pending_offsets(client, options.group, partitions)
        if pending := [f"{one.topic}-{one.partition}" for one in found if one in partitions]:
            return (
                f"offsets of {some(pending)} are pending: group {options.group} waits for the end of "
                f"{some(transactions) or 'an open transaction'}; `barnabas group describe "
                f"{shlex.quote(options.group)}` shows them"
            )
    return None


def why_uncoordinated(options: argparse.Namespace) -> str:
    """Return why the consumer's group has no coordinator, which it needs to read."""
    from kafka.errors import KafkaError

    why: str | None = None
    with suppress(CommandError, KafkaError), admin(options, request_timeout_ms=QUORUM_MS) as client:
        why = lost_controller(client)
    because = f": {why}" if why else ""
    return (
        f"no broker coordinates group {options.group}{because} (without --group, partitions with a leader can be read)"
    )


def _not_served(partitions: list[str]) -> Unserved | None:
    if not partitions:
        return None
    return Unserved(
        f"KAFKA_STORAGE_ERROR: {some(partitions)} cannot be served: the log directory has failed or is full; "
        "see `barnabas health`"
    )


def _leaderless(partitions: list[str]) -> str | None:
    return f"no broker leads {some(partitions)}" if partitions else None


def _unreachable(leaders: list[tuple[list[str], str]]) -> str | None:
    """Return which partitions wait for which leaders; `leaders` has the partitions of each, and why it is away."""
    return "; ".join(f"{some(led)} cannot be served: {why}" for led, why in leaders if led) or None


@contextmanager
def controller_awaited(options: argparse.Namespace) -> Iterator[None]:
    """Report within 5 s if no controller answers while the block waits for one."""

    def check() -> None:
        if ended.wait(SLOW_S):
            return
        with suppress(CommandError, KafkaError), admin(options, request_timeout_ms=QUORUM_MS) as client:
            if (why := lost_controller(client)) and not ended.is_set():
                complain(options.command, f"{why}; waiting for it")

    from kafka.errors import KafkaError

    ended = threading.Event()
    thread = threading.Thread(target=check, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(SLOW_S)


def lost_controller(client: Admin) -> str | None:
    """Return why no controller answers; None if one does."""
    try:
        describe_quorum(client)
    except CommandError as error:
        return str(error)
    return None
