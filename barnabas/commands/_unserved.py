"""Why records neither come nor go: partitions that a broker cannot serve, since their log directory has failed.

kafka-python takes KAFKA_STORAGE_ERROR for something that passes, and tries again without saying so. So whoever has
waited for a while asks here.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection

from barnabas.commands._client import admin
from barnabas.commands._output import CommandError
from barnabas.commands._partitions import without_log
from barnabas.commands._topics import choose

QUIET_S = 5.0
"""How long nothing has to happen before it is asked why."""

_SHOWN = 5


class Unserved(CommandError):  # noqa: N818 - a state of affairs, not a malfunction
    """Some partitions cannot be served: to wait for them is in vain."""


def refuse_unserved(
    options: argparse.Namespace, topics: Collection[str], partitions: Collection[int] | None = None
) -> None:
    """Raise `Unserved` if some of these partitions of these topics, or of patterns of them, are not served.

    Another CommandError if nobody can tell.
    """
    with admin(options) as client:
        found = without_log(choose(client, list(topics)), client.describe_log_dirs())
    if partitions is not None:
        found = [name for name in found if int(name.rpartition("/")[2]) in partitions]
    if found:
        rest = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise Unserved(
            f"KAFKA_STORAGE_ERROR: {', '.join(found[:_SHOWN])}{rest} cannot be served, since the log directory has"
            " failed or is full; `barnabas health` tells more"
        )
