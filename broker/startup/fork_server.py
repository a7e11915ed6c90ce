"""The fork server: a process that has imported the broker, and forks itself for each broker of a test cluster.

    LAUNCHER fork-server     standard input is a Unix stream socket to the client (`barnabas/testing/_fork_client.py`)

A forked broker is ready in a fifth of the time of a new process, and shares the memory of the modules. Requests and
events are JSON objects, one a line:

    {"fork": ID, "arguments": [...], "sockets": [LISTENER, ...]}
                                     fork a broker with these arguments of `barnabas serve`; the line carries
                                     descriptors: its standard error, then the bound sockets of the listeners
    {"signal": ID, "number": N}      send a signal to a broker
    {"end_input": ID}                close a broker's standard input, which stops it if it has --exit-with-parent
    {"delete": PATH}                 delete a directory when this process ends

    {"forked": ID, "pid": PID}
    {"printed": ID, "line": TEXT}    a line of the broker's standard output
    {"paused": ID}                   SIGSTOP has taken effect
    {"exited": ID, "status": N}      the exit status, or minus the number of the signal

No broker outlives this process: it kills them when the client closes the socket or exits, and on Linux the kernel kills
them if this process is killed. It never runs an event loop or a thread, which a fork would not copy.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import broker.__main__ as program
from broker.routes import CONTROLLER, ROUTES
from protocol.schema import Message
from storage.disk import OsDisk

_INPUT, _OUTPUT, _ERROR = 0, 1, 2
_READ_BYTES = 64 * 1024
_MAX_DESCRIPTORS = 16
_FAILED = 1
_PR_SET_PDEATHSIG = 1
_LOADED = "loaded: "
"""The prefix of a broker's line with the modules and codecs that it has loaded; it is not passed on."""
_libc = ctypes.CDLL(None)


class ForkedBroker:
    """One broker, a child of this process."""

    def __init__(self, pid: int, lifeline: int, output: int) -> None:
        """`lifeline` is the write end of its standard input, `output` the read end of its standard output."""
        self.pid = pid
        self.rest = b""
        self._lifeline: int | None = lifeline
        self.output: int | None = output

    def close_lifeline(self) -> None:
        """Close its standard input."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def close(self) -> None:
        """Close this process's ends of its standard streams."""
        self.close_lifeline()
        if self.output is not None:
            os.close(self.output)
            self.output = None


class ForkServer:
    """The loop of the server, for one client."""

    def __init__(self, client: socket.socket) -> None:
        """Serve the program at the other end of `client`."""
        self._client = client
        self._rest = b""
        self._descriptors: list[int] = []
        self._brokers: dict[int, ForkedBroker] = {}
        self._directories: list[str] = []
        self._ending = False
        self._preloads: list[Iterator[None]] = [preload_routes()]
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = os.pipe()

    def run(self) -> None:
        """Serve until the client has closed its socket or exited; no broker is left then."""
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # waking is enough
        signal.signal(signal.SIGTERM, self._end)
        for ignored in (signal.SIGINT, signal.SIGHUP):  # for the client, which decides
            signal.signal(ignored, signal.SIG_IGN)
        self._selector.register(self._client, selectors.EVENT_READ, self._read_client)
        self._selector.register(self._woken, selectors.EVENT_READ, self._reap)
        parent = _parent()
        if parent is not None:
            self._selector.register(parent, selectors.EVENT_READ, self._end)
        # Collections in forked processes would write to, and so copy, the memory of the objects made so far. None is
        # made here before: the first broker would wait for it.
        gc.disable()
        gc.freeze()
        try:
            while not self._ending:
                self._turn()
        finally:
            self._kill_all()
            for directory in self._directories:
                OsDisk().remove_tree(directory)

    def _turn(self) -> None:
        """Handle what has arrived; if that is nothing, load a little more of the broker before the next wait."""
        idle = bool(self._brokers and self._preloads)  # the first broker does not wait for it
        ready = self._selector.select(0 if idle else None)
        for key, _ in ready:
            key.data()
        if not ready:
            try:
                next(self._preloads[0])
            except StopIteration:
                del self._preloads[0]
                gc.collect()
                gc.freeze()

    def _end(self, *_: object) -> None:
        self._ending = True

    def _read_client(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._client, _READ_BYTES, _MAX_DESCRIPTORS)
        except ConnectionError:
            data, descriptors = b"", []
        self._descriptors += descriptors
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))
        if not data:
            self._end()

    def _handle(self, request: dict[str, Any]) -> None:
        match request:
            case {"fork": broker_id, "arguments": arguments, "sockets": listeners}:
                self._fork(broker_id, arguments, listeners)
            case {"signal": broker_id, "number": number} if broker_id in self._brokers:
                self._signal(broker_id, number)
            case {"end_input": broker_id} if broker_id in self._brokers:
                self._brokers[broker_id].close_lifeline()
            case {"delete": path}:
                self._directories.append(path)

    def _send(self, **event: object) -> None:
        try:
            self._client.sendall(json.dumps(event).encode() + b"\n")
        except OSError:  # the client has exited
            self._end()

    def _fork(self, broker_id: int, arguments: list[str], listeners: list[str]) -> None:
        given, self._descriptors = self._descriptors, []
        errors, *sockets = given
        arguments = [*arguments, *(f"--socket={name}={fd}" for name, fd in zip(listeners, sockets, strict=True))]
        lifeline_end, lifeline = os.pipe()
        output, output_end = os.pipe()
        streams = (lifeline_end, output_end, errors)
        this = os.getpid()
        pid = os.fork()
        if pid == 0:
            run_and_exit(partial(self._become_broker, this, arguments, streams, (lifeline, output)))
        for descriptor in (lifeline_end, output_end, *given):
            os.close(descriptor)
        broker = self._brokers[broker_id] = ForkedBroker(pid, lifeline, output)
        self._selector.register(output, selectors.EVENT_READ, partial(self._read_output, broker_id, broker))
        self._send(forked=broker_id, pid=pid)

    def _become_broker(
        self, parent: int, arguments: list[str], streams: tuple[int, int, int], others: tuple[int, int]
    ) -> int:
        """Run a broker in this forked process; return its exit status.

        `streams` become its standard streams; `others` are descriptors that only the parent needs.
        """
        _end_with(parent)
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        self._selector.close()
        self._client.detach()  # standard input replaces it
        for broker in self._brokers.values():
            broker.close()
        for descriptor in (self._woken, self._wake, *others):
            os.close(descriptor)
        for target, source in enumerate(streams):
            os.dup2(source, target)
            os.close(source)
        return program.main(arguments, partial(report_loaded, frozenset(sys.modules)))

    def _signal(self, broker_id: int, number: int) -> None:
        pid = self._brokers[broker_id].pid  # its own until it is reaped
        os.kill(pid, number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            self._send(paused=broker_id)

    def _read_output(self, broker_id: int, broker: ForkedBroker) -> None:
        if broker.output is None:
            return
        data = os.read(broker.output, _READ_BYTES)
        *lines, broker.rest = (broker.rest + data).split(b"\n")
        for line in lines:
            text = line.decode()
            if text.startswith(_LOADED):
                self._preloads.append(preload(json.loads(text.removeprefix(_LOADED))))
            else:
                self._send(printed=broker_id, line=text)
        if not data:
            self._selector.unregister(broker.output)
            os.close(broker.output)
            broker.output = None

    def _reap(self) -> None:
        os.read(self._woken, _READ_BYTES)
        for broker_id, broker in list(self._brokers.items()):
            pid, status = os.waitpid(broker.pid, os.WNOHANG)
            if pid:
                self._exited(broker_id, status)

    def _exited(self, broker_id: int, status: int) -> None:
        """Pass on what the broker printed before its end, then its end."""
        broker = self._brokers.pop(broker_id)
        while broker.output is not None:
            self._read_output(broker_id, broker)
        broker.close()
        self._send(exited=broker_id, status=os.waitstatus_to_exitcode(status))

    def _kill_all(self) -> None:
        for broker in self._brokers.values():
            os.kill(broker.pid, signal.SIGKILL)
        for broker in self._brokers.values():
            os.waitpid(broker.pid, 0)


def main(argv: Sequence[str] | None = None) -> int:  # noqa: ARG001 - as all programs of the launcher
    """Serve the client at standard input until it exits; return the exit status."""
    client = socket.socket(fileno=_INPUT)
    if client.family != socket.AF_UNIX:
        raise SystemExit("barnabas fork-server: standard input must be a Unix socket")
    program.loop_factory("uvloop")  # imports it
    ForkServer(client).run()
    return 0


def run_and_exit(run: Callable[[], int]) -> NoReturn:
    """End a forked process with the status that `run` returns, as the interpreter ends a program."""
    status = _FAILED
    try:
        status = run()
    except SystemExit as end:  # of the argument parser
        status = end.code if isinstance(end.code, int) else _FAILED
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(status)


def _parent() -> int | None:
    """Return a descriptor that is readable when the parent process has exited; None where there is none.

    The end of the socket is not enough: a fork of the client may hold it open.
    """
    try:
        return os.pidfd_open(os.getppid()) if sys.platform == "linux" else None
    except OSError:  # before Linux 5.3, or in a sandbox
        return None


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when `parent`, which forked it, ends. It need not be able to run, or resume."""
    if sys.platform != "linux":
        return
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(_FAILED)


def report_loaded(known: frozenset[str]) -> None:
    """Write the modules that are not in `known`, and the codecs, of this process to its standard output."""
    codecs = [
        (message.__module__, message.__name__, *versions)
        for message in Message.__subclasses__()
        if any(versions := message.compiled())
    ]
    loaded = {"modules": [name for name in sys.modules if name not in known], "codecs": codecs}
    os.write(_OUTPUT, f"{_LOADED}{json.dumps(loaded)}\n".encode())


def preload(loaded: dict[str, Any]) -> Iterator[None]:
    """Load, step by step, what a broker has reported (`report_loaded`)."""
    for name in loaded["modules"]:
        with suppress(ImportError):  # some modules are never imported under the name that they are registered by
            import_module(name)
        yield
    for module, name, decoders, encoders in loaded["codecs"]:
        getattr(import_module(module), name).prepare(decoders, encoders)
        yield


def preload_routes() -> Iterator[None]:
    """Import, step by step, the handlers of all APIs."""
    for route in ROUTES.values():
        route.load("broker")
        yield
        if route.on_controller:
            route.load(CONTROLLER)
            yield


if __name__ == "__main__":
    sys.exit(main())
