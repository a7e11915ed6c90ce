"""Create, list, describe, alter and delete topics."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from barnabas.commands._client import add_bootstrap, admin, parse_pairs
from barnabas.commands._output import CommandError, print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="create|list|describe|alter|delete")

    create = commands.add_parser("create", help="create topics")
    create.add_argument("topic", nargs="+", metavar="NAME[:PARTITIONS]")
    create.add_argument("-p", "--partitions", type=int, default=-1, help="default: the broker's num.partitions")
    create.add_argument("-r", "--replication-factor", type=int, default=-1, help="default: the broker's")
    create.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE")
    create.add_argument("--if-not-exists", action="store_true", help="an existing topic is no error")

    commands.add_parser("list", help="list topic names")

    describe = commands.add_parser("describe", help="show partitions, leaders and configs")
    describe.add_argument("topic", nargs="*", help="default: every topic")

    alter = commands.add_parser("alter", help="add partitions, set or remove configs")
    alter.add_argument("topic", nargs="+")
    alter.add_argument("-p", "--partitions", type=int, help="the new total")
    alter.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE", help="set")
    alter.add_argument("--reset", action="append", default=[], metavar="NAME", help="back to the default")

    delete = commands.add_parser("delete", help="delete topics with their records")
    delete.add_argument("topic", nargs="+")
    for command in commands.choices.values():
        add_bootstrap(command)


def run(options: argparse.Namespace) -> int:
    """Run the chosen subcommand on one admin connection."""
    actions = {"create": _create, "list": _list, "describe": _describe, "alter": _alter, "delete": _delete}
    with admin(options) as client:
        return actions[options.action](client, options)


def _create(client: Any, options: argparse.Namespace) -> int:
    from kafka.errors import TopicAlreadyExistsError

    configs = parse_pairs(options.config, option="--config")
    status = 0
    for given in options.topic:
        name, partitions = _name_and_partitions(given, options.partitions)
        wanted = {
            "num_partitions": partitions,
            "replication_factor": options.replication_factor,
            "configs": configs,
        }
        try:
            client.create_topics({name: wanted})
            sys.stdout.write(f"created {name}\n")
        except TopicAlreadyExistsError:
            if not options.if_not_exists:
                sys.stderr.write(f"barnabas topic: {name} exists already\n")
                status = 1
    return status


def _name_and_partitions(given: str, default: int) -> tuple[str, int]:
    name, separator, count = given.partition(":")
    if not separator:
        return name, default
    if not count.isdigit() or int(count) < 1:
        raise CommandError(f"{given!r}: after the colon comes a number of partitions of at least 1")
    return name, int(count)


def _list(client: Any, options: argparse.Namespace) -> int:  # noqa: ARG001 - one shape for every action
    for name in sorted(client.list_topics()):
        sys.stdout.write(f"{name}\n")
    return 0


def _describe(client: Any, options: argparse.Namespace) -> int:
    described = client.describe_topics(options.topic or None)
    status = 0
    for topic in sorted(described, key=lambda topic: str(topic["name"])):
        if topic["error_code"]:
            sys.stderr.write(f"barnabas topic: {topic['name']}: {_error_name(topic['error_code'])}\n")
            status = 1
            continue
        _print_topic(client, topic)
    return status


def _print_topic(client: Any, topic: dict[str, Any]) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    name = topic["name"]
    described = client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    changed = {key: entry["value"] for kinds in described.values() for key, entry in kinds.get(name, {}).items()}
    sys.stdout.write(f"{name}  id={topic['topic_id']}  partitions={len(topic['partitions'])}\n")
    for key, value in sorted(changed.items()):
        sys.stdout.write(f"  {key}={value}\n")
    print_table(
        ("  partition", "leader", "epoch", "replicas", "in sync"),
        (
            (
                f"  {p['partition_index']}",
                p["leader_id"],
                p["leader_epoch"],
                p["replica_nodes"],
                p["isr_nodes"],
            )
            for p in sorted(topic["partitions"], key=lambda p: int(p["partition_index"]))
        ),
    )


def _alter(client: Any, options: argparse.Namespace) -> int:
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

    changes: dict[str, tuple[Any, str | None]] = {
        key: (AlterConfigOp.SET, value) for key, value in parse_pairs(options.config, option="--config").items()
    }
    changes.update((key, (AlterConfigOp.DELETE, None)) for key in options.reset)
    if options.partitions is None and not changes:
        raise CommandError("nothing to alter: give --partitions, --config or --reset")
    for name in options.topic:
        if options.partitions is not None:
            client.create_partitions({name: options.partitions})
        if changes:
            client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, changes)])
        sys.stdout.write(f"altered {name}\n")
    return 0


def _delete(client: Any, options: argparse.Namespace) -> int:
    from kafka.errors import UnknownTopicOrPartitionError

    status = 0
    for name in options.topic:
        try:
            client.delete_topics([name])
            sys.stdout.write(f"deleted {name}\n")
        except UnknownTopicOrPartitionError:
            sys.stderr.write(f"barnabas topic: there is no topic {name}\n")
            status = 1
    return status


def _error_name(code: int) -> str:
    from kafka.errors import for_code

    return str(for_code(code).message)
