"""Loading of the logs at start-up: opens each one, recovers it after an unclean shutdown, and logs what was lost."""

import asyncio
import logging

from broker.log_dirs.maintenance import report_problems
from broker.log_dirs.ownership import foreign_names
from protocol.plural import count_of
from storage.log_manager import LogManager

_log = logging.getLogger("broker")


async def open_found_logs(logs: LogManager, *, is_new: bool) -> None:
    """Open every log in the directories, one a turn of the loop; `is_new`: the directories are new.

    Raise LogRefused if a log cannot be opened.
    """
    if foreign := foreign_names(logs):
        _log.warning("Ignoring unknown files: %s", ", ".join(foreign))
    unclean = not (is_new or logs.clean)
    if unclean:
        _log.warning("The last shutdown was unclean: recovering logs from their recovery points")
    scanned_bytes = dropped_bytes = 0
    for log in logs.load():
        scanned_bytes += log.recovery.scanned_bytes
        dropped_bytes += log.recovery.truncated_bytes
        if log.recovery.changed:
            _log.log(logging.WARNING if log.recovery.lost else logging.INFO, "Recovered %s: %s", log, log.recovery)
        await asyncio.sleep(0)
    if unclean:
        _log.warning("Recovery checked %s and truncated %d", count_of(scanned_bytes, "byte"), dropped_bytes)
    if dropped_bytes:
        _log.warning(
            "Recovery drops the batches after a damaged one; `barnabas log repair`, run before the start, keeps them"
        )
    report_problems(logs)
