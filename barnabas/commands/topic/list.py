"""List topics with their partitions and replicas."""

import argparse
import sys

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import complain_of, show
from barnabas.commands._topics import choose, missing

EXAMPLES = """
  barnabas topic list
  barnabas topic list '^orders-'         by pattern
  barnabas topic list -q | wc -l         names only
  barnabas topic list --json | jq -r '.[].topic'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("topic", nargs="*", metavar="NAME|^PATTERN", help="default: every topic")
    parser.add_argument("-i", "--internal", action="store_true", help="list internal topics too")
    parser.add_argument("-q", "--quiet", action="store_true", help="print names only")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the topics; return 1 if a named one does not exist."""
    with admin(options) as client:
        topics = choose(client, options.topic, options.internal)
        problems = missing(client, options.topic, topics)
    there = [topic for topic in topics if not topic["error_code"]]
    rows = [
        {
            "topic": topic["name"],
            "partitions": len(topic["partitions"]),
            "replicas": max((len(partition["replica_nodes"]) for partition in topic["partitions"]), default=0),
            "internal": topic["is_internal"],
        }
        for topic in there
    ]
    if options.quiet and not options.json:
        sys.stdout.writelines(f"{row['topic']}\n" for row in rows)
    elif rows or options.json or not problems:
        show(options, ("topic", "partitions", "replicas"), rows)
    return complain_of(options.command, problems)
