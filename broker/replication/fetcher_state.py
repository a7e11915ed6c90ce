"""What a follower asks one leader for, and what it makes of the answers.

Theory of operation. All partitions that are followed from one leader share its fetches, in an incremental session
(KIP-227): a fetch names only the partitions of which there is something new to say, and is answered with those that
have something new. A partition at which nothing happens costs nothing. One request is under way at a time, or two where
one waits at the leader for records while there are partitions to be named: the second one ends its wait
(`broker.fetch_sessions`). Each partition is in one of these states:

    to be named   it is new, or its log's end or start moved: the next fetch says from where on
    asked         the leader knows from which offset on, in which leader epoch, and the last record's epoch
    pausing       it failed: not in the session until its pause is over
    lost          the leader has nothing at its offset (OFFSET_OUT_OF_RANGE): the ends of the leader's log are asked for
    stopped       its epoch is fenced, or its own disk has failed: until `follow` gives a newer epoch

What comes back for `asked`, unless that was in an earlier leader epoch, in which case it is dropped (an answer to an
earlier request of this epoch brings the high watermark alone):

    records              appended, unless another answer has brought them already               -> to be named
    a diverging epoch    the log is cut where it parts from the leader's (KIP-595), or begins
                         anew where the leader's starts if it parts before that; unless
                         many were with the same answer                                          -> to be named
                         nothing is left to cut                                                  -> pausing
    OFFSET_OUT_OF_RANGE                                                                          -> lost
    FENCED_LEADER_EPOCH  metadata of a newer epoch is to come                                    -> stopped
    any other error      the leader may not know yet that it leads, or know the topic, or fails  -> pausing
    a later log start    saved before it is told; if the own disk is full                        -> pausing

    lost                 the leader ends before: cut there, as after an unclean election         -> to be named
                         the leader starts behind: dropped, to go on at the leader's start       -> to be named

Pauses double from `FIRST_PAUSE_MS` to `replica.fetch.backoff.ms`: right after an election it is a matter of
milliseconds until the leader knows of it too.

A leader answers before `max_wait_ms` only if it has something new. Whatever makes it answer early with nothing new
must not become a busy loop between two brokers: after `FRUITLESS_FETCHES` such answers in a row the fetcher pauses as
it does after a lost connection, and logs that once.

Pure but for the logs: `fetcher` sends, `replica_copy` says what becomes of a log, `replication`
who leads what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, cast

from broker.replication.replica_state import NO_OFFSET
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from broker.replication.follower_replica import ReplicaCopy
    from broker.replication.partition import Partition
    from protocol.primitives import Buffer
    from protocol.schema import Message

FIRST_PAUSE_MS = 20
FRUITLESS_FETCHES = 3
"""From which fetch in a row on that brings nothing new too early, the fetcher backs off. A few come of races."""
NO_PROGRESS = "fetches are answered at once with nothing new; backing off"
CUTS_AN_ANSWER = 16
"""How many logs are cut in the turn of the loop that an answer takes; each is synced."""
FETCH_FROM_VERSION = 17

_LATEST, _EARLIEST = -1, -2
_NO_SESSION, _NEW_SESSION = 0, 0
_LARGEST = 2**31 - 1
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    }
)

Key = tuple[bytes, int]
_Asked = FetchRequest.Topic
_Fetched = FetchResponse.Topic.Partition


class FetchLimits(NamedTuple):
    """The broker's `replica.fetch.*`: sizes in bytes, times in ms."""

    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    min_bytes: int = 1
    max_wait_ms: int = 500
    backoff_ms: int = 1000


class _Followed:
    """One partition of the leader."""

    __slots__ = ("asked", "asked_in", "complaint", "copy", "failures", "first_asked_in", "lag", "lost")

    def __init__(self, copy: ReplicaCopy) -> None:
        self.copy = copy
        self.asked = NO_OFFSET
        """From where on the leader was asked, in the session that there is."""
        self.asked_in = 0
        """The number of the request that said so; an answer to an earlier one is not to it."""
        self.first_asked_in = 0
        """The number of the first request that named it in this leader epoch."""
        self.failures = 0
        self.lag = 0
        """Records between the end of this log and the high watermark in the leader's latest response."""
        self.complaint = ""
        """What was said of the last failure here; each try may fail with the same."""
        self.lost = _LATEST
        """Which end of the leader's log is to be asked for next, as a timestamp of ListOffsets."""


class Fetching:
    """The followed partitions of one leader."""

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        limits: FetchLimits,
        save_log_starts: Callable[[], None],
        remark: Callable[[str], None],
    ) -> None:
        """`save_log_starts` is called when logs have come to start later, `remark` with what somebody ought to read."""
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._limits = limits
        self._save_log_starts = save_log_starts
        self._remark = remark
        self._followed: dict[Key, _Followed] = {}
        self._to_name: dict[Key, _Followed] = {}
        self._to_forget: dict[Key, None] = {}
        self._lost: dict[Key, _Followed] = {}
        self._pausing: list[tuple[int, int, Key, _Followed]] = []
        self._pauses = 0
        self._session_id = _NO_SESSION
        self._session_epoch = _NEW_SESSION
        self._under_way: deque[tuple[FetchRequest | ListOffsetsRequest, int]] = deque()
        """Requests without an answer, and when each was sent, in ms."""
        self._answers = 0
        self._cuts_left = 0
        self._failures = 0
        self._not_before_ms = 0
        self._progressed = False
        """Whether the answer that is being taken changed a log or what the next request asks for."""
        self._fruitless = 0
        """How many fetches in a row were answered early with nothing new."""

    def __len__(self) -> int:
        return len(self._followed)

    def lags(self) -> Iterator[tuple[Partition, int]]:
        """Yield each followed partition with its lag in records."""
        return ((followed.copy.partition, followed.lag) for followed in self._followed.values())

    # Who is followed.

    def follow(self, copy: ReplicaCopy) -> None:
        """Fetch a partition in the leader epoch of `copy`; in place of what it was followed in, if it was."""
        key = (copy.partition.topic_id, copy.partition.index)
        known = self._followed.get(key)
        if known is not None and known.copy.leader_epoch == copy.leader_epoch:
            return
        self._drop(key)
        self._followed[key] = followed = _Followed(copy)
        self._name(key, followed)

    def unfollow(self, topic_id: bytes, index: int) -> None:
        """Fetch a partition no more; what is under way for it is dropped when it comes."""
        self._drop((topic_id, index))

    def tell(self, topic_id: bytes, index: int) -> None:
        """Tell the leader of a change of this replica's log that did not come from it: it starts later."""
        followed = self._followed.get((topic_id, index))
        if followed is not None and followed.asked != NO_OFFSET:
            self._name((topic_id, index), followed)

    def _drop(self, key: Key) -> None:
        if self._followed.pop(key, None) is not None:
            self._to_name.pop(key, None)
            self._lost.pop(key, None)
            self._to_forget[key] = None

    def _name(self, key: Key, followed: _Followed) -> None:
        self._to_name[key] = followed
        self._to_forget.pop(key, None)

    def _set_aside(self, key: Key, followed: _Followed) -> None:
        """Take a partition out of the session."""
        self._progressed = True
        followed.asked = NO_OFFSET
        self._to_name.pop(key, None)
        self._to_forget[key] = None

    def _pause(self, key: Key, followed: _Followed, now_ms: int) -> None:
        self._set_aside(key, followed)
        self._pauses += 1
        due_ms = now_ms + self._pause_ms(followed.failures)
        followed.failures += 1
        heappush(self._pausing, (due_ms, self._pauses, key, followed))

    def _resume(self, now_ms: int) -> None:
        """Name what has paused for long enough."""
        unsaved: list[tuple[Key, _Followed]] = []
        while self._pausing and self._pausing[0][0] <= now_ms:
            _, _, key, followed = heappop(self._pausing)
            if self._followed.get(key) is followed:
                self._name(key, followed)
                if not followed.copy.start_is_saved:
                    unsaved.append((key, followed))
        if unsaved:
            self._save_starts(unsaved, now_ms)

    def _pause_ms(self, failures: int) -> int:
        return min(FIRST_PAUSE_MS << min(failures, 16), self._limits.backoff_ms)

    # Asking.

    @property
    def due_ms(self) -> int | None:
        """Return from when on `next_request` may have something; None while it waits for an answer, or for nothing."""
        if self._to_name or (not self._under_way and (self._lost or self._asks_for_any)):
            due_ms = self._not_before_ms
        elif self._pausing:
            due_ms = max(self._not_before_ms, self._pausing[0][0])
        else:
            return None
        return due_ms if self._may_ask else None

    @property
    def _may_ask(self) -> bool:
        if len(self._under_way) == 1 and not self._lost and self._session_epoch != _NEW_SESSION:
            return isinstance(self._under_way[0][0], FetchRequest)
        return not self._under_way

    @property
    def _asks_for_any(self) -> bool:
        return any(followed.asked != NO_OFFSET for followed in self._followed.values())

    def next_request(self, broker_epoch: int, now_ms: int) -> FetchRequest | ListOffsetsRequest | None:
        """Return what to send now, in this broker's incarnation, to be followed by `answered`; None if nothing is."""
        if not self._may_ask or now_ms < self._not_before_ms:
            return None
        self._resume(now_ms)
        request: FetchRequest | ListOffsetsRequest | None = None
        if self._lost:
            request = self._ask_for_ends()
        elif self._to_name or (not self._under_way and self._asks_for_any):
            request = self._fetch(broker_epoch)
        if request is not None:
            self._under_way.append((request, now_ms))
        return request

    def _fetch(self, broker_epoch: int) -> FetchRequest:
        limits, named, epoch = self._limits, self._to_name, self._session_epoch
        forgotten: list[FetchRequest.ForgottenTopic] = []
        if epoch == _NEW_SESSION:
            named = {key: one for key, one in self._followed.items() if one.asked != NO_OFFSET or key in self._to_name}
        else:
            forgotten = self._forgotten()
            self._session_epoch = 1 if epoch == _LARGEST else epoch + 1
        self._to_name, self._to_forget = {}, {}
        return FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=FetchRequest.ReplicaState(replica_id=self._node_id, replica_epoch=broker_epoch),
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_max_bytes,
            session_id=self._session_id,
            session_epoch=epoch,
            topics=self._topics(named),
            forgotten_topics_data=forgotten,
        )

    def _topics(self, named: dict[Key, _Followed]) -> list[_Asked]:
        topics: dict[bytes, _Asked] = {}
        for (topic_id, index), followed in named.items():
            copy = followed.copy
            followed.asked = copy.end_offset
            followed.asked_in = self._answers + len(self._under_way) + 1
            followed.first_asked_in = followed.first_asked_in or followed.asked_in
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = _Asked(topic_id=topic_id, partitions=[])
            topic.partitions.append(
                _Asked.Partition(
                    partition=index,
                    current_leader_epoch=copy.leader_epoch,
                    fetch_offset=followed.asked,
                    last_fetched_epoch=copy.last_epoch,
                    log_start_offset=copy.start_offset,
                    partition_max_bytes=self._limits.max_bytes,
                )
            )
        return list(topics.values())

    def _forgotten(self) -> list[FetchRequest.ForgottenTopic]:
        topics: dict[bytes, FetchRequest.ForgottenTopic] = {}
        for topic_id, index in self._to_forget:
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[])
            topic.partitions.append(index)
        return list(topics.values())

    def _ask_for_ends(self) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsRequest.Topic] = {}
        for (_, index), followed in self._lost.items():
            name = followed.copy.partition.topic
            topic = topics.setdefault(name, ListOffsetsRequest.Topic(name=name, partitions=[]))
            topic.partitions.append(
                ListOffsetsRequest.Topic.Partition(
                    partition_index=index, current_leader_epoch=followed.copy.leader_epoch, timestamp=followed.lost
                )
            )
        return ListOffsetsRequest(replica_id=self._node_id, topics=list(topics.values()))

    # Answers.

    def answered(self, response: Message | None, now_ms: int) -> None:
        """Take the answer to the oldest request under way; None if there is none, and the connection was lost."""
        _, sent_ms = self._under_way.popleft()
        self._answers += 1
        self._progressed = now_ms - sent_ms >= self._limits.max_wait_ms // 2
        if isinstance(response, ListOffsetsResponse):
            self._failures = 0
            self._take_ends(response, now_ms)
        elif isinstance(response, FetchResponse) and response.error_code == ErrorCode.NONE:
            self._failures = 0
            self._go_on(response.session_id)
            self._take(response, now_ms)
            self._pace(now_ms)
        elif not self._under_way:  # else it is ended by the one that follows, or that fails likewise
            self._begin_anew(response, now_ms)
        elif isinstance(response, FetchResponse) and response.error_code not in _SESSION_ERRORS:
            for key, followed in self._followed.items():  # the leader may take it for told
                if followed.asked != NO_OFFSET:
                    self._name(key, followed)

    def _go_on(self, session_id: int) -> None:
        """Go on in the session that the leader says it has, if it has one."""
        if session_id == _NO_SESSION:
            self._session_epoch = _NEW_SESSION
        elif self._session_epoch == _NEW_SESSION:
            self._session_epoch = 1
        self._session_id = session_id

    def _pace(self, now_ms: int) -> None:
        """Back off if the leader answers early again and again, and nothing comes of it."""
        if self._progressed:
            self._fruitless = 0
            return
        self._fruitless += 1
        if self._fruitless == FRUITLESS_FETCHES:
            self._remark(NO_PROGRESS)
        if self._fruitless >= FRUITLESS_FETCHES:
            self._not_before_ms = now_ms + self._pause_ms(self._fruitless - FRUITLESS_FETCHES)

    def _begin_anew(self, response: Message | None, now_ms: int) -> None:
        """Begin another session: at once if nothing but the session was wrong, else after a pause."""
        code = response.error_code if isinstance(response, FetchResponse) else ErrorCode.NONE
        self._session_epoch = _NEW_SESSION
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = _NO_SESSION
        if code in _SESSION_ERRORS:
            self._pace(now_ms)
        else:
            if code != ErrorCode.NONE:
                self._remark(f"a fetch failed with {ErrorCode(code).name}")
            self._not_before_ms = now_ms + self._pause_ms(self._failures)
            self._failures += 1

    def _take(self, response: FetchResponse, now_ms: int) -> None:
        moved: list[tuple[Key, _Followed]] = []
        self._cuts_left = CUTS_AN_ANSWER
        for topic in response.responses:
            for fetched in topic.partitions:
                key = (topic.topic_id, fetched.partition_index)
                followed = self._followed.get(key)
                if followed is None or followed.asked == NO_OFFSET or followed.asked_in > self._answers:
                    # No longer followed, or asked for anew since. If the next request takes it out of the session, an
                    # early answer about it is no sign of a busy loop.
                    self._progressed |= key in self._to_forget
                    if followed is not None and 0 < followed.first_asked_in <= self._answers:
                        followed.copy.learn_high_watermark(fetched)
                    continue
                try:
                    if self._take_one(key, followed, fetched, now_ms):
                        moved.append((key, followed))
                except (KafkaError, DecodeError) as error:
                    self._failed_here(key, followed, error, now_ms)
        if moved:
            self._save_starts(moved, now_ms)

    def _save_starts(self, moved: list[tuple[Key, _Followed]], now_ms: int) -> None:
        """Save where logs start; the leader is to be told of no start that a crash would take back."""
        try:
            self._save_log_starts()
        except KafkaError as error:
            self._complain(moved[0][1], str(error))
            for key, followed in moved:
                if not followed.copy.start_is_saved:
                    self._stop_or_pause(key, followed, now_ms)

    def _take_one(self, key: Key, followed: _Followed, fetched: _Fetched, now_ms: int) -> bool:
        """Take over what the leader says of one partition; say whether its log starts later."""
        code, copy, diverging = fetched.error_code, followed.copy, fetched.diverging_epoch
        if code != ErrorCode.NONE:
            self._refused(key, followed, code, now_ms)
            return False
        if diverging.end_offset != NO_OFFSET:
            before, start, last_epoch = copy.end_offset, copy.start_offset, copy.last_epoch
            if followed.asked != before:
                return False
            if not self._cuts_left:  # it is said again when it is named again
                self._name(key, followed)
                return False
            self._cuts_left -= 1
            end_offset = copy.part(diverging.epoch, diverging.end_offset, fetched.log_start_offset)
            if copy.start_offset > start:
                self._remark(f"{copy} parts from its leader's log, and begins anew at {end_offset}, where that starts")
            elif end_offset < before:
                self._remark(f"{copy} is cut from {before} to {end_offset}, where it parts from its leader's log")
            if end_offset == before and copy.last_epoch == last_epoch:
                self._pause(key, followed, now_ms)  # the leader would say the same again
            else:
                self._progressed = True
                self._name(key, followed)
            return False
        start = copy.start_offset
        if followed.asked != copy.end_offset:  # these records are here already
            return copy.learn(fetched.high_watermark, fetched.log_start_offset)
        whole = copy.append(cast("Buffer", fetched.records or b""), fetched.log_start_offset)
        moved = copy.learn(fetched.high_watermark, fetched.log_start_offset)
        followed.lag = max(fetched.high_watermark - copy.end_offset, 0)
        if whole or copy.start_offset != start:
            followed.failures, followed.complaint = 0, ""
            self._progressed = True
            self._name(key, followed)
        elif fetched.records:
            self._pause(key, followed, now_ms)  # of a newer epoch than is known here, or not even one batch
        return moved

    def _refused(self, key: Key, followed: _Followed, code: int, now_ms: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._set_aside(key, followed)
            followed.lost = _LATEST
            self._lost[key] = followed
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            self._set_aside(key, followed)
        else:
            self._pause(key, followed, now_ms)

    def _failed_here(self, key: Key, followed: _Followed, error: KafkaError | DecodeError, now_ms: int) -> None:
        """Stop where the own disk has failed; try again where the leader's bytes were no good."""
        self._complain(followed, f"{followed.copy}: {error}")
        self._stop_or_pause(key, followed, now_ms)

    def _complain(self, followed: _Followed, complaint: str) -> None:
        if complaint != followed.complaint:
            followed.complaint = complaint
            self._remark(complaint)

    def _stop_or_pause(self, key: Key, followed: _Followed, now_ms: int) -> None:
        if followed.copy.partition.log.offline:
            self._set_aside(key, followed)
        else:
            self._pause(key, followed, now_ms)

    def _take_ends(self, response: ListOffsetsResponse, now_ms: int) -> None:
        asked, self._lost = self._lost, {}
        found = {(topic.name, one.partition_index): one for topic in response.topics for one in topic.partitions}
        for key, followed in asked.items():
            end = found.get((followed.copy.partition.topic, key[1]))
            if end is None or end.error_code != ErrorCode.NONE:
                self._pause(key, followed, now_ms)
            else:
                try:
                    self._take_end(key, followed, end.offset, now_ms)
                except KafkaError as error:
                    self._failed_here(key, followed, error, now_ms)

    def _take_end(self, key: Key, followed: _Followed, offset: int, now_ms: int) -> None:
        copy, which = followed.copy, followed.lost
        if which == _LATEST and offset >= copy.end_offset:
            followed.lost = _EARLIEST
            self._lost[key] = followed
        elif which == _LATEST:
            self._remark(f"{copy} is cut from {copy.end_offset} to {offset}, where its leader's log ends")
            copy.cut(offset)
            self._name(key, followed)
        elif offset > copy.end_offset:
            self._remark(f"{copy} ends at {copy.end_offset} and begins anew at {offset}, where its leader's log does")
            copy.restart(offset)
            self._name(key, followed)
        else:
            self._pause(key, followed, now_ms)  # it is in range by now
