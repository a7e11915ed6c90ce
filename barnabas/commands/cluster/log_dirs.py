"""Show the brokers' log directories, and the sizes of topics or partitions in them."""

import argparse
from collections import Counter
from typing import Any

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import CommandError, complain_of, explain_code, show
from barnabas.commands._rights import needs

EXAMPLES = """
  barnabas cluster log-dirs
  barnabas cluster log-dirs --by topic              size by topic
  barnabas cluster log-dirs --by partition --json
"""
COLUMNS = {
    "dir": ("broker", "dir", "bytes", "partitions", "disk_bytes", "usable_bytes", "error"),
    "topic": ("broker", "dir", "topic", "bytes", "partitions"),
    "partition": ("broker", "dir", "topic", "partition", "bytes", "lag"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--by", choices=COLUMNS, default="dir", help="print a row for each (default: dir)")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the directories; return 1 if one has failed, or a broker does not answer."""
    with admin(options) as client:
        away = client.away()
        described = client.describe_log_dirs(brokers=client.answering(away))
    if not all(broker["log_dirs"] for broker in described):  # the broker lists none, and kafka-python drops the error
        raise CommandError(needs(client.config, "DESCRIBE", "cluster"))
    dirs = [(broker["broker"], one) for broker in described for one in broker["log_dirs"]]
    rows = [row for broker, one in dirs for row in _ROWS[options.by](broker, one)]
    if options.by != "dir":
        rows.sort(key=lambda row: -int(row["bytes"]))
    show(options, COLUMNS[options.by], rows, wrong=lambda row: bool(row.get("error")))
    return complain_of(options.command, list(away.values())) or int(any(one["error_code"] for _, one in dirs))


def _partition_rows(broker: int, found: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "broker": broker,
            "dir": found["log_dir"],
            "topic": topic["name"],
            "partition": partition["partition_index"],
            "bytes": partition["partition_size"],
            "lag": partition["offset_lag"],
            "moving_in": partition["is_future_key"],
        }
        for topic in found["topics"]
        for partition in topic["partitions"]
    ]


def _topic_rows(broker: int, found: dict[str, Any]) -> list[dict[str, Any]]:
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for row in _partition_rows(broker, found):
        sizes[row["topic"]] += row["bytes"]
        counts[row["topic"]] += 1
    return [
        {"broker": broker, "dir": found["log_dir"], "topic": topic, "bytes": size, "partitions": counts[topic]}
        for topic, size in sizes.items()
    ]


def _dir_rows(broker: int, found: dict[str, Any]) -> list[dict[str, Any]]:
    partitions = _partition_rows(broker, found)
    return [
        {
            "broker": broker,
            "dir": found["log_dir"],
            "bytes": sum(row["bytes"] for row in partitions),
            "partitions": len(partitions),
            "disk_bytes": _known(found.get("total_bytes")),
            "usable_bytes": _known(found.get("usable_bytes")),
            "error": explain_code(found["error_code"]) if found["error_code"] else None,
        }
    ]


def _known(size: int | None) -> int | None:
    return None if size is None or size < 0 else size


_ROWS = {"dir": _dir_rows, "topic": _topic_rows, "partition": _partition_rows}
