"""What the phases of the group protocol are given, and what they want done.

A `Turn` is the handling of one event: the time, the settings, the timers and the randomness that the rules
may use, and the effects that they ask for, to be performed in order. Nothing else of the outside reaches
the rules.

An `Append` is the one effect with a sequel. Its `then` is called with a new turn once its records are below
the high watermark (error NONE), or with the error of why they could not be written. Whatever is answered
because of the records is answered there, never before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.coordinator.group.timers import Timer, Timers
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from random import Random

Record = tuple[bytes, bytes | None]
"""Key and value of a record of `__consumer_offsets`; no value is a tombstone."""


class GroupSettings(NamedTuple):
    """What the broker's configuration says about groups, with Kafka's defaults."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000


class Join(NamedTuple):
    """A member's wish to be in the next generation. `member_id` is empty for a new one."""

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
    """A new dynamic member is first told its id (KIP-394)."""
    can_skip_assignment: bool
    """A leader that replaces itself can be told not to assign anew (KIP-814)."""


class JoinedMember(NamedTuple):
    """What the leader is told about one member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """The answer to a join."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class Sync(NamedTuple):
    """A member's readiness for its assignment; the leader's brings everyone's."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


class Synced(NamedTuple):
    """The answer to a sync."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Leaving(NamedTuple):
    """One member that leaves; named by its instance alone where an administrator removes it."""

    member_id: str
    instance_id: str | None
    reason: str


class Left(NamedTuple):
    """The answer to a leave: an error for the whole request, and else one for each member."""

    error: ErrorCode
    members: tuple[ErrorCode, ...] = ()


class Answer(NamedTuple):
    """Give `result` to the one who waits at `to`."""

    to: object
    result: Joined | Synced | Left


class Append(NamedTuple):
    """Write `records`, then go on with `then`."""

    records: list[Record]
    then: Callable[[Turn, ErrorCode], None]


def because(event: str, reason: str) -> str:
    """Return what happened with the reason that the client gave, if it gave one."""
    return f"{event} ({reason})" if reason else event


class Log(Protocol):
    """Where the rules report what people debug groups with."""

    def info(self, message: str, *args: object) -> None:
        """Note what a group has become: `message`, with `args` filled in as by %."""

    def debug(self, message: str, *args: object) -> None:
        """Note a step on the way there."""


class Turn:
    """The handling of one event. `now` is the event loop's time in seconds, `now_ms` the wall clock."""

    __slots__ = ("effects", "log", "now", "now_ms", "random", "settings", "timers")

    def __init__(
        self, now: float, now_ms: int, settings: GroupSettings, timers: Timers, random: Random, log: Log
    ) -> None:
        self.now = now
        self.now_ms = now_ms
        self.settings = settings
        self.timers = timers
        self.random = random
        self.log = log
        self.effects: list[Answer | Append] = []

    def answer(self, to: object, result: Joined | Synced | Left) -> None:
        """Have `result` given to the one who waits at `to`."""
        self.effects.append(Answer(to, result))

    def append(self, records: list[Record], then: Callable[[Turn, ErrorCode], None]) -> None:
        """Have `records` written, and `then` called with the outcome."""
        self.effects.append(Append(records, then))

    def schedule(self, timer: Timer, delay_ms: int) -> None:
        """Make `timer` due in `delay_ms`."""
        self.timers.schedule(timer, self.now + delay_ms / 1000)

    def new_member_id(self, prefix: str) -> str:
        """Make up a member id: `prefix` and a random (version 4) UUID."""
        bits = self.random.getrandbits(128)
        bits = (bits & ~(0xF000 << 64) & ~(0xC000 << 48)) | (0x4000 << 64) | (0x8000 << 48)
        text = f"{bits:032x}"
        return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
