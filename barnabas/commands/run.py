"""Run a program with a cluster of its own: `barnabas run [OPTION]... -- COMMAND...`.

The cluster is one for tests: temporary, on free ports, without syncs to disk and with automatic creation of topics. The
program finds it in environment variables:

    KAFKA_BOOTSTRAP_SERVERS     HOST:PORT,... (BARNABAS_BROKERS has the same, for the `barnabas` command)
    BARNABAS_CONTROL            the brokers' control APIs, URL,... (docs/control-api.yaml)

With --secure, clients and brokers authenticate with SASL over TLS, and ACLs decide what users may do, as in a cluster
of `barnabas up --secure`. The program has the login of `admin`, who can do everything:

    KAFKA_SECURITY_PROTOCOL     SASL_SSL
    KAFKA_SASL_MECHANISM        PLAIN
    KAFKA_SASL_USERNAME         and KAFKA_SASL_PASSWORD
    KAFKA_SSL_CA_LOCATION       the certificate of the authority, a PEM file
    KAFKA_CLIENT_FILES          a directory with settings of the users admin and client, who may do what ACLs allow:
                                USER.properties (Java), USER.librdkafka and USER.json (kafka-python)
    BARNABAS_COMMAND_CONFIG     admin.properties, for the `barnabas` command

When the program ends, the brokers end too, and their data is deleted. The exit status is that of the program, or 128
and the number of the signal that ended it; 2 if the cluster cannot be started. A signal goes to the program. On Linux,
the program gets SIGTERM if this process is killed.
"""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from barnabas._arguments import Help, Parser
from barnabas.commands._cluster_options import add_cluster_options
from barnabas.commands._output import CommandError, WrongCall

EXAMPLES = """
  barnabas run -- pytest                           one broker, in $KAFKA_BOOTSTRAP_SERVERS
  barnabas run --brokers 3 -- npm test
  barnabas run --secure -- ./gradlew test          TLS and users: see the variables above
  barnabas run --topic orders:6 -D num.partitions=3 -- ./integration-tests.sh
  barnabas run -- sh -c 'MY_BROKERS=$KAFKA_BOOTSTRAP_SERVERS go test ./...'
"""
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_PR_SET_PDEATHSIG = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_cluster_options(parser, brokers=1)
    parser.add_argument("--strict-topics", action="store_true", help="do not create topics that clients use")
    parser.add_argument("--secure", action="store_true", help="use TLS, SASL and ACLs")


def pass_on(words: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = Parser(prog="barnabas run", usage="barnabas run [OPTION]... -- COMMAND...", formatter_class=Help)
    add_arguments(parser)
    if "--" not in words or words[-1] == "--":
        parser.error("write the command to run after --, as in `barnabas run -- pytest`")
    at = words.index("--")
    return _run(parser.parse_args(words[:at]), words[at + 1 :])


def _run(options: argparse.Namespace, command: Sequence[str]) -> int:
    from barnabas.testing import Cluster, ClusterError

    try:
        with (
            _stopped_by_signals(),
            Cluster(
                options.brokers,
                config=dict(options.define),
                strict_topics=options.strict_topics,
                secure=options.secure,
            ) as cluster,
        ):
            for name, partitions in options.topic:
                cluster.topic(name, partitions or 1)
            return _status(command, os.environ | cluster.environment)
    except ClusterError as error:
        raise WrongCall(str(error)) from error


def _status(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run a program to its end; return its exit status as a shell does."""
    try:
        program = subprocess.Popen(  # noqa: S603 - the user's own command
            command,
            env=environment,
            preexec_fn=_end_with_parent(),  # noqa: PLW1509 - it only calls prctl
        )
    except OSError as error:
        failed = CommandError(f"cannot run {command[0]}: {(error.strerror or str(error)).lower()}")
        failed.status = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        raise failed from error

    def pass_on_signal(number: int, _: object) -> None:
        with suppress(ProcessLookupError):
            program.send_signal(number)

    # The terminal sends SIGINT to the program too, which may handle it; the brokers run until it has ended.
    before = {number: signal.signal(number, pass_on_signal) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        status = program.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _end_with_parent() -> Callable[[], None] | None:
    """Return what a new process does so that it gets SIGTERM when this one ends; None where the system has no such."""
    if sys.platform != "linux":
        return None
    import ctypes

    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return end_with_parent


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """While no program runs that a signal could go to, have SIGTERM and SIGHUP raise SystemExit."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
