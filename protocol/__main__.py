"""Prints the functions generated for a message: `python -m protocol FetchResponse 18`."""

import contextlib
import sys
from functools import partial

from protocol.api import APIS, request_class, response_class
from protocol.compiler import compile_decoder, compile_encoder


def main(arguments: list[str]) -> int:
    """Print the decoder and the encoder of a message at a version; return the exit status."""
    if len(arguments) != 2 or not arguments[1].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    name, version = arguments[0], int(arguments[1])
    loaders = {
        f"{api.name}{suffix}".lower(): partial(load, key)
        for key, api in APIS.items()
        for suffix, load in (("Request", request_class), ("Response", response_class))
    }
    try:
        message = loaders[name.replace("_", "").lower()]()  # snake case is accepted too
    except LookupError:
        print(f"unknown message: {name}", file=sys.stderr)
        return 2
    first, last = message.VERSIONS
    if not first <= version <= last:
        print(f"{message.__name__} has versions {first} to {last}", file=sys.stderr)
        return 2
    for compile_codec in (compile_decoder, compile_encoder):
        print(compile_codec(message, version, version >= message.FLEXIBLE_FROM).text())
    return 0


if __name__ == "__main__":
    status = 0
    with contextlib.suppress(BrokenPipeError):  # the reader has exited
        status = main(sys.argv[1:])
        sys.stdout.flush()
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.close()  # not again at the exit
    sys.exit(status)
