"""Add partitions to topics.

Keys map to other partitions from then on: consumers that rely on the order of a key's records must have read the old
ones first.
"""

import argparse

from barnabas.commands._client import MAX_INT32, add_common_options, admin, partition_count
from barnabas.commands._output import Report, amount_of, explain_code
from barnabas.commands._topics import choose, unknown_topic
from barnabas.commands._unserved import controller_awaited

EXAMPLES = """
  barnabas topic add-partitions orders --num 3        three more partitions
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as rpk's users know them."""
    parser.add_argument("topic", nargs="+", metavar="NAME")
    parser.add_argument("-n", "--num", type=partition_count, required=True, metavar="N", help="how many more")
    parser.add_argument("-d", "--dry-run", action="store_true", help="validate only")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Add partitions to each topic; return 1 if one gets none."""
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        for topic in choose(client, options.topic):
            if topic["error_code"]:
                report.failed(topic["name"], unknown_topic(client, topic["name"]))
                continue
            total = len(topic["partitions"]) + options.num
            if total > MAX_INT32:
                report.failed(topic["name"], f"it would have {total:,} partitions; the most is {MAX_INT32:,}")
                continue
            (result,) = client.create_partitions(
                {topic["name"]: total}, raise_errors=False, validate_only=options.dry_run
            ).results
            if result.error_code:
                report.failed(topic["name"], explain_code(result.error_code, result.error_message))
            else:
                did = "would extend" if options.dry_run else "extended"
                report.done(did, topic["name"], f"{amount_of(total, 'partition')} now", partitions=total)
    return report.end()
