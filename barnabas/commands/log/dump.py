"""Print the contents of a log's files: batches with their records, indexes, snapshots, checkpoints.

Records of __consumer_offsets, __transaction_state and __cluster_metadata are decoded, and so are metadata snapshots and
control records. The type of a file follows from its name, as in Kafka. Damaged data does not end the output, but the
exit status is 1.
"""

import argparse

from barnabas.commands._log import add_target, hand_over
from barnabas.commands._output import add_json

EXAMPLES = """
  barnabas log dump barnabas-data -t letters                        all files of a topic's logs
  barnabas log dump barnabas-data -t letters -p 0 -o 100:200        some offsets
  barnabas log dump barnabas-data/letters-0/00000000000000000000.log
  barnabas log dump barnabas-data/__cluster_metadata-0 --json       one JSON object per line
  barnabas log dump barnabas-data -t letters --no-records           batches only
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_target(parser)
    parser.add_argument(
        "-o", "--offsets", default=":", metavar="FROM:TO", help="from offset FROM up to, not including, TO"
    )
    parser.add_argument("--no-records", action="store_true", help="print batches without their records")
    parser.add_argument(
        "--decoder",
        choices=("auto", "raw", "offsets", "transactions", "metadata"),
        default="auto",
        help="how to decode keys and values (default: by the topic)",
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Replace this process by the server's program, which prints the files."""
    return hand_over(options, offsets=options.offsets, records=not options.no_records, decoder=options.decoder)
