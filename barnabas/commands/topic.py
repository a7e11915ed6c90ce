"""Create, list, describe, alter and delete topics."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from barnabas.commands._client import add_bootstrap, admin, pair, positive
from barnabas.commands._output import WrongCall, explain_code, plain, print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="create|list|describe|alter|delete")

    create = commands.add_parser("create", help="create topics")
    create.add_argument("topic", nargs="+", type=_new_topic, metavar="NAME[:PARTITIONS]")
    create.add_argument("-p", "--partitions", type=positive, default=-1, help="default: the broker's num.partitions")
    create.add_argument("-r", "--replication-factor", type=positive, default=-1, help="default: the broker's")
    create.add_argument("-c", "--config", type=pair, action="append", default=[], metavar="NAME=VALUE")
    create.add_argument("--if-not-exists", action="store_true", help="an existing topic is no error")

    commands.add_parser("list", help="list topic names")

    describe = commands.add_parser("describe", help="show partitions, leaders and configs")
    describe.add_argument("topic", nargs="*", help="default: every topic")

    alter = commands.add_parser("alter", help="add partitions, set or remove configs")
    alter.add_argument("topic", nargs="+")
    alter.add_argument("-p", "--partitions", type=positive, help="the new total")
    alter.add_argument("-c", "--config", type=pair, action="append", default=[], metavar="NAME=VALUE", help="set")
    alter.add_argument("--reset", action="append", default=[], metavar="NAME", help="back to the default")

    delete = commands.add_parser("delete", help="delete topics with their records")
    delete.add_argument("topic", nargs="+")
    for command in commands.choices.values():
        add_bootstrap(command)


def run(options: argparse.Namespace) -> int:
    """Run the chosen subcommand on one admin connection."""
    actions = {"create": _create, "list": _list, "describe": _describe, "alter": _alter, "delete": _delete}
    if options.action == "alter" and not (options.partitions or options.config or options.reset):
        raise WrongCall("nothing to alter: give --partitions, --config or --reset")
    with admin(options) as client:
        return actions[options.action](client, options)


def _new_topic(text: str) -> tuple[str, int | None]:
    name, colon, partitions = text.partition(":")
    return name, positive(partitions) if colon else None


def _create(client: Any, options: argparse.Namespace) -> int:
    from kafka.errors import TopicAlreadyExistsError

    wanted = {
        name: {
            "num_partitions": partitions or options.partitions,
            "replication_factor": options.replication_factor,
            "configs": dict(options.config),
        }
        for name, partitions in options.topic
    }
    created = client.create_topics(wanted, raise_errors=False)["topics"]
    if options.if_not_exists:
        created = [topic for topic in created if topic["error_code"] != TopicAlreadyExistsError.errno]
    return _report("created", created)


def _report(done: str, topics: list[dict[str, Any]]) -> int:
    """Say what became of each topic that a response names; return the exit status."""
    failed = [topic for topic in topics if topic["error_code"]]
    for topic in topics:
        if topic not in failed:
            sys.stdout.write(f"{done} {topic['name']}\n")
    for topic in failed:
        _complain(topic["name"], explain_code(topic["error_code"], topic.get("error_message")))
    return 1 if failed else 0


def _complain(topic: str, what: str) -> None:
    sys.stderr.write(f"barnabas topic: {topic}: {what}\n")


def _list(client: Any, options: argparse.Namespace) -> int:  # noqa: ARG001 - one shape for every action
    for name in sorted(client.list_topics()):
        sys.stdout.write(f"{name}\n")
    return 0


def _describe(client: Any, options: argparse.Namespace) -> int:
    described = client.describe_topics(options.topic or None)
    status = 0
    for topic in sorted(described, key=lambda topic: str(topic["name"])):
        if topic["error_code"]:
            _complain(topic["name"], explain_code(topic["error_code"], None))
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
    from kafka.admin import AlterConfigOp

    changes: dict[str, tuple[Any, str | None]] = {name: (AlterConfigOp.SET, value) for name, value in options.config}
    changes.update((name, (AlterConfigOp.DELETE, None)) for name in options.reset)
    status = 0
    for name in options.topic:
        failure = _alter_partitions(client, name, options.partitions) or _alter_configs(client, name, changes)
        if failure:
            _complain(name, failure)
            status = 1
        else:
            sys.stdout.write(f"altered {name}\n")
    return status


def _alter_partitions(client: Any, topic: str, partitions: int | None) -> str | None:
    """Return what went wrong, if anything."""
    if partitions is None:
        return None
    (result,) = client.create_partitions({topic: partitions}, raise_errors=False).results
    return explain_code(result.error_code, result.error_message) if result.error_code else None


def _alter_configs(client: Any, topic: str, changes: dict[str, tuple[Any, str | None]]) -> str | None:
    """Return what went wrong, if anything."""
    from kafka.admin import ConfigResource, ConfigResourceType

    if not changes:
        return None
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, changes)
    result: str = client.alter_configs([resource], raise_on_unknown=False)["topic"][topic]
    return None if result == "OK" else plain(result)


def _delete(client: Any, options: argparse.Namespace) -> int:
    return _report("deleted", client.delete_topics(options.topic, raise_errors=False)["topics"])
