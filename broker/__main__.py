"""The `barnabas serve` program: options, event loop, signals, and the ready line.

The event loop is chosen only here. Standard output carries `ready: HOST:PORT` and nothing else, once clients are served
and the requested topics exist; before that `control: URL`, if there is a control API. Everything else is logged to
standard error.

Exit status: 0 after SIGTERM, SIGINT, SIGHUP (unless ignored, as by nohup) or, with --exit-with-parent, end of file on
standard input; 2 if it cannot start as configured (settings, addresses, data directory); 1 if it had to stop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas import __version__
from broker.log_dirs.ownership import CannotStart
from broker.metadata.metadata_log import has_metadata_log
from broker.metadata.start_group import TAG_BYTES, StartGroup
from broker.network.connection_limits import connections_within, raise_open_file_limit, segments_within
from broker.network.listeners import split_host_port
from broker.node import Node
from broker.runtime import log_output
from broker.settings import (
    CONTROL_LISTENER,
    DEFAULT_ORIGIN,
    PROVIDERS,
    Option,
    Settings,
    SettingsError,
    check_settings,
    read_option,
    read_properties,
)
from broker.startup.command_line import Options, parse
from broker.startup.container import Defaults, defaults, environment_settings, over_file
from controller.topic_names import check_topic_name
from protocol.errors import InvariantError, KafkaError
from storage.disk import Disk, OsDisk, UnsyncedDisk, reason, remedy

if TYPE_CHECKING:
    from protocol.schema import Message
    from storage.log_directory import LogDirectory

_log = logging.getLogger("broker")

_REBALANCE_DELAY = "group.initial.rebalance.delay.ms"
_CONTROL_TOKEN = "barnabas.control.token"  # noqa: S105 - the name of a setting
_TOKEN_VARIABLE = "BARNABAS_CONTROL_TOKEN"  # noqa: S105 - the name of a variable
_TOKEN_BYTES = 18
_CONTROL_SOCKET = "CONTROL"
"""The name of the control API's socket in `--socket`."""
_STANDARD_INPUT = 0
_HAD_TO_STOP = 1
_CANNOT_START = 2


class NewTopic(NamedTuple):
    """A topic to create at start-up unless it exists; `partitions` None means num.partitions."""

    name: str
    partitions: int | None


class ProgramOptions(NamedTuple):
    """The parts of the command line that are not settings."""

    topics: list[NewTopic]
    sockets: dict[str, socket.socket]
    exit_with_parent: bool
    start_group: StartGroup | None
    scram_users: list[str]
    """Texts of `--add-scram`, for a new cluster."""


def main(argv: Sequence[str] | None = None, on_ready: Callable[[], None] = lambda: None) -> int:
    """Run a broker until it is stopped; return the exit status. `on_ready` is called after the ready line."""
    try:
        options = parse(argv)
    except OSError as error:  # the help cannot be written
        sys.stdout = sys.__stdout__ = None  # type: ignore[misc]  # the flush at exit would fail again
        if isinstance(error, BrokenPipeError):
            return 0
        sys.stderr.write(f"barnabas serve: cannot write standard output: {reason(error)}\n")
        return _HAD_TO_STOP
    log_output.configure(options.log_level, options.log_format)
    disk: Disk = OsDisk()
    try:
        if options.ephemeral:
            from tempfile import mkdtemp

            options.data_dir = options.ephemeral_dir or mkdtemp(prefix="barnabas-")
        settings = _settings(options, disk)
        if settings["barnabas.test.profile"]:
            disk = UnsyncedDisk()
        program = ProgramOptions(
            [_new_topic(text) for text in options.topic],
            dict(_given_socket(text, settings) for text in options.socket),
            options.exit_with_parent,
            _start_group(options.start_group),
            options.add_scram,
        )
        with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
            return runner.run(_serve(settings, disk, program, on_ready))
    except (SettingsError, CannotStart) as error:
        sys.stderr.write(f"barnabas: {error}\n")
        return _CANNOT_START
    except InvariantError as error:
        sys.stderr.write(f"barnabas: {error}\n")
        return _HAD_TO_STOP
    finally:
        if options.ephemeral and options.data_dir:
            disk.remove_tree(options.data_dir)


def _exception_handler(
    directory: LogDirectory, stop: asyncio.Future[int]
) -> Callable[[asyncio.AbstractEventLoop, dict[str, object]], None]:
    """Return the loop's exception handler, which stops the broker on an `InvariantError`.

    If `directory`, which has the metadata, failed, that is logged in one line, and errors caused by it are not logged.
    """

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if not isinstance(error, InvariantError):
            loop.default_exception_handler(context)
            return
        if directory.failure is not None and not stop.done():
            text = "Stopping: log directory %s, which has the metadata, failed: %s; %s, then start the broker again"
            _log.error(text, directory.path, reason(directory.failure), remedy(directory.failure))
        if not _follows_from_failure(error, directory):
            loop.default_exception_handler(context)
        if not stop.done():
            stop.set_result(_HAD_TO_STOP)

    return handle


def _follows_from_failure(error: BaseException, directory: LogDirectory) -> bool:
    """Return whether `directory` has failed and its failure is among the causes of `error`."""
    if directory.failure is None:
        return False
    offline, cause = str(directory.offline()), error.__cause__
    while cause is not None:
        if cause is directory.failure or str(cause) == offline:
            return True
        cause = cause.__cause__
    return False


async def _serve(settings: Settings, disk: Disk, program: ProgramOptions, on_ready: Callable[[], None]) -> int:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[int] = loop.create_future()

    def end(status: int) -> None:
        if not stop.done():
            stop.set_result(status)

    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    for number in (signal.SIGTERM, signal.SIGINT, *(() if ignored else (signal.SIGHUP,))):
        loop.add_signal_handler(number, end, 0)
    hand_over = True
    if program.exit_with_parent:

        def end_with_parent() -> None:
            nonlocal hand_over
            hand_over = False  # the parent's other brokers stop too
            end(0)

        _at_end_of_input(loop, end_with_parent)
    gc.disable()  # start-up allocates much and frees little
    limit = raise_open_file_limit()
    disk.open_files.max_open = segments_within(limit)
    node = Node(
        settings,
        disk,
        loop,
        clock=time.monotonic,
        max_descriptors=connections_within(limit),
        start_group=program.start_group,
        version=__version__,
    )
    if node.control is not None and (bound := program.sockets.pop(_CONTROL_SOCKET, None)) is not None:
        node.control.use_socket(bound)
    node.shared.server.use_sockets(program.sockets)
    if program.scram_users:
        try:
            node.shared.raft.first_records = _first_scram_users(program.scram_users, disk, node)
        except SettingsError:
            node.shared.release_directories()
            raise
    loop.set_exception_handler(_exception_handler(node.shared.metadata_directory, stop))
    await node.open()
    if node.control is not None:
        await _announce(node, f"control: {node.control.url}\n")
    joining = loop.create_task(_join(node, program.topics))
    await asyncio.wait((joining, stop), return_when=asyncio.FIRST_COMPLETED)
    if joining.done():
        if isinstance(joining.exception(), CannotStart):
            await node.stop()
        joining.result()
        await _announce(node, f"ready: {node.bootstrap}\n")
        on_ready()
    else:
        joining.cancel()
        await asyncio.wait((joining,))
    status = await stop
    return status if await node.stop(hand_over=hand_over) else _HAD_TO_STOP


async def _announce(node: Node, line: str) -> None:
    """Write a line to standard output; if that fails, stop the node and raise `CannotStart`."""
    try:
        _print(line)
    except OSError as error:
        await node.stop()
        raise CannotStart(f"cannot write standard output: {reason(error)}") from None


def _print(line: str) -> None:
    """Write to standard output; drop the line if the reader has closed it. OSError on any other error."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(line)
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = sys.__stdout__ = None  # type: ignore[misc]  # the flush at exit would fail again
        if not isinstance(error, BrokenPipeError):
            raise


async def _join(node: Node, topics: list[NewTopic]) -> None:
    await node.join()
    for topic in topics:
        await node.create_topic(topic.name, topic.partitions)
    gc.freeze()  # objects made so far are permanent: keep collections from traversing them
    gc.enable()


def _at_end_of_input(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call `call` at end of file on standard input, when the other end is closed; ignore any input."""

    def read() -> None:
        if not os.read(_STANDARD_INPUT, 4096):
            loop.remove_reader(_STANDARD_INPUT)
            call()

    try:
        loop.add_reader(_STANDARD_INPUT, read)
    except OSError:
        raise CannotStart("--exit-with-parent: standard input must be a pipe from the parent process") from None


def _settings(options: Options, disk: Disk, environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings. Precedence: command line, then (in a container) environment, then file."""
    found: dict[str, Option] = {}
    if options.config is not None:
        try:
            text = disk.read_file(options.config).decode()
        except OSError as error:
            raise SettingsError(f"--config {options.config}: {(error.strerror or str(error)).lower()}") from None
        except UnicodeDecodeError:
            raise SettingsError(f"--config {options.config}: not a UTF-8 text file") from None
        found |= read_properties(text, options.config)
    found = over_file(found, environment_settings(environment))
    flags = _flags(options, found, defaults(environment))
    if {"log.dir", "log.dirs"} & flags.keys():
        found.pop("log.dir", None)
    if "listeners" in flags and "advertised.listeners" not in flags and options.listen:
        # The file's advertised listeners belong to the listeners that --listen replaces.
        found.pop("advertised.listeners", None)
    found |= flags
    for argument in options.define:
        key, option = read_option(argument)
        rival = "log.dirs" if key == "log.dir" else key
        if rival in flags and flags[rival].origin.startswith("--"):
            raise SettingsError(f"{flags[rival].origin} and -D {argument}: both set {rival}; leave one out")
        if key == "log.dir":
            found.pop("log.dirs", None)
        found[key] = option
    if PROVIDERS in found:
        from broker.startup.config_providers import with_references_resolved

        found = with_references_resolved(found, disk, environment)
    return check_settings(found)


def _flags(options: Options, configured: Mapping[str, Option], others: Defaults) -> dict[str, Option]:
    """Return the settings made by options, and the defaults `others` where nothing is set."""
    defined = {read_option(argument)[0] for argument in options.define} | configured.keys()
    flags: dict[str, Option] = {}
    if options.listen is not None:
        flags["listeners"] = Option(_endpoint("--listen", options.listen), f"--listen {options.listen}")
    elif "listeners" not in defined:
        flags["listeners"] = Option(f"PLAINTEXT://{others.listen}", DEFAULT_ORIGIN)
        if others.advertise and "advertised.listeners" not in defined:
            flags["advertised.listeners"] = Option(f"PLAINTEXT://{others.advertise}", DEFAULT_ORIGIN)
    if options.advertise is not None:
        origin = f"--advertise {options.advertise}"
        flags["advertised.listeners"] = Option(_endpoint("--advertise", options.advertise), origin)
    if options.metrics is not None:
        _endpoint("--metrics", options.metrics)
        flags["barnabas.metrics.listener"] = Option(options.metrics, f"--metrics {options.metrics}")
    if options.test_profile:
        flags["barnabas.test.profile"] = Option("true", "--test-profile")
    if options.control is not None:
        flags[CONTROL_LISTENER] = Option(options.control, f"--control {options.control}")
    if CONTROL_LISTENER in {*defined, *flags} and _CONTROL_TOKEN not in defined:
        flags[_CONTROL_TOKEN] = _token(os.environ)
    if options.data_dir is not None:
        origin = "--ephemeral" if options.ephemeral else f"--data-dir {options.data_dir}"
        flags["log.dirs"] = Option(os.path.abspath(options.data_dir) if options.data_dir else "", origin)
        if options.ephemeral and _REBALANCE_DELAY not in defined:
            flags[_REBALANCE_DELAY] = Option("0", origin)
    elif not {"log.dir", "log.dirs"} & defined:
        flags["log.dirs"] = Option(os.path.abspath(others.data_dir), DEFAULT_ORIGIN)
    return flags


def _token(environment: Mapping[str, str]) -> Option:
    """Return the token of the control API: that of the environment, or a random one."""
    given = environment.get(_TOKEN_VARIABLE)
    if given:
        return Option(given, f"environment variable {_TOKEN_VARIABLE}")
    return Option(os.urandom(_TOKEN_BYTES).hex(), DEFAULT_ORIGIN)


def _endpoint(flag: str, address: str) -> str:
    try:
        split_host_port(address)
    except ValueError as error:
        raise SettingsError(f"{flag} {address}: {error}") from None
    return f"PLAINTEXT://{address.removeprefix('*') if address.startswith('*:') else address}"  # all interfaces


def _given_socket(text: str, settings: Settings) -> tuple[str, socket.socket]:
    name, _, number = text.partition("=")
    known = {endpoint.listener for endpoint in settings.listeners}
    if settings[CONTROL_LISTENER]:
        known.add(_CONTROL_SOCKET)
    if name not in known or not (number.isascii() and number.isdecimal()):
        raise SettingsError(f"--socket {text}: write it as LISTENER=DESCRIPTOR, with one of the listeners")
    try:
        return name, socket.socket(fileno=int(number))
    except OSError as error:
        raise SettingsError(f"--socket {text}: {(error.strerror or str(error)).lower()}") from None


def _start_group(text: str | None) -> StartGroup | None:
    try:
        return None if text is None else StartGroup.parse(text)
    except ValueError:
        raise SettingsError(
            f"--start-group {text}: write it as TAG:BROKERS, the tag of {2 * TAG_BYTES} hexadecimal digits"
        ) from None


def _first_scram_users(texts: Sequence[str], disk: Disk, node: Node) -> tuple[Message, ...]:
    """Return the credentials of a new cluster and the secret of decoys; none for an existing one.

    SettingsError if one is invalid. The password files of an existing cluster may have been removed.
    """
    if has_metadata_log(disk, node.shared.metadata_directory):
        _log.info("The cluster exists already: --add-scram adds nothing to it")
        return ()
    from controller.scram import DECOY_SECRET_BYTES, decoy_secret_record

    secret = node.shared.random.randbytes(DECOY_SECRET_BYTES)
    return (*(_scram_user(text, disk) for text in texts), decoy_secret_record(secret))


def _scram_user(text: str, disk: Disk) -> Message:
    from broker.security.scram_option import parse_add_scram

    try:
        return parse_add_scram(text, disk.read_file)
    except OSError as error:
        raise SettingsError(f"--add-scram: password-file {reason(error)}") from None
    except ValueError as error:
        raise SettingsError(f"--add-scram: {error}") from None


def _new_topic(text: str) -> NewTopic:
    from controller.commands.topics import MAX_PARTITIONS_PER_REQUEST  # only for --topic: it costs start-up time

    name, colon, count = text.rpartition(":")
    if not colon:
        name, count = text, ""
    elif not (count.isascii() and count.isdecimal() and count.strip("0")):
        raise SettingsError(f"--topic {text}: write it as NAME or NAME:PARTITIONS")
    elif len(count) > len(str(MAX_PARTITIONS_PER_REQUEST)) or int(count) > MAX_PARTITIONS_PER_REQUEST:
        raise SettingsError(
            f"--topic {text}: a topic can be created with at most {MAX_PARTITIONS_PER_REQUEST} partitions"
        )
    try:
        check_topic_name(name)
    except KafkaError as error:
        raise SettingsError(f"--topic {text}: {error.message}") from None
    return NewTopic(name, int(count) if count else None)


def loop_factory(name: str) -> type[asyncio.AbstractEventLoop] | None:
    """Return the class of the event loop, imported; None for asyncio's own."""
    if name == "asyncio":
        return None
    import uvloop

    return uvloop.Loop


if __name__ == "__main__":
    sys.exit(main())
