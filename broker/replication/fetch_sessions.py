"""Fetch sessions (KIP-227): a fetcher names only what changed in its wishes, and is told only what is new.

Theory of operation. A session remembers the partitions of its fetches, and what was last said of each. Its
epoch counts its requests, strictly:

    request's id, epoch   what it is
    any, 0                full: closes that session and begins a new one, or none (id 0) if there is no room
    any, -1               full: closes that session and begins none
    id, n > 0             incremental: names the partitions to add, change and forget. Another n than the
                          session's: INVALID_FETCH_SESSION_EPOCH; no such session: FETCH_SESSION_ID_NOT_FOUND

After 2^31 - 1 the epoch goes on at 1. Whether topics are named or identified is fixed for the life of a
session (FETCH_SESSION_TOPIC_ID_ERROR).

Kafka looks at every partition of a session on every fetch. Here a session *watches* the partitions of which
nothing is left to be said, and a fetch looks only at those that are `pending`: named in the request, woken
since, or with records left. So a fetch of five thousand partitions, ten of them busy, costs what a fetch of
ten costs. Pending ones are in the order in which they are served; one that had records goes to the end, so
that none starves. Those with something to say but nothing to read, while no answer is made, are *put off*
until one is: a follower that is given thousands of replicas names some with each request, which ends the
wait of the one before.

A fetch without a session is a session that nobody can name, closed when it is answered.

When all slots are taken, a new session takes the place of one unused for two minutes, or else of the
smallest one that is older than two minutes and smaller than itself. Followers' sessions go before
consumers'.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Protocol

from broker.replication.replica_state import NO_EPOCH, NO_OFFSET
from broker.runtime.purgatory import Purgatory
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random

    from broker.replication.partition import Partition
    from protocol.messages.fetch import FetchRequest

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
TOPIC_IDS_FROM_VERSION = 13
EVICTABLE_AFTER_MS = 120_000

_LARGEST = 2**31 - 1
_NEVER_SENT = -1


class FetchPartition:
    """What a fetcher asked of a partition, and what it was last told."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "hosted",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
        "watched",
    )

    def __init__(self, topic: str | None, topic_id: bytes, index: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.hosted: Partition | None = None
        self.watched = False
        self.current_leader_epoch = NO_EPOCH
        self.sent_high_watermark = _NEVER_SENT
        self.sent_log_start_offset = _NEVER_SENT

    def ask(self, wanted: FetchRequest.Topic.Partition) -> None:
        """Take over what a request says of this partition, also of what the fetcher knows.

        A follower drops what it is told in an earlier leader epoch than it has learned of meanwhile.
        """
        if wanted.current_leader_epoch != self.current_leader_epoch:
            self.sent_high_watermark = self.sent_log_start_offset = _NEVER_SENT
        if wanted.log_start_offset != NO_OFFSET:
            self.sent_log_start_offset = wanted.log_start_offset
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.current_leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start_offset = wanted.log_start_offset


class Waiting(Protocol):
    """The fetch that is parked on a session."""

    def more(self, size_bytes: int) -> None:
        """Take note that `size_bytes` more can be read."""

    def act(self) -> None:
        """Answer if that is enough."""

    def expire(self) -> None:
        """Answer with what there is."""

    def supersede(self) -> None:
        """Answer that the session has gone on without it."""


class FetchSession:
    """The partitions of one fetcher."""

    __slots__ = (
        "_purgatory",
        "_put_off",
        "_watching",
        "created_ms",
        "epoch",
        "full",
        "last_used_ms",
        "partitions",
        "pending",
        "privileged",
        "session_id",
        "uses_topic_ids",
        "waiting",
    )

    def __init__(self, purgatory: Purgatory, uses_topic_ids: bool, privileged: bool, now_ms: int) -> None:
        self._purgatory = purgatory
        self._watching: dict[Hashable, FetchPartition] = {}
        self._put_off: dict[FetchPartition, None] = {}
        self.session_id = NO_SESSION
        self.epoch = FINAL_EPOCH
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        self.created_ms = self.last_used_ms = now_ms
        self.full = True
        """Whether the next answer names every partition, since nothing was said yet."""
        self.partitions: dict[tuple[str | bytes, int], FetchPartition] = {}
        self.pending: dict[FetchPartition, None] = {}
        self.waiting: Waiting | None = None

    @property
    def to_read(self) -> list[FetchPartition]:
        """Return the partitions that the next answer may have to name, in the order of their turn."""
        return list(self.partitions.values() if self.full else self.pending)

    def update(self, request: FetchRequest) -> None:
        """Add, change and forget partitions as `request` says."""
        partitions, pending = self.partitions, self.pending
        by_id = self.uses_topic_ids
        for topic in request.topics:
            name = topic.topic_id if by_id else topic.topic
            for wanted in topic.partitions:
                key = (name, wanted.partition)
                known = partitions.get(key)
                if known is None:
                    known = FetchPartition(None if by_id else topic.topic, topic.topic_id, wanted.partition)
                    partitions[key] = known
                known.ask(wanted)
                self._put_off.pop(known, None)
                pending[known] = None
        for gone in request.forgotten_topics_data:
            name = gone.topic_id if by_id else gone.topic
            for index in gone.partitions:
                forgotten = partitions.pop((name, index), None)
                if forgotten is not None:
                    self._put_off.pop(forgotten, None)
                    pending.pop(forgotten, None)
                    self._unwatch(forgotten)

    def settle(self, known: FetchPartition) -> None:
        """Look at `known` no more until something happens to it: there is nothing left to be said."""
        self.pending.pop(known, None)
        if self.session_id != NO_SESSION:
            self._watch(known)

    def put_off(self, known: FetchPartition) -> None:
        """Look at `known` no more until something happens to it, or an answer is made: there is nothing to be read."""
        del self.pending[known]
        self._put_off[known] = None
        self._watch(known)

    def take_put_off(self) -> list[FetchPartition]:
        """Return what was put off, for the answer that is being made."""
        taken, self._put_off = list(self._put_off), {}
        self.pending.update(dict.fromkeys(taken))
        return taken

    def postpone(self, known: FetchPartition) -> None:
        """Serve the others before `known` next time: it had its turn.

        A follower names it again when it has what it was sent; until then, another of its requests that is on its way
        must not be answered with the same once more.
        """
        self.pending.pop(known, None)
        if not self.privileged:
            self.pending[known] = None

    def host(self, known: FetchPartition, hosted: Partition) -> None:
        """Note which replica serves `known` from now on."""
        if known.hosted is not hosted:
            self._unwatch(known)
            known.hosted = hosted
            if self.waiting is not None:
                self._watch(known)

    def park(self, waiting: Waiting) -> None:
        """Tell `waiting` of all that happens to the partitions, until `unpark`."""
        self.waiting = waiting
        for known in self.pending:
            self._watch(known)

    def unpark(self, waiting: Waiting) -> None:
        """Let go of `waiting`; a session that nobody can name ends here."""
        if self.waiting is waiting:
            self.waiting = None
            if self.session_id == NO_SESSION:
                self._forget_watches()

    def woken(self, key: Hashable, size_bytes: int) -> None:
        """Take note that something happened to a partition."""
        known = self._watching.get(key)
        if known is None:
            return
        self._put_off.pop(known, None)
        self.pending[known] = None
        if self.waiting is not None:
            self.waiting.more(size_bytes)
        else:
            self._unwatch(known)  # it is pending now: what else happens makes no difference

    def act(self) -> None:
        """Let the parked fetch answer if it can."""
        if self.waiting is not None:
            self.waiting.act()

    def close(self) -> None:
        """End the session; a parked fetch is answered with what there is."""
        if self.waiting is not None:
            self.waiting.expire()
        self._forget_watches()

    def _watch(self, known: FetchPartition) -> None:
        if not known.watched and known.hosted is not None:
            known.watched = True
            key = self._key(known.hosted)
            self._watching[key] = known
            self._purgatory.watch(key, self)

    def _unwatch(self, known: FetchPartition) -> None:
        if known.watched and known.hosted is not None:
            known.watched = False
            key = self._key(known.hosted)
            del self._watching[key]
            self._purgatory.unwatch(key, self)

    def _key(self, hosted: Partition) -> Hashable:
        """Return what is woken with what this fetcher may read: a replica reads the log, others what is committed."""
        return hosted.log if self.privileged else hosted

    def _forget_watches(self) -> None:
        for known in tuple(self._watching.values()):
            self._unwatch(known)


class FetchSessions:
    """All sessions of the broker, at most `slots`."""

    def __init__(self, slots: int, purgatory: Purgatory, random: Random) -> None:
        self._slots = slots
        self._purgatory = purgatory
        self._random = random
        self._sessions: dict[int, FetchSession] = {}  # the one unused for longest first
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Return how many partitions all sessions hold."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, request: FetchRequest, version: int, privileged: bool, now_ms: int) -> FetchSession:
        """Return the session of `request`, brought up to date; KafkaError for a wrong id or epoch."""
        self._purgatory.tell()
        by_id = version >= TOPIC_IDS_FROM_VERSION
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._remove(request.session_id)
            session = FetchSession(self._purgatory, by_id, privileged, now_ms)
            session.update(request)
            if request.session_epoch == INITIAL_EPOCH and self._make_room(session, now_ms):
                self._add(session)
            return session
        found = self._sessions.get(request.session_id)
        if found is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {request.session_id}")
        if found.epoch != request.session_epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {found.session_id} is at epoch {found.epoch}, not {request.session_epoch}",
            )
        if found.uses_topic_ids != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "topic ids and names in one fetch session")
        if found.waiting is not None:
            found.waiting.supersede()
        found.update(request)
        if not found.partitions:
            self._remove(found.session_id)
            found.session_id = NO_SESSION
            return found
        found.epoch = 1 if found.epoch == _LARGEST else found.epoch + 1
        found.last_used_ms = now_ms
        self._sessions[found.session_id] = self._sessions.pop(found.session_id)
        return found

    def _add(self, session: FetchSession) -> None:
        while session.session_id == NO_SESSION or session.session_id in self._sessions:
            session.session_id = self._random.randint(1, _LARGEST)
        session.epoch = INITIAL_EPOCH + 1
        self._sessions[session.session_id] = session

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _make_room(self, newcomer: FetchSession, now_ms: int) -> bool:
        """Evict a session if that is needed and possible; say whether there is room."""
        if len(self._sessions) < self._slots:
            return True
        victim = self._victim(newcomer, now_ms)
        if victim is None:
            return False
        self._remove(victim.session_id)
        self.evictions += 1
        return True

    def _victim(self, newcomer: FetchSession, now_ms: int) -> FetchSession | None:
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None or now_ms - stalest.last_used_ms > EVICTABLE_AFTER_MS:
            return stalest
        smallest = min(_evictable(self._sessions.values(), newcomer), key=_worth, default=None)
        return smallest if smallest is not None and _worth(smallest) < _worth(newcomer) else None


def _evictable(sessions: Iterable[FetchSession], newcomer: FetchSession) -> Iterable[FetchSession]:
    for session in sessions:
        grown_old = session.last_used_ms - session.created_ms > EVICTABLE_AFTER_MS
        if grown_old or (newcomer.privileged and not session.privileged):
            yield session


def _worth(session: FetchSession) -> tuple[bool, int]:
    return session.privileged, len(session.partitions)
