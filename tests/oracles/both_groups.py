"""Sends the same group requests to Barnabas and Apache Kafka, from clients of the same names, and compares.

Each broker generates its own member ids; here they are m1, m2, ... in the order of first appearance. The order of
members is not compared.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from protocol.api import ApiKey
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.raw_client import RawClient

MEMBER_ID = re.compile(r"[\w.-]*[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MISSING = "missing"
ANYBODY = "anybody"


class Side:
    """One broker, its connections, and its aliases for members and topics."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic_ids = {MISSING: b"?" * 16}
        self._clients: dict[str, RawClient] = {}
        self._members: dict[str, str] = {}

    def client(self, name: str) -> RawClient:
        """Return the connection of a client, opened at first use."""
        if name not in self._clients:
            self._clients[name] = RawClient(self.bootstrap)
        return self._clients[name]

    def member(self, alias: str) -> str:
        """Return the broker's member id for m1, m2, ...; any other text is returned unchanged."""
        return next((member_id for member_id, known in self._members.items() if known == alias), alias)

    def alias(self, member_id: str) -> str:
        return self._members.setdefault(member_id, f"m{len(self._members) + 1}")

    def begin(self) -> None:
        """Drop the members and connections of previous tests."""
        self._members.clear()
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def plain(self, value: Any) -> Any:
        """Return a response as plain values, with ids replaced by aliases."""
        if isinstance(value, str):
            return self.alias(value) if MEMBER_ID.fullmatch(value) else value
        if isinstance(value, bytes | memoryview | bytearray):
            return next((name for name, known in self.topic_ids.items() if value == known), bytes(value))
        if isinstance(value, list):
            return sorted((self.plain(item) for item in value), key=repr)
        if value is None or isinstance(value, int):
            return value
        names = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
        # The response's own member id first: it defines the member's alias.
        names.sort(key=lambda name: name != "member_id")
        return {name: self.plain(getattr(value, name)) for name in names}


class Both:
    """The two brokers. Every method sends its request to both and returns the response that they agree on."""

    def __init__(self, ours: str, kafkas: str) -> None:
        self.sides = (Side(ours), Side(kafkas))
        self._waiting: dict[str, tuple[ApiKey, int]] = {}

    def same(
        self, key: ApiKey, version: int, fields: Callable[[Side], dict[str, Any]], client_name: str = ANYBODY
    ) -> Any:
        """Send a request to both and compare the responses."""
        self.send(key, version, fields, client_name)
        return self.receive(client_name)

    def send(self, key: ApiKey, version: int, fields: Callable[[Side], dict[str, Any]], client_name: str) -> None:
        """Send a request to both; `receive` reads the responses."""
        self._waiting[client_name] = key, version
        for side in self.sides:
            side.client(client_name).send(key, version, **fields(side))

    def receive(self, client_name: str) -> Any:
        """Compare the two responses to the client `client_name`."""
        key, version = self._waiting.pop(client_name)
        ours, kafkas = (side.plain(side.client(client_name).receive(key, version)) for side in self.sides)
        assert ours == kafkas, f"{ours} is not {kafkas}"
        return ours

    def create_topic(self, name: str, partitions: int = 1) -> None:
        topic = CreateTopicsRequest.Topic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        for side in self.sides:
            [created] = (
                side.client(ANYBODY)
                .call(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000, validate_only=False)
                .topics
            )
            assert created.error_code == 0, created
            side.topic_ids[name] = created.topic_id

    def until(self, group: str, state: str, members: int) -> None:
        """Wait until both have processed the requests: the group has that state and that many members."""
        deadline = time.monotonic() + 30
        for side in self.sides:
            described = None
            while described != (state, members):
                assert time.monotonic() < deadline, described
                [found] = side.client(ANYBODY).call(ApiKey.DESCRIBE_GROUPS, 5, groups=[group]).groups
                described = found.group_state, len(found.members)

    # The group protocol.

    def join(
        self, client_name: str, group: str, member: str = "", *, version: int = 9, waits: bool = False, **more: Any
    ) -> Any:
        """Join; with `waits`, the response is read later."""
        protocols = more.pop("protocols", [("range", b"x")])

        def fields(side: Side) -> dict[str, Any]:
            defaults = {
                "group_id": group,
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 20_000,
                "member_id": side.member(member),
                "protocol_type": "consumer",
                "protocols": [JoinGroupRequest.Protocol(name=name, metadata=metadata) for name, metadata in protocols],
            }
            return defaults | more

        self.send(ApiKey.JOIN_GROUP, version, fields, client_name)
        return None if waits else self.receive(client_name)

    def sync(
        self,
        client_name: str,
        group: str,
        member: str,
        generation: int,
        *,
        version: int = 5,
        waits: bool = False,
        assignments: dict[str, bytes] | None = None,
        **more: Any,
    ) -> Any:
        def fields(side: Side) -> dict[str, Any]:
            assigned = [
                SyncGroupRequest.Assignment(member_id=side.member(name), assignment=text)
                for name, text in (assignments or {}).items()
            ]
            defaults = {"group_id": group, "generation_id": generation, "member_id": side.member(member)}
            named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
            return defaults | named | {"assignments": assigned} | more

        self.send(ApiKey.SYNC_GROUP, version, fields, client_name)
        return None if waits else self.receive(client_name)

    def heartbeat(self, group: str, member: str, generation: int, *, version: int = 4, **more: Any) -> int:
        def fields(side: Side) -> dict[str, Any]:
            return {"group_id": group, "generation_id": generation, "member_id": side.member(member)} | more

        error: int = self.same(ApiKey.HEARTBEAT, version, fields)["error_code"]
        return error

    def leave(self, group: str, *members: tuple[str, str | None], version: int = 5) -> Any:
        """Remove members, each by member id and instance id."""

        def fields(side: Side) -> dict[str, Any]:
            if version < 3:
                return {"group_id": group, "member_id": side.member(members[0][0])}
            leaving = [
                LeaveGroupRequest.Member(member_id=side.member(name), group_instance_id=instance)
                for name, instance in members
            ]
            return {"group_id": group, "members": leaving}

        return self.same(ApiKey.LEAVE_GROUP, version, fields)

    # Offsets.

    def commit(
        self, group: str, offsets: dict[str, dict[int, int]], *, version: int = 10, member: str = "", **more: Any
    ) -> Any:
        """Commit offsets by topic and partition."""
        metadata = more.pop("metadata", "m")

        def fields(side: Side) -> dict[str, Any]:
            kind = OffsetCommitRequest.Topic
            topics = [
                kind(
                    name=topic,
                    topic_id=side.topic_ids[topic],
                    partitions=[
                        kind.Partition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
                        for index, offset in requested.items()
                    ],
                )
                for topic, requested in offsets.items()
            ]
            return {"group_id": group, "member_id": side.member(member), "topics": topics} | more

        return self.same(ApiKey.OFFSET_COMMIT, version, fields)

    def fetch(self, *groups: str, topics: dict[str, list[int]] | None = None, version: int = 10, **more: Any) -> Any:
        """Fetch offsets of some partitions, or all."""

        def fields(side: Side) -> dict[str, Any]:
            if version < 8:
                plain = OffsetFetchRequest.Topic
                requested = None if topics is None else [plain(name=t, partition_indexes=i) for t, i in topics.items()]
                return {"group_id": groups[0], "topics": requested} | more
            kind = OffsetFetchRequest.Group
            return {
                "groups": [
                    kind(
                        group_id=group,
                        topics=None
                        if topics is None
                        else [
                            kind.Topic(name=topic, topic_id=side.topic_ids[topic], partition_indexes=indexes)
                            for topic, indexes in topics.items()
                        ],
                    )
                    for group in groups
                ]
            } | more

        return self.same(ApiKey.OFFSET_FETCH, version, fields)

    def delete_offsets(self, group: str, topics: dict[str, list[int]]) -> Any:
        kind = OffsetDeleteRequest.Topic
        requested = [
            kind(name=topic, partitions=[kind.Partition(partition_index=index) for index in indexes])
            for topic, indexes in topics.items()
        ]
        return self.same(ApiKey.OFFSET_DELETE, 0, lambda _: {"group_id": group, "topics": requested})

    # Admin requests.

    def describe(self, *groups: str, version: int = 6, operations: bool = False) -> Any:
        return self.same(
            ApiKey.DESCRIBE_GROUPS,
            version,
            lambda _: {"groups": list(groups)} | ({"include_authorized_operations": operations} if version > 2 else {}),
        )

    def list(self, prefix: str, version: int = 5, **filters: Any) -> list[Any]:
        """List the groups whose names begin with `prefix`."""
        ours, kafkas = (
            side.plain(
                [
                    group
                    for group in side.client(ANYBODY).call(ApiKey.LIST_GROUPS, version, **filters).groups
                    if group.group_id.startswith(prefix)
                ]
            )
            for side in self.sides
        )
        assert ours == kafkas, f"{ours} is not {kafkas}"
        result: list[Any] = ours
        return result

    def delete(self, *groups: str, version: int = 2) -> Any:
        return self.same(ApiKey.DELETE_GROUPS, version, lambda _: {"groups_names": list(groups)})
