"""Why records neither come nor go: partitions that nobody leads, or whose log directory has failed; a controller lost.

kafka-python takes all of that for something that passes, and tries again without saying so. So whoever has waited for a
while asks here. Only a failed directory does not pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING

from barnabas.commands._client import LOOK_MS, admin
from barnabas.commands._output import CommandError, some
from barnabas.commands._partitions import led_by, without_leader, without_log
from barnabas.commands._topics import choose
from barnabas.commands.cluster.quorum import describe as describe_quorum

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

QUIET_S = 5.0
"""How long nothing has to happen before it is asked why."""


class Unserved(CommandError):  # noqa: N818 - a state of affairs, not a malfunction
    """Some partitions cannot be served: to wait for them is in vain."""


def why_quiet(
    options: argparse.Namespace, topics: Collection[str], partitions: Collection[int] | None = None
) -> str | None:
    """Say why these partitions of these topics, or of patterns of them, are not served now, if that can be told.

    Raise `Unserved` if it will not pass.
    """
    from kafka.errors import KafkaError

    def wanted(names: list[str]) -> list[str]:
        return [name for name in names if partitions is None or int(name.rpartition("/")[2]) in partitions]

    try:
        with admin(options, request_timeout_ms=LOOK_MS) as client:
            away = client.away()
            described = client.describe_log_dirs(brokers=client.answering(away))
            chosen = choose(client, list(topics))
            lost = _lost_controller(client)
    except (CommandError, KafkaError):
        return None
    if found := wanted(without_log(chosen, described)):
        raise Unserved(
            f"KAFKA_STORAGE_ERROR: {some(found)} cannot be served, since the log directory has failed or is full; "
            "`barnabas health` tells more"
        )
    if found := wanted(without_leader(chosen)):
        return f"no broker leads {some(found)}"
    for number, why in away.items():
        if found := wanted(led_by(chosen, number)):
            return f"{some(found)} cannot be served: {why}"
    return lost


def _lost_controller(client: Admin) -> str | None:
    try:
        describe_quorum(client)
    except CommandError as error:
        return str(error)
    return None
