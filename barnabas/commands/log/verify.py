"""Check files against their formats and against each other, and list what is wrong: file, position, field, problem.

Batches are checked by their CRC, offsets and leader epochs; records by being read; indexes, transaction indexes,
snapshots and checkpoints by the batches. A position is a byte, or in a text a line. The exit status is 1 if anything is
wrong.
"""

from __future__ import annotations

import argparse

from barnabas.commands._log import add_target, hand_over
from barnabas.commands._output import add_json

EXAMPLES = """
  barnabas log verify barnabas-data                       everything in a data directory
  barnabas log verify barnabas-data -t letters -p 0       one log
  barnabas log verify backup/letters-0 --json             a list for programs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_target(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Let the server's program check the files."""
    return hand_over(options)
