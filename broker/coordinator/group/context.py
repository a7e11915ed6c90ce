"""The requests, responses and settings of the group protocol's rules, and their context."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.coordinator.runtime.context import CoordinatorContext
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from random import Random

    from broker.coordinator.runtime.context import CoordinatorLog
    from broker.coordinator.runtime.timers import Timers


class GroupSettings(NamedTuple):
    """The group settings of the broker, with Kafka's defaults."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000


class Join(NamedTuple):
    """A JoinGroup request. `member_id` is empty for a new member."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: dict[str, bytes]
    reason: str
    needs_member_id: bool
    """Whether a new dynamic member first gets its id in an error response (KIP-394)."""
    can_skip_assignment: bool
    """Whether the response can make a replaced static leader skip the assignment (KIP-814)."""


class JoinedMember(NamedTuple):
    """One member in the leader's JoinGroup response."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """The response to a join."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class Sync(NamedTuple):
    """A SyncGroup request; the leader's has the assignments of all members."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


class Synced(NamedTuple):
    """The response to a sync."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Leaving(NamedTuple):
    """One member in a LeaveGroup request; only the instance id is set if an administrator removes it."""

    member_id: str
    instance_id: str | None
    reason: str


class Left(NamedTuple):
    """The response to a leave: an error for the whole request, or one for each member."""

    error: ErrorCode
    members: tuple[ErrorCode, ...] = ()


def with_reason(event: str, reason: str) -> str:
    """Return `event` with the client's reason appended, if there is one."""
    return f"{event} ({reason})" if reason else event


class GroupContext(CoordinatorContext):
    """The handling of one event of the groups."""

    __slots__ = ("settings",)

    def __init__(
        self, now: float, now_ms: int, settings: GroupSettings, timers: Timers, random: Random, log: CoordinatorLog
    ) -> None:
        super().__init__(now, now_ms, timers, random, log)
        self.settings = settings

    def new_member_id(self, prefix: str) -> str:
        """Return a new member id: `prefix` and a random (version 4) UUID."""
        bits = self.random.getrandbits(128)
        bits = (bits & ~(0xF000 << 64) & ~(0xC000 << 48)) | (0x4000 << 64) | (0x8000 << 48)
        text = f"{bits:032x}"
        return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
