"""Say what would mend damaged files, or with --execute do that.

No valid batch is lost: bytes that are none are moved to a file beside (`*.damaged`), and an empty batch takes the
place of the offsets that were in them, so that those behind keep theirs. Indexes, leader epochs and transaction indexes
are made anew from the batches; checkpoints that are behind a log's end get that end. What cannot be mended, such as the
metadata log, is named and left alone, and the exit status is 1. Without --execute nothing is written. A data directory
that a broker uses is refused.
"""

from __future__ import annotations

import argparse

from barnabas.commands._log import add_target, hand_over
from barnabas.commands._output import add_json

EXAMPLES = """
  barnabas log repair barnabas-data                       only print what would be done
  barnabas log repair barnabas-data -t letters -p 0 --execute
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_target(parser, files=False)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--dry-run", action="store_true", help="only print what would be done (the default)")
    which.add_argument("--execute", action="store_true", help="do it")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Let the server's program mend the files."""
    return hand_over(options, execute=options.execute)
