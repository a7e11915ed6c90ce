"""A client that sends one exact request in one exact version, and reads the response."""

from __future__ import annotations

import socket
from struct import Struct
from typing import Any

from protocol.api import APIS, ApiKey, request_class, response_class
from protocol.headers import RequestHeader, encode_request_header
from protocol.primitives import skip_tagged_fields

_SIZE = Struct(">i")


class RawClient:
    """One connection; responses come in the order of the requests."""

    def __init__(self, bootstrap: str, timeout_s: float = 30) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout_s)
        self._stream = self._socket.makefile("rb")
        self._requests = 0
        self.answered = 0
        """The correlation id of the last response; requests are numbered from 1."""

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def call(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Send one request and return its response; ConnectionError if the broker closes instead."""
        self.send(key, version, **fields)
        return self.receive(key, version)

    def send(self, key: ApiKey, version: int, /, **fields: Any) -> None:
        """Send one request; receive the responses of several in the same order."""
        self._requests += 1
        header = encode_request_header(RequestHeader(key, version, self._requests, "raw"))
        frame = header + request_class(key)(**fields).encode(version)
        self._socket.sendall(_SIZE.pack(len(frame)) + frame)

    def receive(self, key: ApiKey, version: int) -> Any:
        """Return the next response; ConnectionError if the broker closes instead."""
        frame = self._read(_SIZE.unpack(self._read(_SIZE.size))[0])
        self.answered = int.from_bytes(frame[:4], "big")
        # ApiVersions responses have header version 0 in all versions: the client may not know newer ones.
        flexible = APIS[key].is_flexible(version) and key is not ApiKey.API_VERSIONS
        body_at = skip_tagged_fields(frame, 4) if flexible else 4
        return response_class(key).decode(memoryview(bytearray(frame)), version, body_at)

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ConnectionError("the broker closed the connection")
        return data
