"""A client of the simulated brokers, with its own connections and its own cache of leaders and coordinators.

Responses must arrive whole and in the order of their requests; anything else is a finding. A lost or late response
raises `Lost`: the request may or may not have taken effect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import Any

from protocol.api import ApiKey, request_class, response_class
from protocol.errors import DecodeError, ErrorCode
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.metadata import MetadataRequest
from simulation.cluster import PORT, World
from simulation.loop import Loop
from simulation.violation import Invariant

_SIZE = Struct(">i")
_METADATA_VERSION = 12
_LONGER = 3
# Below the time in which the clients must end after the last fault: a pause has an exponential distribution.
_LONGEST_PAUSE_S = 60.0

Address = tuple[str, int]


class Lost(Exception):  # noqa: N818 - a state of affairs
    """No response arrived, and none will."""


class Link(asyncio.Protocol):
    """One connection to a broker."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._buffer = bytearray()
        self._waiting: deque[tuple[int, ApiKey, int, asyncio.Future[Any]]] = deque()
        self._correlation_id = 0
        self._transport: asyncio.Transport
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        while self._waiting:
            *_, answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(Lost(str(exc)))

    def close(self) -> None:
        self._transport.abort()

    def send(self, loop: Loop, key: ApiKey, version: int, fields: dict[str, Any]) -> asyncio.Future[Any]:
        """Send a request; its future completes with the response, or with `Lost`."""
        if self.lost:
            raise Lost("the connection is lost")
        self._correlation_id += 1
        header = encode_request_header(RequestHeader(key, version, self._correlation_id, self._name))
        frame = header + request_class(key)(**fields).encode(version)
        answer: asyncio.Future[Any] = loop.create_future()
        if fields.get("acks") == 0:
            answer.set_result(None)
        else:
            self._waiting.append((self._correlation_id, key, version, answer))
        self._transport.write(_SIZE.pack(len(frame)) + frame)
        return answer

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(buffer, at)
            if len(buffer) - at - _SIZE.size < size:
                break
            frame = bytes(buffer[at + _SIZE.size : at + _SIZE.size + size])
            at += _SIZE.size + size
            self._received(frame)
        del buffer[:at]

    def _received(self, frame: bytes) -> None:
        check = self._world.check
        check(Invariant.RESPONSES_ARE_ORDERED, self._waiting, f"{self._name} got a response to nothing")
        expected, key, version, answer = self._waiting.popleft()
        try:
            correlation_id, body_at = decode_response_header(key, version, frame)
            check(
                Invariant.RESPONSES_ARE_ORDERED,
                correlation_id == expected,
                f"{self._name} got the response to {correlation_id}, not to {expected}",
            )
            response = response_class(key).decode(memoryview(bytearray(frame)), version, body_at)
        except DecodeError as error:
            check(
                Invariant.RESPONSES_ARE_ORDERED,
                False,
                f"{self._name} got a response to {key.name} v{version} that is none: {error}",
            )
        if not answer.done():
            answer.set_result(response)


class Client:
    """A client process."""

    def __init__(self, world: World, loop: Loop, name: str, bootstrap: list[str]) -> None:
        """`bootstrap` names the first hosts to connect to."""
        self.world = world
        self.loop = loop
        self.name = name
        self.random = world.random(name)
        self.timeout_s = 3.0
        self.max_pause_s = _LONGEST_PAUSE_S
        self._bootstrap = [(host, PORT) for host in bootstrap]
        self._links: dict[Address, Link] = {}
        self._leaders: dict[tuple[str, int], Address] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._reported = -1

    def any_broker(self) -> Address:
        return self.random.choice(self._bootstrap)

    def fresh_broker(self) -> Address:
        """Return the seed's choice of broker if it has all metadata that this client received; else raise `Lost`."""
        return self.fresh(self.any_broker())

    def fresh(self, address: Address) -> Address:
        """Return the address of a broker with all metadata that this client received; else raise `Lost`."""
        if not self.world.knows(address, self._reported):
            raise Lost(f"{address} is behind")
        return address

    async def link(self, address: Address, *, anew: bool = False) -> Link:
        """Return a connection, with `anew` a new one in place of the current; raise `Lost` if the connection fails."""
        link = self._links.get(address)
        if anew and link is not None and not link.lost:
            link.close()
        if link is None or link.lost or anew:
            self._links.pop(address, None)
            try:
                async with asyncio.timeout(self.timeout_s):
                    _, link = await self.loop.create_connection(lambda: Link(self.world, self.name), *address)
                    await asyncio.sleep(0)
            except (OSError, TimeoutError) as error:
                raise Lost(f"no connection to {address}: {error}") from None
            self._links[address] = link
        return link

    async def call(self, address: Address, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Send a request and return its response; if none arrives, drop the connection and raise `Lost`."""
        link = await self.link(address)
        answer = await self.answer(link, link.send(self.loop, key, version, fields))
        self.record_newest_metadata()
        return answer

    def record_newest_metadata(self) -> None:
        """Record the newest metadata of any broker, which a `fresh` broker has to have."""
        self._reported = self.world.newest_offset

    async def answer(self, link: Link, answer: asyncio.Future[Any]) -> Any:
        """Wait for a response; raise `Lost` if none arrives."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await answer
        except TimeoutError:
            link.close()
            raise Lost("no answer in time") from None

    async def pause(self, usual_s: float = 0.05) -> None:
        """Wait for about `usual_s`; longer in a cluster, where more events happen meanwhile."""
        pause_s = self.random.expovariate(1 / usual_s) * (_LONGER if self.world.clustered else 1)
        await asyncio.sleep(min(pause_s, self.max_pause_s))

    # Leaders and coordinators

    async def leader(self, topic: str, partition: int) -> Address:
        """Return the address of a partition's leader; raise `Lost` if no broker knows it."""
        found = self._leaders.get((topic, partition))
        if found is None:
            wanted = MetadataRequest.Topic(name=topic)
            answer = await self.call(
                self.any_broker(),
                ApiKey.METADATA,
                _METADATA_VERSION,
                topics=[wanted],
                allow_auto_topic_creation=False,
            )
            brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
            for one in answer.topics:
                for state in one.partitions:
                    if state.leader_id in brokers:
                        self._leaders[one.name, state.partition_index] = brokers[state.leader_id]
            found = self._leaders.get((topic, partition))
            if found is None:
                raise Lost(f"{topic}-{partition} has no leader")
        return found

    def known_leader(self, topic: str, partition: int) -> Address | None:
        """Return the address of the leader from the last lookup."""
        return self._leaders.get((topic, partition))

    async def coordinator(self, key: str, key_type: int = 0) -> Address:
        """Return the address of the coordinator of a group, or with `key_type` 1 of a transactional id.

        Raise `Lost` if no broker knows it.
        """
        found = self._coordinators.get((key_type, key))
        if found is None:
            answer = await self.call(
                self.any_broker(), ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=[key]
            )
            [one] = answer.coordinators
            if one.error_code != ErrorCode.NONE:
                raise Lost(f"no coordinator: {ErrorCode(one.error_code).name}")
            found = self._coordinators[key_type, key] = (one.host, one.port)
        return found

    def forget(self) -> None:
        """Clear the cached leaders and coordinators."""
        self._leaders.clear()
        self._coordinators.clear()

    def drop_links(self) -> None:
        """Replace all connections."""
        self._links.clear()
        self.forget()
