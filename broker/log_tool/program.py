"""The entry point: one request, as JSON on its command line; results on standard output, errors on standard error.

The exit status is 0 if nothing is wrong, 1 if something is, 2 if the request cannot be executed.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence

from broker.log_tool.dump import dump
from broker.log_tool.repair import repair
from broker.log_tool.request import Request, RequestError, shown
from broker.log_tool.verify import verify
from storage.disk import Disk, OsDisk

COMMANDS: dict[str, Callable[[Disk, Request], int]] = {"dump": dump, "verify": verify, "repair": repair}
_CANNOT = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Execute the request; return the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    request = Request(**json.loads(arguments[1]))
    try:
        status = COMMANDS[request.command](OsDisk(read_only=not request.execute), request)
        sys.stdout.flush()
        return status
    except RequestError as error:
        return _fail(request, str(error))
    except BrokenPipeError:  # the reader of our output (head, a pager) has exited
        return _leave(0)
    except OSError as error:
        _fail(
            request, f"{shown(error.filename) if error.filename else 'cannot write standard output'}: {error.strerror}"
        )
        return _CANNOT if error.filename else _leave(_CANNOT)
    except KeyboardInterrupt:
        return 130


def _fail(request: Request, problem: str) -> int:
    sys.stderr.write(f"barnabas log {request.command}: {problem}\n")
    return _CANNOT


def _leave(status: int) -> int:
    """Exit at once: the interpreter would try to flush standard output again."""
    sys.stderr.flush()
    os._exit(status)
