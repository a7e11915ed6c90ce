"""Check files against their formats and each other; print the findings: file, position, field, problem.

Batches are checked by CRC, offsets and leader epochs; records by decoding them; indexes, transaction indexes, snapshots
and checkpoints against the batches. A position is a byte offset, or a line of a text file. The exit status is 1 if
there are findings.
"""

import argparse

from barnabas.commands._log import add_target, hand_over
from barnabas.commands._output import add_json

EXAMPLES = """
  barnabas log verify barnabas-data                       everything in a data directory
  barnabas log verify barnabas-data -t letters -p 0       one log
  barnabas log verify backup/letters-0 --json             as JSON
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_target(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Replace this process by the server's program, which checks the files."""
    return hand_over(options)
