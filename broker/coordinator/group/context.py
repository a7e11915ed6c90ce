"""The context of the group protocol's rules: requests, responses, and effects to perform.

A `CoordinatorContext` is the handling of one event. It has the time, settings, timers and randomness of the rules, and
collects their effects, which are performed in order. The rules use nothing else from outside.

An `Append` is the only effect with a continuation: its `then` is called with a new turn, with error NONE once its
records are below the high watermark, or with the error if they could not be written. A response that depends on the
records is sent there, never before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.coordinator.group.timers import Timer, Timers
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from random import Random

Record = tuple[bytes, bytes | None]
"""Key and value of a record of `__consumer_offsets`; None as value is a tombstone."""


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


class CoordinatorResponse(NamedTuple):
    """The effect of sending `result` to the waiting request `to`."""

    to: object
    result: Joined | Synced | Left


class Append(NamedTuple):
    """The effect of writing `records`, then calling `then`."""

    records: list[Record]
    then: Callable[[CoordinatorContext, ErrorCode], None]


def because(event: str, reason: str) -> str:
    """Return `event` with the client's reason appended, if there is one."""
    return f"{event} ({reason})" if reason else event


class CoordinatorLog(Protocol):
    """The logger that the rules use."""

    def info(self, message: str, *args: object) -> None:
        """Log a group's new state; `args` are filled in as by %."""

    def debug(self, message: str, *args: object) -> None:
        """Log a step between states."""


class CoordinatorContext:
    """The handling of one event. `now` is the event loop's time in seconds, `now_ms` the wall clock."""

    __slots__ = ("effects", "log", "now", "now_ms", "random", "settings", "timers")

    def __init__(
        self, now: float, now_ms: int, settings: GroupSettings, timers: Timers, random: Random, log: CoordinatorLog
    ) -> None:
        self.now = now
        self.now_ms = now_ms
        self.settings = settings
        self.timers = timers
        self.random = random
        self.log = log
        self.effects: list[CoordinatorResponse | Append] = []

    def answer(self, to: object, result: Joined | Synced | Left) -> None:
        """Add the effect of sending `result` to the waiting request `to`."""
        self.effects.append(CoordinatorResponse(to, result))

    def append(self, records: list[Record], then: Callable[[CoordinatorContext, ErrorCode], None]) -> None:
        """Add the effect of writing `records` and calling `then` with the result."""
        self.effects.append(Append(records, then))

    def schedule(self, timer: Timer, delay_ms: int) -> None:
        """Set `timer` to fire in `delay_ms`."""
        self.timers.schedule(timer, self.now + delay_ms / 1000)

    def new_member_id(self, prefix: str) -> str:
        """Return a new member id: `prefix` and a random (version 4) UUID."""
        bits = self.random.getrandbits(128)
        bits = (bits & ~(0xF000 << 64) & ~(0xC000 << 48)) | (0x4000 << 64) | (0x8000 << 48)
        text = f"{bits:032x}"
        return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
