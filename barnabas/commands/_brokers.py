"""The broker processes of `barnabas up`: started, supervised and stopped by one select loop.

    starting   until every broker is ready and has all others in its metadata; if one exits before that, the others are
               stopped
    serving    the exit of a broker is reported, the others keep running
    stopping   all at the same time, so that no broker moves leadership to one that is about to stop too; Ctrl-C then
               kills them

A broker that was restarted by hand, with the command that `barnabas up` printed, belongs to the cluster: the lock of
its data names its process. It counts as running; it is stopped with the others, by SIGTERM and then SIGKILL.

A broker's standard input is the read end of a pipe; it stops at EOF: when this process closes the write end, or has
exited in whatever way. Each broker is in its own process group: this process handles the terminal's Ctrl-C for it.

A broker's process gets two options of `barnabas serve` that its help does not show, because only a launcher uses them:

    --socket=LISTENER=FD         descriptor FD, inherited, is a socket bound to the address of LISTENER; repeatable
    --start-group=TAG:BROKERS    print the ready line only when this broker's metadata has BROKERS brokers of this
                                 start; TAG is the same 16 random hexadecimal digits for all of them
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Any, Literal

from barnabas.commands._cluster_files import NodeFiles, lock_holder

LAUNCHER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_launcher.py")
READY = b"ready: "
CONTROL = b"control: "
READ_BYTES = 64 * 1024
STOPPING_S = 10.0
POLL_S = 0.1  # between looks at brokers that are not children of this process
HAD_TO_STOP = 1
CANNOT_START = 2
REFUSAL = "barnabas: "
"""The prefix of the line with the reason why a broker's process exits."""
FROM_ARGUMENTS = "-D "
"""The prefix of a reason that concerns a setting on every broker's command line."""

Phase = Literal["starting", "serving", "stopping"]


class ListedBroker:
    """One broker's process; it owns its sockets once it is started."""

    def __init__(self, node: NodeFiles, arguments: Sequence[str], lifeline: int, inherited: Sequence[int]) -> None:
        """Start the process; `lifeline` becomes its standard input, `arguments` are added to `barnabas serve`.

        The descriptors `inherited` are open in the process too.
        """
        sockets = {name: one.fileno() for name, one in node.sockets.items()}
        handed = [f"--socket={name}={descriptor}" for name, descriptor in sockets.items()]
        self.node = node
        self.process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [
                sys.executable,
                LAUNCHER,
                "serve",
                "--config",
                node.settings_file,
                "--exit-with-parent",
                *handed,
                *arguments,
            ],
            stdin=lifeline,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[*sockets.values(), *inherited],
            process_group=0,
            env=os.environ | {"BARNABAS_CONTAINER": ""},  # its settings are in the file
        )
        for one in node.sockets.values():
            one.close()  # frees its ports once the process has exited
        self.ready = False
        self.control_url = ""
        """The URL of its control API; empty if that is off."""
        self.explained = False  # the reason for its exit was reported by `on_refusal`

    @property
    def streams(self) -> list[IO[bytes]]:
        """Its standard output, and its log on standard error."""
        return [stream for stream in (self.process.stdout, self.process.stderr) if stream is not None]


class Brokers:
    """All broker processes; a context manager at whose end none is left."""

    def __init__(
        self,
        on_end: Callable[[ListedBroker, int], None],
        on_refusal: Callable[[str], None],
        on_restarted: Callable[[NodeFiles, int], None],
        inherited: Sequence[int] = (),
    ) -> None:
        """`on_end` is called with each broker that exits unexpectedly, and the number of brokers left.

        `on_refusal` is called once per reason for which brokers refuse the common settings; `on_end` is not called for
        them. `on_restarted` is called with each broker that was restarted by hand and is stopped now, and its process
        id. The descriptors `inherited` stay open until the last broker has exited.
        """
        self._inherited = inherited
        self._on_restarted = on_restarted
        self._nodes: list[NodeFiles] = []
        self._terminated: set[int] = set()  # processes that were sent SIGTERM
        self._foreign: set[int] = set()  # processes that must not be signalled
        self.phase: Phase = "starting"
        self.status = 0
        self.running: dict[int, ListedBroker] = {}
        self._on_end = on_end
        self._on_refusal = on_refusal
        self._refusals: set[str] = set()
        self._selector = selectors.DefaultSelector()
        self._lifeline, self._held = os.pipe()
        self._woken, self._wake = os.pipe()
        self._handlers: list[tuple[signal.Signals, Any]] = []

    def __enter__(self) -> Brokers:
        os.set_blocking(self._wake, False)
        self._selector.register(self._woken, selectors.EVENT_READ, self._signalled)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in stopping_signals():
            self._handlers.append((number, signal.signal(number, lambda *_: None)))  # waking is enough
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for broker in self.running.values():
            try:
                broker.process.communicate(timeout=STOPPING_S)
            except subprocess.TimeoutExpired:
                broker.process.kill()
                broker.process.communicate()
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers:
            signal.signal(number, handler)
        self._selector.close()
        for descriptor in (self._lifeline, self._woken, self._wake):
            os.close(descriptor)

    def start(self, node: NodeFiles, arguments: Sequence[str]) -> None:
        """Start a broker."""
        self._nodes.append(node)
        broker = self.running[node.node_id] = ListedBroker(node, arguments, self._lifeline, self._inherited)
        for stream, take in zip(broker.streams, (self._printed, self._logged), strict=True):
            self._selector.register(stream, selectors.EVENT_READ, partial(self._read, broker, stream, Lines(), take))

    def until_ready(self) -> bool:
        """Wait until every broker serves; return False if they are stopping instead."""
        while self.phase == "starting" and not all(broker.ready for broker in self.running.values()):
            self._turn()
        if self.phase == "starting":
            self.phase = "serving"
        return self.phase == "serving"

    def until_ended(self) -> int:
        """Wait until no broker is left; return the exit status."""
        while True:
            restarted = self._restarted()
            if self.phase == "stopping":
                self._stop_restarted(restarted)
            if not self.running and not restarted:
                self.stop(HAD_TO_STOP)  # without effect if they were to stop
                return self.status
            waits = restarted and (self.phase == "stopping" or not self.running)
            self._turn(POLL_S if waits else None)

    def stop(self, status: int = 0) -> None:
        """Stop the brokers; `until_ended` returns `status`."""
        if self.phase != "stopping":
            self.phase, self.status = "stopping", status
            os.close(self._held)

    def stop_at_end_of_input(self) -> None:
        """Stop at EOF on standard input; OSError if it cannot be polled."""
        self._selector.register(0, selectors.EVENT_READ, self._read_input)

    def _read_input(self) -> None:
        if not os.read(0, READ_BYTES):
            self._selector.unregister(0)
            self.stop()

    def _restarted(self) -> dict[int, NodeFiles]:
        """Return the brokers that were restarted by hand and that this process may signal, by process id."""
        ended = [node for node in self._nodes if node.node_id not in self.running]
        found = ((lock_holder(node.data_dir), node) for node in ended)
        holders = ((holder, node) for holder, node in found if holder is not None and holder.is_broker)
        return {holder.process: node for holder, node in holders if holder.process not in self._foreign}

    def _stop_restarted(self, restarted: Mapping[int, NodeFiles], number: int = signal.SIGTERM) -> None:
        """Send the signal to the brokers that were restarted by hand, SIGTERM once only."""
        for process, node in restarted.items():
            if process not in self._terminated:
                self._on_restarted(node, process)
            elif number == signal.SIGTERM:
                continue
            self._terminated.add(process)
            with suppress(ProcessLookupError):
                try:
                    os.kill(process, number)
                except PermissionError:  # it runs as another user, and goes on
                    self._foreign.add(process)

    def _turn(self, timeout_s: float | None = None) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data()

    def _signalled(self) -> None:
        for number in os.read(self._woken, READ_BYTES):
            if self.phase == "stopping" and number == signal.SIGINT:
                for broker in self.running.values():
                    broker.process.kill()
                self._stop_restarted(self._restarted(), signal.SIGKILL)
            self.stop()

    def _read(
        self, broker: ListedBroker, stream: IO[bytes], lines: Lines, take: Callable[[ListedBroker, bytes], None]
    ) -> None:
        data = os.read(stream.fileno(), READ_BYTES)
        for line in lines.add(data):
            take(broker, line)
        if data:
            return
        self._selector.unregister(stream)
        stream.close()
        if all(one.closed for one in broker.streams):
            self._ended(broker)

    def _printed(self, broker: ListedBroker, line: bytes) -> None:
        broker.ready = broker.ready or line.startswith(READY)
        if line.startswith(CONTROL):
            broker.control_url = line.removeprefix(CONTROL).decode().strip()

    def _logged(self, broker: ListedBroker, line: bytes) -> None:
        text = line.decode(errors="replace")
        if not broker.ready and text.startswith(REFUSAL + FROM_ARGUMENTS):
            broker.explained = True
            reason = text.removeprefix(REFUSAL).rstrip("\n")
            if reason not in self._refusals:  # each broker checks the same settings
                self._refusals.add(reason)
                self._on_refusal(reason)
            return
        sys.stderr.write(f"[{broker.node.node_id}] {text}")
        sys.stderr.flush()

    def _ended(self, broker: ListedBroker) -> None:
        status = broker.process.wait()
        del self.running[broker.node.node_id]
        if self.phase == "stopping":
            self.status = self.status or (HAD_TO_STOP if status else 0)
            return
        if not broker.explained:
            self._on_end(broker, len(self.running) + len(self._restarted()))
        if self.phase == "starting":
            self.stop(CANNOT_START if status == CANNOT_START else HAD_TO_STOP)


def stopping_signals() -> list[signal.Signals]:
    """Return the signals that stop a cluster in order: SIGHUP too, unless it is ignored, as by nohup."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([] if ignored else [signal.SIGHUP])]


class Lines:
    """Splits data from a pipe into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> list[bytes]:
        """Return the complete lines; at EOF (no data), the rest."""
        *whole, self._rest = (self._rest + data).splitlines(keepends=True) or [b""]
        if self._rest.endswith(b"\n") or not data:
            whole, self._rest = [*whole, self._rest], b""
        return [line if line.endswith(b"\n") else line + b"\n" for line in whole if line]
