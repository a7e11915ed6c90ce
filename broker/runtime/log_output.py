"""Log output of the process: one line per event on standard error, as text or JSON."""

import logging
import re
import sys
import time
from typing import TextIO

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
_MAX_QUOTED = 256
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def configure(level: str, style: str, stream: TextIO | None = None) -> None:
    """Send records of `level` (one of `LEVELS`) and above to `stream`, in one of the `FORMATS`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if style == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # No formatter uses these, and each costs a call per record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def quoted(text: str) -> str:
    """Return client-supplied text in quotation marks, in printable ASCII characters and cut."""
    import json  # imported only for lines with clients' text, and for the JSON format

    return json.dumps(text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}...")


class _TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line. Control characters are escaped: clients' text in a message must not forge a line."""
        return _CONTROL.sub(lambda found: repr(found.group())[1:-1], super().formatMessage(record))


class _JsonFormatter(logging.Formatter):
    """One object per line: time (ISO 8601, UTC), level, logger, message, and exception if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        import json  # as in `quoted`

        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        event = {
            "time": f"{second}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False)
