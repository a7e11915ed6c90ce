"""A consumer group of a test: wait for its members and its progress, disturb it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.testing._control import path_of
from barnabas.testing._nodes import Nodes
from barnabas.testing.topic import WAIT_S, Topic


class GroupMember(NamedTuple):
    """A member of a group."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    assignment: dict[str, list[int]]
    """The assigned partitions by topic."""


class Group:
    """A consumer group of a cluster."""

    def __init__(self, nodes: Nodes, name: str) -> None:
        """Name a group, which may not exist yet."""
        self.name = name
        self._nodes = nodes

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Group {self.name}>"

    def describe(self) -> dict[str, Any]:
        """Return the group's state, generation, members, and the committed offset, end and lag of its partitions."""
        return self._nodes.call("GET", path_of("groups", self.name))

    @property
    def members(self) -> list[GroupMember]:
        """The members, with what is assigned to them."""
        return [_member(one) for one in self.describe()["members"]]

    @property
    def committed(self) -> dict[str, dict[int, int]]:
        """The committed offsets, by topic and partition."""
        found: dict[str, dict[int, int]] = {}
        for one in self.describe()["offsets"]:
            if one["committed"] is not None:
                found.setdefault(one["topic"], {})[one["partition"]] = one["committed"]
        return found

    def wait_stable(self, members: int | None = None, timeout: float = WAIT_S) -> list[GroupMember]:
        """Wait until every member has its assignment, and return them; with `members`, until there are so many.

        With 0 members: until the group is empty. WaitTimeout with the group's state and members instead.
        """
        __tracebackhide__ = True
        body = {"group": self.name} | ({} if members is None else {"members": members})
        self._nodes.wait(path_of("wait", "group-stable"), body, timeout)
        return [] if members == 0 else self.members

    def wait_empty(self, timeout: float = WAIT_S) -> None:
        """Wait until the group has no member."""
        __tracebackhide__ = True
        self.wait_stable(0, timeout)

    def expect_lag(self, lag: int = 0, topics: Sequence[Topic | str] | None = None, timeout: float = WAIT_S) -> None:
        """Wait until the group has committed all but `lag` records of its topics, or of `topics`.

        WaitTimeout with the committed offsets and the ends of the logs instead.
        """
        __tracebackhide__ = True
        body = {"group": self.name, "lag": lag}
        names = {} if topics is None else {"topics": [str(topic) for topic in topics]}
        self._nodes.wait(path_of("wait", "group-lag"), body | names, timeout)

    def rebalance(self) -> None:
        """Have the members join again, as if a subscription had changed."""
        self._nodes.call("POST", path_of("groups", self.name, "rebalance"))

    def expire(self, member_id: str | None = None, client_id: str | None = None) -> list[str]:
        """Expire the session of a member, of those of a client, or of all; return the ids of the members."""
        chosen = {"member": member_id, "client_id": client_id}
        body = {name: value for name, value in chosen.items() if value is not None}
        expired: list[str] = self._nodes.call("POST", path_of("groups", self.name, "expire"), body)["expired"]
        return expired


def _member(described: Mapping[str, Any]) -> GroupMember:
    assignment = {one["topic"]: one["partitions"] for one in described["assignment"] or ()}
    plain = {name: described[name] for name in GroupMember._fields if name != "assignment"}
    return GroupMember(assignment=assignment, **plain)
