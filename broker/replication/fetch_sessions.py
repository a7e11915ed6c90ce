"""Fetch sessions (KIP-227): a request names only changed partitions, a response only those with something new.

Theory of operation. A session holds the partitions of its fetches, and what was last sent for each. Its epoch counts
its requests, strictly:

    session id, epoch     meaning
    any, 0                full: closes that session and creates a new one, or none (id 0) if there is no room
    any, -1               full: closes that session and creates none
    id, n > 0             incremental: names the partitions to add, change and forget. If n is not the session's
                          epoch: INVALID_FETCH_SESSION_EPOCH; no such session: FETCH_SESSION_ID_NOT_FOUND

After 2^31 - 1 the epoch continues at 1. A session uses topic names or topic ids throughout
(FETCH_SESSION_TOPIC_ID_ERROR).

Kafka reads every partition of a session for every fetch. Here a session *watches* the partitions without anything new,
and a fetch reads only the `pending` ones: named in the request, woken since, or with records left. So a fetch of 5,000
partitions, 10 of them busy, costs as much as a fetch of 10. `pending` is in the order of serving; a partition that
returned records moves to the end, so none starves. A partition with a change to report (such as a high watermark) but
no records, while the fetch has too little to respond, is *deferred* until a response is sent: a follower that begins to
follow thousands of replicas names some in each request, and each ends the wait of the one before.

A sessionless fetch is a `FetchSession` with id 0, closed once its response is sent.

If all slots are taken, a new session evicts one unused for 2 minutes, or else the smallest one that is older than 2
minutes and smaller than the new one. Followers' sessions rank above consumers': a new one may also evict a consumer's
session of any age.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from broker.replication.delayed_fetch import DelayedFetch, Fetch
from broker.replication.replica_state import NO_EPOCH, NO_OFFSET
from broker.runtime.purgatory import Purgatory
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random

    from broker.replication.partition import Partition
    from broker.runtime.deferred import Deferred
    from protocol.messages.fetch import FetchRequest

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
TOPIC_IDS_FROM_VERSION = 13
EVICTABLE_AFTER_MS = 120_000

_LARGEST = 2**31 - 1
_NEVER_SENT = -1

T = TypeVar("T")


class FetchPartition:
    """A partition of a session (Kafka: `CachedPartition`): the fetch parameters, and what was last sent."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "replica",
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
        self.replica: Partition | None = None
        self.watched = False
        self.current_leader_epoch = NO_EPOCH
        self.sent_high_watermark = _NEVER_SENT
        self.sent_log_start_offset = _NEVER_SENT

    def update(self, wanted: FetchRequest.Topic.Partition) -> None:
        """Apply a request's parameters, which include what the fetcher knows already.

        A new leader epoch resets what was sent: a follower drops results from an earlier epoch than its own.
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


class FetchSession:
    """The partitions of one fetcher (Kafka: `FetchSession`)."""

    __slots__ = (
        "_deferred",
        "_purgatory",
        "_watching",
        "authorized_by",
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
        self._deferred: dict[FetchPartition, None] = {}
        self.session_id = NO_SESSION
        self.epoch = FINAL_EPOCH
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        self.created_ms = self.last_used_ms = now_ms
        self.full = True
        """Whether the next response names every partition: it is the first one."""
        self.partitions: dict[tuple[str | bytes, int], FetchPartition] = {}
        self.pending: dict[FetchPartition, None] = {}
        self.waiting: DelayedFetch[Any] | None = None
        self.authorized_by: object = None
        """The decisions by which the last fetch was authorized, if there is an authorizer."""

    @property
    def to_read(self) -> list[FetchPartition]:
        """Return the partitions to read for the next response, in the order of serving."""
        return list(self.partitions.values() if self.full else self.pending)

    def update(self, request: FetchRequest) -> None:
        """Add, change and forget partitions as `request` requires."""
        partitions, pending = self.partitions, self.pending
        by_id = self.uses_topic_ids
        for topic in request.topics:
            name = topic.topic_id if by_id else topic.topic
            for wanted in topic.partitions:
                key = (name, wanted.partition)
                cached = partitions.get(key)
                if cached is None:
                    cached = FetchPartition(None if by_id else topic.topic, topic.topic_id, wanted.partition)
                    partitions[key] = cached
                cached.update(wanted)
                self._deferred.pop(cached, None)
                pending[cached] = None
        for gone in request.forgotten_topics_data:
            name = gone.topic_id if by_id else gone.topic
            for index in gone.partitions:
                forgotten = partitions.pop((name, index), None)
                if forgotten is not None:
                    self._deferred.pop(forgotten, None)
                    pending.pop(forgotten, None)
                    self._unwatch(forgotten)

    def read_again(self, cached: FetchPartition) -> None:
        """Read a partition for the next response, whether it has changed or not."""
        self._deferred.pop(cached, None)
        self.pending[cached] = None

    def mark_caught_up(self, cached: FetchPartition) -> None:
        """Mark `cached` as caught up: watch it instead of reading it."""
        self.pending.pop(cached, None)
        if self.session_id != NO_SESSION:
            self._watch(cached)

    def defer(self, cached: FetchPartition) -> None:
        """Defer `cached`, which has no records: read it again only when woken, or when a response is sent."""
        del self.pending[cached]
        self._deferred[cached] = None
        self._watch(cached)

    def take_deferred(self) -> list[FetchPartition]:
        """Make the deferred partitions pending again and return them, for the response about to be sent."""
        taken, self._deferred = list(self._deferred), {}
        self.pending.update(dict.fromkeys(taken))
        return taken

    def rotate(self, cached: FetchPartition) -> None:
        """Rotate `cached`, which has been served, behind the other partitions.

        A follower's partition is no longer pending: it names it again once it has the records. Another of its requests
        that is on its way must not get the same records.
        """
        self.pending.pop(cached, None)
        if not self.privileged:
            self.pending[cached] = None

    def assign(self, cached: FetchPartition, replica: Partition) -> None:
        """Set the replica that serves `cached`."""
        if cached.replica is not replica:
            self._unwatch(cached)
            cached.replica = replica
            if self.waiting is not None:
                self._watch(cached)

    def park(self, fetch: Fetch[T], missing_bytes: int, response: Deferred[T], deadline: float) -> None:
        """Let `fetch` wait for changes of the partitions until `deadline` (loop time), then set `response`."""
        self.waiting = DelayedFetch(fetch, missing_bytes, response, self._unpark)
        for cached in self.pending:
            self._watch(cached)
        self._purgatory.expire_at(self.waiting, deadline)

    def _unpark(self) -> None:
        """Release the parked fetch; without a session id, watch nothing any more."""
        self.waiting = None
        if self.session_id == NO_SESSION:
            self._forget_watches()

    def woken(self, key: Hashable, size_bytes: int) -> None:
        """Handle a change of the partition or log `key`."""
        cached = self._watching.get(key)
        if cached is None:
            return
        self._deferred.pop(cached, None)
        self.pending[cached] = None
        if self.waiting is not None:
            self.waiting.add_readable(size_bytes)
        else:
            self._unwatch(cached)  # pending now: further changes make no difference

    def act(self) -> None:
        """Let the parked fetch respond if it can."""
        if self.waiting is not None:
            self.waiting.act()

    def close(self) -> None:
        """End the session; a parked fetch responds with what is available."""
        if self.waiting is not None:
            self.waiting.expire()
        self._forget_watches()

    def _watch(self, cached: FetchPartition) -> None:
        if not cached.watched and cached.replica is not None:
            cached.watched = True
            key = self._key(cached.replica)
            self._watching[key] = cached
            self._purgatory.watch(key, self)

    def _unwatch(self, cached: FetchPartition) -> None:
        if cached.watched and cached.replica is not None:
            cached.watched = False
            key = self._key(cached.replica)
            del self._watching[key]
            self._purgatory.unwatch(key, self)

    def _key(self, replica: Partition) -> Hashable:
        """Return the purgatory key: the log for a follower, which reads to the log end; else the partition."""
        return replica.log if self.privileged else replica

    def _forget_watches(self) -> None:
        for cached in tuple(self._watching.values()):
            self._unwatch(cached)


class FetchSessions:
    """All fetch sessions of the broker, at most `slots` (Kafka: `FetchSessionCache`)."""

    def __init__(self, slots: int, purgatory: Purgatory, random: Random) -> None:
        self._slots = slots
        self._purgatory = purgatory
        self._random = random
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Return the number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def find(self, session_id: int) -> FetchSession | None:
        """Return the session of that id, or None."""
        return self._sessions.get(session_id)

    def open(self, request: FetchRequest, version: int, privileged: bool, now_ms: int) -> FetchSession:
        """Return the updated session of `request`, or a new one; KafkaError for a wrong id or epoch."""
        self._purgatory.notify()
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
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "a fetch session has topic ids or names, not both")
        if found.waiting is not None:
            found.waiting.refuse(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
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
        """Evict a session if needed and possible; return whether there is room."""
        if len(self._sessions) < self._slots:
            return True
        evicted = self._session_to_evict(newcomer, now_ms)
        if evicted is None:
            return False
        self._remove(evicted.session_id)
        self.evictions += 1
        return True

    def _session_to_evict(self, newcomer: FetchSession, now_ms: int) -> FetchSession | None:
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None or now_ms - stalest.last_used_ms > EVICTABLE_AFTER_MS:
            return stalest
        smallest = min(_evictable(self._sessions.values(), newcomer), key=_rank, default=None)
        return smallest if smallest is not None and _rank(smallest) < _rank(newcomer) else None


def _evictable(sessions: Iterable[FetchSession], newcomer: FetchSession) -> Iterable[FetchSession]:
    for session in sessions:
        is_old = session.last_used_ms - session.created_ms > EVICTABLE_AFTER_MS
        if is_old or (newcomer.privileged and not session.privileged):
            yield session


def _rank(session: FetchSession) -> tuple[bool, int]:
    return session.privileged, len(session.partitions)
