"""The client of a broker's control API (`docs/control-api.yaml`)."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from barnabas.testing.errors import ClusterError

if TYPE_CHECKING:
    from http.client import HTTPConnection

NOT_FOUND = 404
MISDIRECTED = 421
"""The status of a request that another broker serves: the leader of a partition, or a coordinator."""


class ControlRefusal(ClusterError):  # noqa: N818 - a broker's answer
    """The control API has refused a request."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        """`status` is that of HTTP; `answer` has the message."""
        super().__init__(answer.get("message", f"HTTP status {status}"))
        self.status = status
        self.broker: int = answer.get("broker", -1)
        """With `MISDIRECTED`, the broker that serves the request, -1 if that is not known."""


class Unreachable(ClusterError):  # noqa: N818 - the state of a broker
    """The broker does not answer: it has ended, or is paused."""


_ANSWER_S = 60.0
"""The time that a broker may take for a request that does not wait; a stopped process would take for ever."""


class PendingCall:
    """A request whose response is not read yet: one of several in parallel, or a wait."""

    def __init__(self, client: ControlClient, connection: HTTPConnection) -> None:
        self._client = client
        self._connection = connection
        self._read = False

    def fileno(self) -> int:
        """Return the descriptor that is readable when the response comes."""
        return self._connection.sock.fileno()

    def result(self) -> dict[str, Any]:
        """Wait for the response and return it; `ControlRefusal` or `Unreachable`."""
        data = self.data()
        try:
            answer: dict[str, Any] = json.loads(data)
        except ValueError:
            raise Unreachable(f"{self._client.address} is not the control API of a broker") from None
        return answer

    def data(self) -> bytes:
        """Wait for the response and return its body; `ControlRefusal` or `Unreachable`."""
        from http.client import HTTPException

        try:
            response = self._connection.getresponse()
            data = response.read()
        except (OSError, HTTPException) as error:
            self.cancel()
            raise Unreachable(f"{self._client.address} does not answer: {error}") from error
        self._client.give_back(self._connection)
        self._read = True
        if response.status >= 400:
            raise self._refusal(response.status, data)
        return data

    def _refusal(self, status: int, data: bytes) -> ClusterError:
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        if isinstance(answer, dict) and "message" in answer:
            return ControlRefusal(status, answer)
        return Unreachable(
            f"{self._client.address} is not the control API of a broker: it answers with status {status}"
        )

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of a response as they come; `ControlRefusal` or `Unreachable`."""
        from http.client import HTTPException

        self._connection.sock.settimeout(None)
        try:
            response = self._connection.getresponse()
            if response.status >= 400:
                raise self._refusal(response.status, response.read())
            yield from response
        except (OSError, HTTPException) as error:
            raise Unreachable(f"{self._client.address} does not answer: {error}") from error
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Close the connection unless the response was read; this ends a wait in the broker."""
        if not self._read:
            self._connection.close()


class ControlClient:
    """The control API of one broker, for several threads. Connections are kept open for further requests."""

    def __init__(self, url: str, answer_s: float = _ANSWER_S) -> None:
        """`url` has the token as its password: `http://:TOKEN@HOST:PORT`; ValueError for any other.

        A request that has no response after `answer_s`, and the time that it may wait, fails.
        """
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        if not (parts.scheme == "http" and parts.password and self._host and self._port):
            raise ValueError(f"{url} is not of the form http://:TOKEN@HOST:PORT")
        self._answer_s = answer_s
        self.address = f"{self._host}:{self._port}"
        self._headers = {"Authorization": f"Bearer {parts.password}", "Content-Type": "application/json"}
        self._idle: list[HTTPConnection] = []
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return the response; `ControlRefusal` or `Unreachable`."""
        return self.begin(method, path, body).result()

    def begin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> PendingCall:
        """Send a request; `Unreachable` if that fails."""
        data = None if body is None else json.dumps(body).encode()
        connection = self._connection()
        try:
            if connection.sock is None:
                connection.sock = self._connect()
            waits_ms = 0 if body is None else body.get("timeout_ms", 0)
            connection.sock.settimeout(self._answer_s + waits_ms / 1000)
            connection.request(method, path, data, self._headers)
        except OSError as error:
            connection.close()
            raise Unreachable(f"{self.address} does not answer: {error}") from error
        return PendingCall(self, connection)

    def _connection(self) -> HTTPConnection:
        from http.client import HTTPConnection  # takes longer to import than the rest of this package

        if self._owner != os.getpid():  # in a fork, which must not use the connections of its parent
            self._owner, self._lock = os.getpid(), threading.Lock()
            self.close()
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return HTTPConnection(self._host, self._port)

    def _connect(self) -> socket.socket:
        """Return a connected socket.

        `http.client` would encode the address with the codec idna, whose import takes milliseconds, and which changes
        the message of an interrupt at that moment.
        """
        connected = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET)
        connected.settimeout(self._answer_s)
        try:
            connected.connect((self._host, self._port))
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            connected.close()
            raise
        return connected

    def give_back(self, connection: HTTPConnection) -> None:
        """Keep a connection whose response has been read."""
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        """Close the connections that no request uses: for a broker that has ended, too."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def path_of(*names: str, **query: object) -> str:
    """Return the path of a resource, its names quoted; None values are left out of the query."""
    given = {name: value for name, value in query.items() if value is not None}
    return "/".join(["/v1", *(quote(name, safe="") for name in names)]) + (f"?{urlencode(given)}" if given else "")


def first_ready(calls: Iterable[PendingCall], timeout_s: float) -> PendingCall | None:
    """Return the first call whose response comes within the time; None if none does."""
    from selectors import EVENT_READ, DefaultSelector

    with DefaultSelector() as selector:
        for call in calls:
            selector.register(call, EVENT_READ)
        ready = selector.select(timeout_s)
        return ready[0][0].fileobj if ready else None  # type: ignore[return-value]
