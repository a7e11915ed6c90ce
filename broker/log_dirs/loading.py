"""The logs that a start finds: each is opened, and checked where the last stop was unclean; what was lost is said."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from broker.log_dirs.maintenance import report_problems
from broker.log_dirs.ownership import foreign_names
from protocol.plural import count_of

if TYPE_CHECKING:
    from storage.log_manager import LogManager

_log = logging.getLogger("broker")


async def open_found_logs(logs: LogManager, *, is_new: bool) -> None:
    """Open every log of the directories, which may be new, a log a turn of the loop; LogRefused if one cannot be."""
    if foreign := foreign_names(logs):
        _log.warning("Ignored, being nothing that a broker makes: %s", ", ".join(foreign))
    unclean = not (is_new or logs.clean)
    if unclean:
        _log.warning("The last stop was unclean: checking the logs from their recovery points on")
    scanned_bytes = dropped_bytes = 0
    for log in logs.load():
        scanned_bytes += log.recovery.scanned_bytes
        dropped_bytes += log.recovery.truncated_bytes
        if log.recovery.changed:
            _log.log(logging.WARNING if log.recovery.lost else logging.INFO, "Recovered %s: %s", log, log.recovery)
        await asyncio.sleep(0)
    if unclean:
        _log.warning("Checked %s, cut off %d", count_of(scanned_bytes, "byte"), dropped_bytes)
    if dropped_bytes:
        _log.warning("`barnabas log repair`, before a start, keeps valid batches that are behind a damaged one")
    report_problems(logs)
