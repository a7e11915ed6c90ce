"""A whole broker on an event loop of its own, in this process, and a client for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from itertools import count
from random import Random
from struct import Struct
from typing import Any

from broker.broker_server import BrokerServer
from broker.node import Node
from broker.settings import Option, check_settings
from protocol.api import APIS, ApiKey, request_class, response_class
from protocol.headers import RequestHeader, encode_request_header
from protocol.primitives import skip_tagged_fields
from storage.disk import Disk, OsDisk
from tests.typed import present

_SIZE = Struct(">i")


# Two runs draw different ids, as two processes would.
_RUNS = count(1)


class WholeBroker:
    """The broker; the test starts it and closes its loop."""

    def __init__(self, directory: str, disk: Disk | None = None, **settings: str) -> None:
        """Take one or more log directories, and settings with _ for each dot in their names."""
        self.loop = asyncio.new_event_loop()
        named = {name.replace("_", "."): text for name, text in settings.items()}
        named |= {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory, "offsets.topic.num.partitions": "1"}
        found = {name: Option(text, "test") for name, text in named.items()}
        self._make = partial(Node, check_settings(found), disk or OsDisk(), self.loop, random=Random(next(_RUNS)))
        self.node: Node

    def build(self) -> None:
        """Create the node; `CannotStart` as `Node`."""
        self.node = self._make()

    async def start(self) -> None:
        """Create and start the node; `CannotStart` as `Node`."""
        self.build()
        await self.node.start()

    async def stop(self) -> bool:
        """Stop the broker; return whether that was clean."""
        return await self.node.stop()

    @property
    def broker(self) -> BrokerServer:
        return present(self.node.broker)

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 60))

    async def query(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Send a request over a connection of its own; return the response."""
        header = encode_request_header(RequestHeader(key, version, 1, "test"))
        request = header + request_class(key)(**fields).encode(version)
        host, _, port = self.node.bootstrap.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(_SIZE.pack(len(request)) + request)
            answer = await reader.readexactly(_SIZE.unpack(await reader.readexactly(_SIZE.size))[0])
        finally:
            writer.close()
        body_at = skip_tagged_fields(answer, 4) if APIS[key].is_flexible(version) else 4
        return response_class(key).decode(memoryview(bytearray(answer)), version, body_at)

    def call(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        return self.wait(self.query(key, version, **fields))
