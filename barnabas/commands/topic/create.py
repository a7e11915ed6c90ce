"""Create topics."""

import argparse
from collections.abc import Iterable

from barnabas._arguments import did_you_mean
from barnabas.commands._client import add_common_options, admin, each_once, pair, partition_count, replica_count
from barnabas.commands._output import Report, WrongCall, amount_of, complain, explain_code
from barnabas.commands._topics import choose
from barnabas.commands._unserved import controller_awaited

EXAMPLES = """
  barnabas topic create orders
  barnabas topic create orders:12 parcels:3 -c retention.ms=86400000
  barnabas topic create prices -p 6 -c cleanup.policy=compact --if-not-exists
  barnabas topic create orders:100 --dry-run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as rpk's users know them."""
    parser.add_argument("topic", nargs="+", type=new_topic, metavar="NAME[:PARTITIONS]")
    parser.add_argument(
        "-p",
        "--partitions",
        type=partition_count,
        default=-1,
        metavar="N",
        help="for topics without :PARTITIONS (default: the broker's num.partitions)",
    )
    parser.add_argument(
        "-r",
        "--replicas",
        "--replication-factor",
        dest="replicas",
        type=replica_count,
        default=-1,
        metavar="N",
        help="default: the broker's default.replication.factor",
    )
    parser.add_argument(
        "-c", "--config", type=pair, action="append", default=[], metavar="NAME=VALUE", help="a setting of the topics"
    )
    parser.add_argument("--if-not-exists", action="store_true", help="ignore topics that exist")
    parser.add_argument("-d", "--dry-run", action="store_true", help="validate only")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Create the topics; return 1 if one cannot be created."""
    from kafka.errors import InvalidConfigurationError, TopicAlreadyExistsError

    if options.partitions > 0 and all(partitions for _, partitions in options.topic):
        name, partitions = options.topic[0]
        raise WrongCall(f"{name}:{partitions} and --partitions {options.partitions}: leave out one of them")
    configs = each_once(options.config)
    wanted = {
        name: {
            "num_partitions": partitions or options.partitions,
            "replication_factor": options.replicas,
            "configs": configs,
        }
        for name, partitions in options.topic
    }
    with admin(options) as client, controller_awaited(options):
        created = client.create_topics(wanted, raise_errors=False, validate_only=options.dry_run)["topics"]
        existing = [
            topic["name"]
            for topic in created
            if topic["error_code"] == TopicAlreadyExistsError.errno and options.if_not_exists
        ]
        there = {topic["name"]: len(topic["partitions"]) for topic in choose(client, existing)} if existing else {}
    partitions = {name: topic["num_partitions"] for name, topic in wanted.items()}
    report = Report(options)
    for topic in sorted(created, key=lambda topic: list(wanted).index(topic["name"])):
        if topic["error_code"] == TopicAlreadyExistsError.errno and options.if_not_exists:
            compare_partitions(options.command, topic["name"], partitions[topic["name"]], there.get(topic["name"]))
            continue
        if topic["error_code"]:
            why = explain_code(topic["error_code"], topic.get("error_message"))
            meant = _meant(configs) if topic["error_code"] == InvalidConfigurationError.errno else ""
            report.failed(topic["name"], why + meant)
        else:
            report.done(
                "would create" if options.dry_run else "created", topic["name"], partitions=topic.get("num_partitions")
            )
    return report.end()


def compare_partitions(command: str, topic: str, wanted: int, found: int | None) -> None:
    """Report if an existing topic has another number of partitions than requested."""
    if found is not None and wanted > 0 and wanted != found:
        remedy = (
            f"`barnabas topic alter {topic} --partitions {wanted}` adds the others"
            if wanted > found
            else "partitions cannot be removed"
        )
        complain(command, f"{topic} exists with {amount_of(found, 'partition')}, not {wanted:,}; {remedy}")


def _meant(configs: Iterable[str]) -> str:
    """Return a suggestion for each unknown setting, to append to an error."""
    from barnabas.commands._complete import server_candidates

    known = [name.removesuffix("=") for name, _ in server_candidates("settings", "topic")]
    return "".join(did_you_mean(name, known) for name in configs if name not in known)


def new_topic(text: str) -> tuple[str, int | None]:
    """Parse NAME[:PARTITIONS]; without partitions the broker's default applies."""
    name, colon, partitions = text.partition(":")
    return name, partition_count(partitions) if colon else None
