"""Run a cluster in the foreground: several brokers on this machine, each in its own process.

The first three brokers are controllers too. A topic has three replicas; a record sent with acks=all is acknowledged
when at least two have it. When every broker serves and lists all others, one line with their addresses is printed on
standard output. The brokers' logs go to standard error; each line begins with the number of its broker. When a broker
exits, the command that restarts it is printed, and the others keep running. group.initial.rebalance.delay.ms is 0, as
in Apache Kafka's server.properties: a new group does not wait for more members; `-D` sets another value.

With --secure, clients and brokers authenticate with SASL over TLS, and ACLs decide what users may do. The first start
makes an authority, certificates, and the users admin and client with random passwords. DIR/security has files with
settings of each user for Java, librdkafka and Python; later starts use the same certificates and passwords. This needs
`pip install 'barnabas[secure]'`. Other users of the machine cannot read the data: directories that this makes have
mode 0700.

Ctrl-C, SIGTERM or SIGHUP stops all brokers in order, also those that were restarted by hand; another Ctrl-C kills them.
The exit status is then 0; it is 2 if the cluster cannot be started with these options, and 1 if it had to stop.
"""

import argparse
import fcntl
import json
import os
import shlex
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from barnabas._cluster_security import (
    ADMIN,
    DIRECTORY,
    SECURITY_PROTOCOL,
    ClientFiles,
    ClusterSecurity,
    ClusterSecurityError,
    is_secure,
)
from barnabas._cluster_settings import (
    CLIENTS,
    CONTROLLERS,
    Address,
    NodeAddresses,
    settings_of,
    voter_count,
)
from barnabas.commands._brokers import Brokers, ListedBroker
from barnabas.commands._client import DEFAULT_TIMEOUT_S, admin, reason
from barnabas.commands._cluster_files import NodeFiles, held, identity, make_private, write_identity, write_settings
from barnabas.commands._cluster_options import add_cluster_options
from barnabas.commands._output import CommandError, WrongCall, add_json, complain, explain_code
from barnabas.commands._topics import choose
from barnabas.commands.topic.create import compare_partitions

EXAMPLES = """
  barnabas up                                      three brokers, on ports 9092, 9093 and 9094
  barnabas up --brokers 5 --data-dir cluster --topic orders:12
  barnabas up --ephemeral --listen 127.0.0.1:0     temporary data, on free ports
  barnabas up --secure                             TLS, users and ACLs; settings for clients in DIR/security
  barnabas up --json -D log.retention.hours=1      addresses as JSON, and a setting for all brokers
"""
DATA_DIR = "./barnabas-cluster"
LISTEN = Address("127.0.0.1", 9092)
MOST_PORT = 65535
START_TAG_BYTES = 8  # the length of the tag of `barnabas serve --start-group`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_cluster_options(parser, brokers=3)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--data-dir", metavar="DIR", default=DATA_DIR, help="data directory (default: %(default)s)")
    place.add_argument("--ephemeral", action="store_true", help="keep the data in a temporary directory")
    parser.add_argument(
        "--listen",
        type=_listen,
        default=LISTEN,
        metavar="HOST:PORT",
        help="listen address of the first broker; the others use the following ports; with port 0 all use free ports "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--secure", action="store_true", help="use TLS, SASL and ACLs, and write settings for clients to DIR/security"
    )
    parser.add_argument(
        "--ready-fd",
        type=_descriptor,
        metavar="FD",
        help="write the line with the addresses to this descriptor too, and close it",
    )
    parser.add_argument("--exit-with-parent", action="store_true", help="stop at end of file on standard input")
    parser.add_argument(
        "--control",
        action="store_true",
        help="for tests: serve the control API of each broker, and print its URL (docs/TESTING.md)",
    )
    parser.add_argument("--test-profile", action="store_true", help="for tests: no syncs, no rebalance delay")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the cluster until it has stopped; return the exit status."""
    with ExitStack() as stack:
        keeping: int | None = None
        if options.ephemeral:
            from barnabas._ephemeral import temporary_directory

            options.data_dir, keeping = stack.enter_context(temporary_directory())
        directory = os.path.abspath(options.data_dir)
        stack.enter_context(held(directory, options.brokers, private=options.secure))
        cluster_id = identity(directory, options.brokers)
        if is_secure(directory) and not options.secure:
            raise WrongCall(
                f"{directory} holds a secure cluster: start it with --secure. To give up its security, remove "
                f"{os.path.join(directory, DIRECTORY)}"
            )
        clients = SECURITY_PROTOCOL if options.secure else CLIENTS
        nodes = _nodes(options.listen, options.brokers, directory, clients, stack)
        write_identity(directory, cluster_id, options.brokers)
        bootstrap = ",".join(str(node.address) for node in nodes)
        secured, files = _secure(directory, options.listen.host, bootstrap) if options.secure else ({}, {})
        own = secured | dict(options.define)
        addresses = [node.addresses for node in nodes]
        for node in nodes:
            settings = settings_of(node.addresses, addresses, cluster_id, node.data_dir, own, clients)
            write_settings(node.settings_file, settings, secret=options.secure)
            if options.secure:
                make_private(node.data_dir)
        report = partial(complain, options.command)
        brokers = stack.enter_context(
            Brokers(
                on_end=lambda broker, others: report(_how_it_ended(broker, others)),
                on_refusal=report,
                on_restarted=lambda node, process: report(
                    f"broker {node.node_id} was restarted by hand (process {process}): stopping it too"
                ),
                inherited=[keeping] if keeping else [],
            )
        )
        if options.exit_with_parent:
            try:
                brokers.stop_at_end_of_input()
            except OSError:
                raise WrongCall("--exit-with-parent: standard input must be a pipe from the parent process") from None
        # Ready: each broker's metadata has all brokers of this start; a killed cluster may have left older ones in it.
        arguments = [f"--start-group={os.urandom(START_TAG_BYTES).hex()}:{len(nodes)}"]
        arguments += [f"-D{key}={value}" for key, value in options.define]
        arguments += ["--control=127.0.0.1:0"] * options.control + ["--test-profile"] * options.test_profile
        for node in nodes:
            brokers.start(node, arguments)
        if brokers.until_ready():
            try:
                _create(options, nodes, files)
            except CommandError as error:
                complain(options.command, str(error))
                brokers.stop(error.status)
            else:
                _announce(options, list(brokers.running.values()), files)
        return brokers.until_ended()


def _nodes(first: Address, count: int, directory: str, clients: str, stack: ExitStack) -> list[NodeFiles]:
    """Return the brokers of the cluster, with bound sockets; `stack` closes those that no broker takes.

    `clients` is the name of the listener for clients.
    """
    if first.port + count - 1 > MOST_PORT:
        raise WrongCall(f"--listen {first}: {count} ports from there on would end above {MOST_PORT}")
    nodes = []
    for node_id in range(1, count + 1):
        sockets = {clients: stack.enter_context(_bound(first.host, first.port and first.port + node_id - 1))}
        if node_id <= voter_count(count):
            sockets[CONTROLLERS] = stack.enter_context(_bound(first.host, 0))
        address, *controller = (Address(first.host, one.getsockname()[1]) for one in sockets.values())
        place = os.path.join(directory, str(node_id))
        addresses = NodeAddresses(node_id, address, next(iter(controller), None))
        nodes.append(NodeFiles(addresses, place, f"{place}.properties", sockets))
    return nodes


def _secure(directory: str, host: str, bootstrap: str) -> tuple[dict[str, str], dict[str, ClientFiles]]:
    """Return the security settings of all brokers, and the files of their clients; WrongCall if that fails."""
    try:
        security = ClusterSecurity(directory, host)
        return security.broker_settings(), security.write_clients(bootstrap)
    except ClusterSecurityError as error:
        raise WrongCall(str(error)) from error


def _bound(host: str, port: int) -> socket.socket:
    """Return a bound socket that reserves the address; it refuses connections until its broker listens."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind)
        try:
            if port:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            # After bind for port 0, or bind could choose a port in use; set so that a restarted broker can bind it.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        except OSError:
            made.close()
            raise
    except OSError as error:
        raise WrongCall(
            f"cannot listen on {Address(host, port)}: {reason(error)}; choose another first port with --listen "
            "HOST:PORT, or port 0 for any that are free"
        ) from error
    return made


def _create(options: argparse.Namespace, nodes: Sequence[NodeFiles], files: Mapping[str, ClientFiles]) -> None:
    """Create the topics that do not exist; CommandError if that fails."""
    if not options.topic:
        return
    from kafka.errors import TopicAlreadyExistsError

    counts = {name: count or -1 for name, count in options.topic}
    wanted = {name: {"num_partitions": count, "replication_factor": -1} for name, count in counts.items()}
    brokers = [str(node.address) for node in nodes]
    connection = argparse.Namespace(
        command=options.command,
        brokers=brokers,
        settings=[],
        settings_file=None,
        command_config=files[ADMIN].java if files else None,
        timeout=DEFAULT_TIMEOUT_S,
    )
    with admin(connection) as client:
        created = client.create_topics(wanted, raise_errors=False)["topics"]
        existing = [topic["name"] for topic in created if topic["error_code"] == TopicAlreadyExistsError.errno]
        for topic in choose(client, existing) if existing else []:
            compare_partitions(options.command, topic["name"], counts[topic["name"]], len(topic["partitions"]))
    for topic in created:
        if topic["error_code"] not in (0, TopicAlreadyExistsError.errno):
            raise WrongCall(f"--topic {topic['name']}: {explain_code(topic['error_code'], topic.get('error_message'))}")


def _announce(options: argparse.Namespace, brokers: Sequence[ListedBroker], files: Mapping[str, ClientFiles]) -> None:
    bootstrap = ",".join(str(broker.node.address) for broker in brokers)
    control = ",".join(filter(None, (broker.control_url for broker in brokers)))
    if options.json:
        listed = [
            {
                "id": broker.node.node_id,
                "host": broker.node.address.host,
                "port": broker.node.address.port,
                "pid": broker.process.pid,
                "data_dir": broker.node.data_dir,
            }
            | ({"control": broker.control_url} if broker.control_url else {})
            for broker in brokers
        ]
        found: dict[str, Any] = {"bootstrap": bootstrap, "brokers": listed}
        if control:
            found["control"] = control
        if files:
            found["client_files"] = {user: of_user._asdict() for user, of_user in files.items()}
        line = json.dumps(found)
    else:
        line = f"ready: {bootstrap}"
        pids = ", ".join(f"broker {broker.node.node_id}: {broker.process.pid}" for broker in brokers)
        complain(options.command, f"process ids: {pids}")
        if files:
            _announce_files(options, files)
        else:
            # With all addresses, clients can connect while any one broker is down.
            complain(options.command, f"in other terminals: export BARNABAS_BROKERS={bootstrap}")
        if control:
            complain(options.command, f"and for tests: export BARNABAS_CONTROL={control}")
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    if options.ready_fd is not None:
        with open(options.ready_fd, "w", encoding="utf-8") as file:
            file.write(f"{line}\n")


def _announce_files(options: argparse.Namespace, files: Mapping[str, ClientFiles]) -> None:
    for user, (java, librdkafka, kafka_python) in files.items():
        complain(
            options.command, f"settings of {user}: {java} (Java), {librdkafka} (librdkafka), {kafka_python} (Python)"
        )
    command = shlex.join(["barnabas", "topic", "list", "--command-config", files[ADMIN].java])
    complain(options.command, f"in other terminals: {command}")


def _how_it_ended(broker: ListedBroker, others: int) -> str:
    status = broker.process.returncode
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    message = f"broker {broker.node.node_id} (process {broker.process.pid}) {how}"
    if broker.ready and not others:
        return f"{message}; no broker is left"
    if broker.ready:
        again = shlex.join(["barnabas", "serve", "--config", broker.node.settings_file])
        return f"{message}; the others keep running. To restart it: {again}"
    return message


def _listen(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    bracketed = host[:1] == "[" and host[-1:] == "]"
    if not (colon and port.isascii() and port.isdecimal() and int(port) <= MOST_PORT) or (
        ":" in host and not bracketed
    ):
        raise argparse.ArgumentTypeError(f"{text!r}: write it as HOST:PORT, with [] around an IPv6 host")
    host = host[1:-1] if bracketed else host
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - refused
        raise argparse.ArgumentTypeError(f"{text!r}: name an address that clients connect to, such as 127.0.0.1:{port}")
    return Address(host, int(port))


def _descriptor(text: str) -> int:
    try:
        flags = fcntl.fcntl(int(text), fcntl.F_GETFL)
    except (OSError, ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not an open descriptor") from None
    if flags & os.O_ACCMODE == os.O_RDONLY:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written to")
    return int(text)
