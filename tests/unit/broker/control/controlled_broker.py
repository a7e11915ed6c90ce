"""A whole broker with the control API, and a client of both; each response is compared with `docs/control-api.yaml`."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft202012Validator

from broker.control.api import OPERATIONS, find
from broker.control.control_server import ControlServer
from protocol.api import APIS, ApiKey, request_class, response_class
from protocol.headers import RequestHeader, encode_request_header
from protocol.primitives import skip_tagged_fields
from storage.disk import UnsyncedDisk
from tests.repo.tree import ROOT
from tests.typed import present
from tests.unit.broker.whole_broker import WholeBroker


@cache
def document() -> Any:
    """Return the OpenAPI document."""
    return yaml.safe_load((ROOT / "docs/control-api.yaml").read_text(encoding="utf-8"))


def resolved(node: Any) -> Any:
    """Return an object of the document, or the one that it refers to."""
    while "$ref" in node:
        place: Any = document()
        for name in node["$ref"].removeprefix("#/").split("/"):
            place = place[name]
        node = place
    return node


def check_response(method: str, path: str, status: int, content: Any) -> None:
    """Compare a response with the document."""
    operation = find(method, path)[0] if status < 400 else next(iter(OPERATIONS))
    responses = document()["paths"][operation.path][operation.method.lower()]["responses"]
    response = resolved(responses.get(str(status)) if status < 400 else responses["default"])
    schema = response["content"]["application/json"]["schema"] | {"components": document()["components"]}
    Draft202012Validator(schema).validate(content)


class Reply(NamedTuple):
    """A response of the control API."""

    status: int
    content: Any

    @property
    def message(self) -> str:
        """The first line of the message; in that of a wait, the last requests follow."""
        text: str = self.content["message"]
        return text.partition("\n")[0]


class ControlledBroker(WholeBroker):
    """The broker."""

    def __init__(self, directory: str, **settings: str) -> None:
        control = {"barnabas_control_listener": "127.0.0.1:0", "barnabas_test_profile": "true"}
        super().__init__(directory, UnsyncedDisk(), **(control | settings))

    @property
    def control(self) -> ControlServer:
        return present(self.node.control)

    async def http(self, request: bytes) -> bytes:
        """Send bytes to the control API; return what is received until it closes the connection."""
        port = int(self.control.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        try:
            return await reader.read()
        finally:
            writer.close()

    async def ask(self, method: str, path: str, **body: Any) -> Reply:
        """Send a request to the control API and return its response, which conforms to the document."""
        data = json.dumps(body).encode() if body else b""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"Authorization: Bearer {self.control.token}\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        answer = await self.http(head.encode() + data)
        status_line, _, rest = answer.partition(b"\r\n")
        content = json.loads(rest.partition(b"\r\n\r\n")[2])
        reply = Reply(int(status_line.split()[1]), content)
        check_response(method, path.partition("?")[0], reply.status, content)
        return reply

    async def text(self, path: str) -> str:
        """Return the lines that a path serves."""
        head = f"GET {path} HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer {self.control.token}\r\n\r\n"
        return (await self.http(head.encode())).partition(b"\r\n\r\n")[2].decode()

    def get(self, path: str) -> Reply:
        return self.reply("GET", path)

    def post(self, path: str, **body: Any) -> Reply:
        return self.reply("POST", path, **body)

    def reply(self, method: str, path: str, **body: Any) -> Reply:
        found: Reply = self.wait(self.ask(method, path, **body))
        return found

    async def frame(self, key: ApiKey, version: int, /, **fields: Any) -> bytes:
        """Send a request of the Kafka protocol; return the frame of the response."""
        [answer] = await self._frames((key, version, fields))
        return answer

    async def queries(self, *requests: tuple[ApiKey, int, dict[str, Any]]) -> list[Any]:
        """Send requests of the Kafka protocol at once over one connection; return their responses."""
        frames = await self._frames(*requests)
        responses = []
        for (key, version, _), frame in zip(requests, frames, strict=True):
            body_at = skip_tagged_fields(frame, 4) if APIS[key].is_flexible(version) else 4
            responses.append(response_class(key).decode(memoryview(bytearray(frame)), version, body_at))
        return responses

    async def _frames(self, *requests: tuple[ApiKey, int, dict[str, Any]]) -> list[bytes]:
        host, _, port = self.node.bootstrap.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            for number, (key, version, fields) in enumerate(requests, 1):
                header = encode_request_header(RequestHeader(key, version, number, "test"))
                request = header + request_class(key)(**fields).encode(version)
                writer.write(len(request).to_bytes(4, "big") + request)
            return [await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")) for _ in requests]
        finally:
            writer.close()
