"""The commands that are Kafka clients, one module each.

A command module offers `add_arguments(parser)` and `run(options) -> int`. Results go to standard output, errors to
standard error; the exit status is 0 only if everything that was asked for happened. 2 means a wrong call.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from barnabas.commands._output import CommandError, explain


def run(command: str, arguments: list[str]) -> int:
    """Parse `arguments` for `command`, run it, and return its exit status."""
    module = importlib.import_module(f"barnabas.commands.{command}")
    parser = argparse.ArgumentParser(prog=f"barnabas {command}", description=module.__doc__)
    module.add_arguments(parser)
    options = parser.parse_args(arguments)
    try:
        return int(module.run(options))
    except CommandError as error:
        sys.stderr.write(f"barnabas {command}: {error}\n")
        return error.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output (head, a pager) has seen enough.
        sys.stderr.close()
        return 0
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        sys.stderr.write(f"barnabas {command}: {message}\n")
        return 1
