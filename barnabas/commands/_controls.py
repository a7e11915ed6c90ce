"""The control APIs that `clock`, `fault` and `trace` use: those of --control, else of $BARNABAS_CONTROL."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from barnabas.commands._output import CommandError, WrongCall

if TYPE_CHECKING:
    from barnabas.testing._control import ControlClient


def add_control_options(parser: argparse.ArgumentParser) -> None:
    """Add `--control`."""
    parser.add_argument(
        "--control",
        metavar="URL,...",
        help="the control APIs of the brokers, as `barnabas up --control` prints them; default: $BARNABAS_CONTROL",
    )


def controls(options: argparse.Namespace) -> list[ControlClient]:
    """Return the clients of the control APIs; WrongCall if there is none."""
    given = options.control or os.environ.get("BARNABAS_CONTROL", "")
    urls = [url for part in given.split(",") if (url := part.strip())]
    if not urls:
        raise WrongCall(
            "no control API is named: write --control URL, or set BARNABAS_CONTROL; `barnabas run` sets it, and "
            "`barnabas up --control` prints the URLs"
        )
    where = "--control" if options.control else "$BARNABAS_CONTROL:"
    return [_client(url, where) for url in urls]


def _client(url: str, where: str) -> ControlClient:
    from barnabas.testing._control import ControlClient

    try:
        return ControlClient(url)
    except ValueError:
        raise WrongCall(f"{where} {url}: write it as http://:TOKEN@HOST:PORT") from None


def call(control: ControlClient, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Send a request and return the response; CommandError with the broker's message if it is refused."""
    from barnabas.testing import ClusterError

    try:
        return control.call(method, path, body)
    except ClusterError as error:
        raise CommandError(str(error)) from error
