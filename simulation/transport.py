"""The two ends of a simulated connection, and the streams of bytes between them.

A `Stream` is the sender's kernel, the wire and the receiver's kernel in one: it accepts bytes while it has room,
delivers them in order after the link's latency, and frees the room when they are read.

`Wires` has what all connections share.

`Transport` has the semantics of asyncio's selector loop: a write sends at once what fits; writing pauses above the
high-water mark; connection_lost runs in its own turn; close() waits for the buffer; a close with unread data resets the
connection.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from itertools import count
from random import Random
from typing import Any
from zlib import crc32

from simulation.loop import Loop, Schedule

_RETRY_S = 0.2  # for data that does not get through
_GIVE_UP_S = 15.0
_HIGH_WATER_BYTES = 64 * 1024
_READ_BYTES = 256 * 1024


class Link:
    """One direction between two hosts."""

    __slots__ = ("latency_s", "up")

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.up = True


class Wires:
    """What connections share: the links between hosts, the loop of the wire, and all open ends."""

    def __init__(self, schedule: Schedule, random: Random) -> None:
        self.schedule = schedule
        self.random = random
        self.wire = schedule.loop("wire")
        self._off: set[str] = set()
        self._links: dict[tuple[str, str], Link] = {}
        self._descriptors = count(100)
        self.transports: dict[int, Transport] = {}
        """Every open end of a connection, by its socket's descriptor."""
        self.slow: dict[str, tuple[int, float]] = {}
        """Slow hosts: the most bytes of one read, and the seconds between two reads."""
        self.largest_read_bytes = _READ_BYTES
        """The upper bound of the random size of a read."""
        self.bytes = 0

    def link(self, source: str, target: str) -> Link:
        """Return the link from `source` to `target`."""
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = Link(self.random.choice((5e-5, 2e-4, 1e-3)))
        return found

    def is_off(self, host: str) -> bool:
        return host in self._off

    def new_descriptor(self, transport: Transport) -> int:
        descriptor = next(self._descriptors)
        self.transports[descriptor] = transport
        return descriptor


class Socket:
    """The socket's interface besides its bytes."""

    __slots__ = ("_address", "_descriptor")

    def __init__(self, address: tuple[str, int], descriptor: int = -1) -> None:
        self._address = address
        self._descriptor = descriptor

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def setsockopt(self, *_: Any) -> None:
        """Ignore: the network determines buffer sizes."""

    def fileno(self) -> int:
        return self._descriptor


class Stream:
    """One direction of a connection."""

    def __init__(self, network: Wires, sender: Transport, receiver: Transport) -> None:
        self._network = network
        self._sender = sender
        self._receiver = receiver
        self._link = network.link(sender.loop.host, receiver.loop.host)
        self._back = network.link(receiver.loop.host, sender.loop.host)
        self._under_way: deque[bytes] = deque()
        self._under_way_bytes = 0
        self._arrives_at = 0.0
        self._stalled_since: float | None = None
        self._room_bytes = network.random.choice((4_096, 65_536, 1 << 20))
        self._notified_of_room = True
        self._dropped = False
        self.received = bytearray()
        self.ended = False
        """Whether the sender has ended its side and `received` has all of its data."""

    def send(self, data: bytes) -> int:
        """Accept as much of `data` as there is room for; return the number of bytes."""
        room_bytes = self._room_bytes - self._under_way_bytes - len(self.received)
        piece = data if len(data) <= room_bytes else data[: max(room_bytes, 0)]
        if piece:
            self._put(piece)
        return len(piece)

    def end(self) -> None:
        """End the stream after the data sent so far."""
        self._put(b"")

    def drop(self) -> None:
        """Drop everything under way: the sender's kernel has forgotten the connection."""
        self._dropped = True
        self._under_way.clear()

    def _put(self, piece: bytes) -> None:
        if self._dropped:
            return
        network = self._network
        self._under_way.append(piece)
        self._under_way_bytes += len(piece)
        latency_s = self._link.latency_s * (1 + network.random.random())
        self._arrives_at = max(network.schedule.now + latency_s, self._arrives_at)
        network.wire.call_at(self._arrives_at, self._arrive)

    def _arrive(self) -> None:
        if not self._under_way:
            return
        network, receiver = self._network, self._receiver
        answered = not receiver.gone or self._back.up
        if not self._link.up or network.is_off(receiver.loop.host) or not answered:
            self._stall()
            return
        if receiver.gone:
            self.drop()
            reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            network.wire.call_later(self._back.latency_s, self._sender.broken, reset)
            return
        # Queued data arrives at once.
        pieces = 1 if self._stalled_since is None else len(self._under_way)
        self._stalled_since = None
        for _ in range(pieces):
            piece = self._under_way.popleft()
            self._under_way_bytes -= len(piece)
            network.bytes += len(piece)
            network.schedule.trace.note(crc32(piece).to_bytes(4, "little"))
            self.received += piece
            self.ended = self.ended or not piece
        receiver.readable()

    def _stall(self) -> None:
        """Retry with one timer for all data under way; give up after a timeout."""
        network = self._network
        now = network.schedule.now
        if self._stalled_since is None:
            self._stalled_since = now
        elif now - self._stalled_since > _GIVE_UP_S:
            self._sender.broken(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))
            return
        elif now < self._arrives_at:
            return
        self._arrives_at = now + _RETRY_S
        network.wire.call_at(self._arrives_at, self._arrive)

    def take(self, size_bytes: int) -> bytes:
        """Read up to `size_bytes` of the received data."""
        taken = bytes(self.received[:size_bytes])
        del self.received[:size_bytes]
        if taken and self._sender.wants_room and self._notified_of_room:
            self._notified_of_room = False
            self._network.wire.call_later(self._back.latency_s, self._notify_room)
        return taken

    def _notify_room(self) -> None:
        if not self._back.up or self._network.is_off(self._sender.loop.host):
            if not self._sender.gone:
                self._network.wire.call_later(_RETRY_S, self._notify_room)
            return
        self._notified_of_room = True
        self._sender.writable()


class Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Wires, loop: Loop, address: tuple[str, int], peer: tuple[str, int]) -> None:
        self.loop = loop
        self._network = network
        self._descriptor = network.new_descriptor(self)
        extra = {"sockname": address, "peername": peer, "socket": Socket(address, self._descriptor)}
        super().__init__(extra)
        self.peer: Transport
        self._protocol: Any = None
        self._buffered = False
        self._in: Stream
        self._out: Stream
        self._buffer = bytearray()
        self._closing = False
        self._eof = False
        self._paused = False
        self._reading_soon = False
        self._protocol_paused = False
        self._lost = False
        self._high, self._low = _HIGH_WATER_BYTES, _HIGH_WATER_BYTES // 4
        self.gone = False
        """Whether the socket is closed."""

    def connect(self, peer: Transport, there: Stream, back: Stream) -> None:
        self.peer, peer.peer = peer, self
        self._out = peer._in = there
        self._in = peer._out = back

    def begin(self, protocol: Any) -> None:
        """Call the protocol's connection_made, then deliver data."""
        self.set_protocol(protocol)
        self.loop.call_soon(protocol.connection_made, self)
        self.readable()

    # Reading

    def readable(self) -> None:
        """Read in the next turn, unless reading is paused."""
        if self._protocol is None or self._paused or self._closing or self._reading_soon:
            return
        if self._in.received or self._in.ended:
            self._reading_soon = True
            self.loop.call_soon(self._read)

    def _read(self) -> None:
        self._reading_soon = False
        if self._paused or self._closing:
            return
        received = self._in.received
        if not received:
            if self._in.ended:
                self._read_end()
            return
        network = self._network
        slow = network.slow.get(self.loop.host)
        size_bytes = len(received)
        if size_bytes > network.largest_read_bytes:
            size_bytes = network.largest_read_bytes
        if slow is not None:
            size_bytes = min(size_bytes, slow[0])
        elif size_bytes > 1 and network.random.random() < 0.2:
            size_bytes = network.random.randint(1, size_bytes)
        try:
            if self._buffered:
                buffer = self._protocol.get_buffer(-1)
                size_bytes = min(size_bytes, len(buffer))
                buffer[:size_bytes] = self._in.take(size_bytes)
                self._protocol.buffer_updated(size_bytes)
            else:
                self._protocol.data_received(self._in.take(size_bytes))
        except Exception as error:
            self._fatal(error, "Fatal error on transport")
            return
        if self.loop.on_read is not None:
            self.loop.on_read()
        if slow is not None:
            self._reading_soon = True
            self.loop.call_later(slow[1], self._read)
        else:
            self.readable()

    def _read_end(self) -> None:
        try:
            keep_open = self._protocol.eof_received()
        except Exception as error:
            self._fatal(error, "Fatal error: protocol.eof_received() call failed.")
            return
        if keep_open:
            self._paused = True
        else:
            self.close()

    def is_reading(self) -> bool:
        return not self._closing and not self._paused

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused and not self._closing:
            self._paused = False
            self.readable()

    # Writing

    @property
    def wants_room(self) -> bool:
        return bool(self._buffer) or self._eof

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not len(data) or self._lost:
            return
        data = bytes(data)
        if not self._buffer:
            data = data[self._out.send(data) :]
            if not data:
                return
        self._buffer += data
        if len(self._buffer) > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def send_now(self, data: bytes) -> int | None:
        """Accept bytes that a process sends directly through the socket's descriptor; None if it is closed."""
        if self._lost or self.gone:
            return None
        return self._out.send(data)

    def writable(self) -> None:
        """Continue to send in a turn of the loop: there is room again."""
        if not self._lost:
            self.loop.call_soon(self._write_on)

    def _write_on(self) -> None:
        if self._lost or not self._buffer:
            return
        del self._buffer[: self._out.send(bytes(self._buffer))]
        if self._protocol_paused and len(self._buffer) <= self._low:
            self._protocol_paused = False
            self._protocol.resume_writing()
        if not self._buffer:
            if self._closing:
                self._lose(None)
            elif self._eof:
                self._out.end()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._closing and not self._eof:
            self._eof = True
            if not self._buffer:
                self._out.end()

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low
        if len(self._buffer) > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self._protocol.pause_writing()

    # Closing

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._buffer:
                self._lose(None)

    def abort(self) -> None:
        self._force(None)

    def broken(self, error: Exception) -> None:
        """Report the loss of the connection to the process, whatever was under way."""
        if not self.gone:
            self._out.drop()
            self._in.received.clear()
            self._force(error)

    def orphaned(self, *, silently: bool) -> None:
        """Close the socket of a dead process."""
        self._lost = self._closing = True
        if silently:
            self._out.drop()  # incoming data is answered with a reset once the machine is up again
            self.gone = True
            self._network.transports.pop(self._descriptor, None)
        else:
            self._close_socket()

    def _fatal(self, error: Exception, message: str) -> None:
        self.loop.call_exception_handler({"message": message, "exception": error, "transport": self})
        self._force(error)

    def _force(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._buffer.clear()
        self._closing = True
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        self._lost = True
        self.loop.call_soon(self._notify_loss, error)

    def _notify_loss(self, error: Exception | None) -> None:
        try:
            if self._protocol is not None:
                self._protocol.connection_lost(error)
        finally:
            self._close_socket()

    def _close_socket(self) -> None:
        """Send the end of the stream; reset the connection if received data was not read."""
        if self.gone:
            return
        self.gone = True
        self._network.transports.pop(self._descriptor, None)
        if self._in.received:
            self._out.drop()
            reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            link = self._network.link(self.loop.host, self.peer.loop.host)
            if link.up:
                self._network.wire.call_later(link.latency_s, self.peer.broken, reset)
        elif not self._eof:
            self._out.end()
