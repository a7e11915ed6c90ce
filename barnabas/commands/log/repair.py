"""Print the repairs that damaged files need; with --execute, make them.

No valid batch is lost: bytes that are not a batch are moved to a file `*.damaged` beside the log, and an empty batch
replaces their offsets, so that later records keep theirs. Indexes, leader epochs and transaction indexes are rebuilt
from the batches; checkpoints beyond a log's end are set to that end. What cannot be repaired, such as the metadata log,
is listed and left alone, and the exit status is 1. Without --execute nothing is written. A data directory in use by a
broker is refused.
"""

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
    which.add_argument("--execute", action="store_true", help="repair the files")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Replace this process by the server's program, which repairs the files."""
    return hand_over(options, execute=options.execute)
