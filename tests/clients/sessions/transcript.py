"""A recorded session as a file to read and to replay.

    # what, by whom
    let $topic-1 = 1d1fb2...                      a value that differs in every run

    2 > Metadata v13, 5, 'console-producer'       connection 2 sends a request: API, version, correlation id, client id
      topics: 1                                   ... with these fields,
      - name: 'session'
      = 0000002f0003000d...                       ... and these bytes, without their length
    2 < Metadata v13, 5                           connection 2 receives the response
      throttle_time_ms: 0
    2 .                                           the client closes connection 2

The fields of requests are for readers; a replay sends the bytes.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from protocol.api import APIS, ApiKey, request_class, response_class
from protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from protocol.messages.list_groups import ListGroupsResponse
from protocol.messages.metadata import MetadataResponse
from protocol.schema import Message
from tests.clients.sessions.wording import Names, lines, translate

FOLDER = Path(__file__).parents[2] / "golden" / "sessions"
HEX_WIDTH = 112
SENT, ANSWERED, CLOSED = ">", "<", "."


class Event(NamedTuple):
    """An event on one of the connections, numbered from 1; ``frame`` is without its length."""

    connection: int
    kind: str
    frame: bytes = b""


class Step(NamedTuple):
    """An event in a file: its first line, its content, and a request's bytes."""

    connection: int
    kind: str
    title: str
    shown: list[str]
    frame: bytes


class Reader:
    """Decodes the frames of a run in order: a response is decoded by its request's version."""

    def __init__(self) -> None:
        self.names = Names()
        self._requested: dict[tuple[int, int], RequestHeader] = {}

    def request(self, connection: int, frame: bytes) -> tuple[str, list[str]]:
        """Return a request's first line and its content."""
        header, message = decoded_request(frame)
        self._requested[connection, header.correlation_id] = header
        shown = ["  (in a version that is not known here)"] if message is None else self._lines(message, header)
        return f"{title(header)}, {header.client_id!r}", shown

    def response(self, connection: int, frame: bytes) -> tuple[str, list[str]]:
        """Return a response's first line and its content."""
        correlation_id = int.from_bytes(frame[:4], "big")
        header = self._requested.pop((connection, correlation_id))
        version = header.api_version
        if version not in APIS[header.api_key].versions:
            version = 0  # only ApiVersions answers unknown versions (KIP-511)
        _, body_at = decode_response_header(header.api_key, version, frame)
        message = response_class(header.api_key).decode(memoryview(bytearray(frame)), version, body_at)
        return title(header), self._lines(message, header._replace(api_version=version))

    def _lines(self, message: Message, header: RequestHeader) -> list[str]:
        # Brokers list topics and groups in any order.
        if isinstance(message, MetadataResponse):
            message.topics.sort(key=lambda topic: topic.name or "")
        elif isinstance(message, ListGroupsResponse):
            message.groups.sort(key=lambda group: group.group_id)
        return lines(message, header.api_version, self.names)


def title(header: RequestHeader) -> str:
    return f"{APIS[header.api_key].name} v{header.api_version}, {header.correlation_id}"


def decoded_request(frame: bytes) -> tuple[RequestHeader, Message | None]:
    header, body_at = decode_request_header(frame)
    if header.api_version not in APIS[ApiKey(header.api_key)].versions:
        return header, None
    buffer = memoryview(bytearray(frame))
    return header, request_class(header.api_key).decode(buffer, header.api_version, body_at)


def translated(frame: bytes, recorded: dict[str, Any], chosen: dict[str, Any]) -> bytes:
    """Return a recorded request as the client would send it in a run with other chosen values."""
    header, message = decoded_request(frame)

    def current(kind: str, value: Any) -> Any:
        named = (name for name, known in recorded.items() if known == value and name.startswith(f"${kind}-"))
        return chosen.get(next(named, ""), value)

    if message is None or not translate(message, current):
        return frame
    return encode_request_header(header) + message.encode(header.api_version)


def write(path: Path, about: str, events: Iterable[Event]) -> None:
    """Write a session to a file."""
    reader = Reader()
    reported: list[str] = []
    for event in events:
        first = f"{event.connection} {event.kind}"
        if event.kind == CLOSED:
            reported.append(first)
            continue
        name, shown = (reader.request if event.kind == SENT else reader.response)(event.connection, event.frame)
        reported += [f"{first} {name}", *shown]
        if event.kind == SENT:
            text = event.frame.hex()
            reported += (f"  = {text[at : at + HEX_WIDTH]}" for at in range(0, len(text), HEX_WIDTH))
    named = (f"let {name} = {_written(value)}" for name, value in reader.names.values.items())
    path.write_text("\n".join([f"# {about}", *named, "", *reported, ""]), encoding="utf-8")


def read(path: Path) -> tuple[dict[str, Any], list[Step]]:
    """Return the named values, and the steps."""
    text = path.read_text(encoding="utf-8").splitlines()
    named = {match[1]: match[2] for line in text if (match := re.match(r"let (\S+) = (.+)", line))}
    return {name: _value(value) for name, value in named.items()}, list(_steps(text))


def _written(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


def _value(value: str) -> Any:
    if value.startswith("'"):
        return value[1:-1]
    return bytes.fromhex(value) if re.fullmatch(r"[0-9a-f]{32}", value) else int(value)


def _steps(text: Iterable[str]) -> Iterator[Step]:
    step: Step | None = None
    for line in text:
        if match := re.fullmatch(r"(\d+) ([<>.]) ?(.*)", line):
            if step:
                yield step
            step = Step(int(match[1]), match[2], match[3], [], b"")
        elif step and line.startswith("  = "):
            step = step._replace(frame=step.frame + bytes.fromhex(line[4:]))
        elif step and line:
            step.shown.append(line)
    if step:
        yield step
