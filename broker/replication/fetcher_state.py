"""Fetch state for one leader (Kafka: `AbstractFetcherThread`): the next request, and the handling of responses.

Theory of operation. All partitions followed from one leader share its fetches, in an incremental session (KIP-227): a
request names only the partitions whose fetch state changed, a response only those with new data. An idle partition
costs nothing. One request is in flight at a time, or two: while one waits at the leader for records, a second one that
names partitions ends its wait (`broker.replication.fetch_sessions`). Each partition is in one of these states:

    to request  new, or its log's end or start moved: the next fetch carries its fetch offset
    requested   the leader has its fetch offset, leader epoch and last fetched epoch
    delayed     it failed, or it is throttled: out of the session until its backoff, or its wait, ends
    outside     OFFSET_OUT_OF_RANGE: ListOffsets requests the ends of the leader's log
    stopped     its epoch is fenced, or its disk failed: until `follow` passes a newer epoch

Results for a requested partition. One from an earlier leader epoch is dropped. One for an earlier request of this epoch
is used for the high watermark alone:

    records              appended, unless an earlier response already brought them               -> to request
    a diverging epoch    truncated to where the log diverges from the leader's (KIP-595), or
                         reset to the leader's log start if it diverges below that; unless
                         `TRUNCATIONS_A_RESPONSE` of this response already were                  -> to request
                         nothing is left to truncate                                             -> delayed
    OFFSET_OUT_OF_RANGE                                                                          -> outside
    FENCED_LEADER_EPOCH  the metadata of a newer epoch will follow                               -> stopped
    any other error      the leader may lack the newest metadata, or fail                        -> delayed
    a later log start    saved before it is sent to the leader; if the disk is full              -> delayed

    outside              the leader's log ends below: truncated to there (unclean election)      -> to request
                         the leader's log starts above: reset to the leader's log start          -> to request

The backoff doubles from `FIRST_BACKOFF_MS` to `replica.fetch.backoff.ms`: after an election the new leader usually has
the metadata within milliseconds.

A leader responds before `max_wait_ms` only with new data. If a bug makes it respond early without, the two brokers must
not end up in a busy loop: after `FRUITLESS_FETCHES` such responses in a row the fetcher backs off as after a lost
connection, and logs that once.

Pure but for the logs: `replica_fetcher` sends, `follower_replica` changes a log, `replica_fetcher_manager` decides
which partitions are followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from broker.replication.replica_state import NO_OFFSET
from broker.runtime.deadline_queue import DeadlineQueue, Scheduled
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from broker.quotas.replication_quota import ReplicationQuota
    from broker.replication.follower_replica import FollowerReplica
    from broker.replication.partition import Partition
    from protocol.primitives import Buffer
    from protocol.schema import Message

FIRST_BACKOFF_MS = 20
FRUITLESS_FETCHES = 3
"""Number of consecutive early responses without new data after which the fetcher backs off; races cause a few."""
NO_PROGRESS = "fetch responses come early without new data; backing off"
TRUNCATIONS_A_RESPONSE = 16
"""How many logs are truncated, and synced, for one response, within one turn of the loop."""
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
_RequestedTopic = FetchRequest.Topic
_Fetched = FetchResponse.Topic.Partition


class FetchLimits(NamedTuple):
    """The broker's `replica.fetch.*` settings: sizes in bytes, times in ms."""

    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    min_bytes: int = 1
    max_wait_ms: int = 500
    backoff_ms: int = 1000


class _FollowedPartition(Scheduled):
    """Fetch state of one partition (Kafka: `PartitionFetchState`); its deadline is the end of its backoff, in ms."""

    __slots__ = (
        "end_to_request",
        "failures",
        "first_request",
        "in_sync",
        "lag",
        "last_error",
        "replica",
        "request",
        "requested_offset",
    )

    def __init__(self, replica: FollowerReplica) -> None:
        super().__init__()
        self.replica = replica
        self.requested_offset = NO_OFFSET
        """The fetch offset that the leader has in this session."""
        self.request = 0
        """The number of the request with that offset; responses to earlier requests do not apply to it."""
        self.first_request = 0
        """The number of the first request in this leader epoch that named the partition."""
        self.failures = 0
        self.lag = 0
        """Records between the end of this log and the high watermark in the leader's latest response."""
        self.in_sync = False
        """Whether the leader's latest response left no lag."""
        self.last_error = ""
        """The last error logged for this partition; a repetition is not logged."""
        self.end_to_request = _LATEST
        """Which end of the leader's log to request next, as a timestamp of ListOffsets."""


class FetcherState:
    """The partitions followed from one leader."""

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        limits: FetchLimits,
        save_log_starts: Callable[[], None],
        log_warning: Callable[[str], None],
        quota: ReplicationQuota | None = None,
    ) -> None:
        """`save_log_starts` is called when log starts have moved; `log_warning` logs a message for the operator.

        `quota` limits what throttled replicas fetch.
        """
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._limits = limits
        self._save_log_starts = save_log_starts
        self._log_warning = log_warning
        self._quota = quota
        self._followed: dict[Key, _FollowedPartition] = {}
        self._to_request: dict[Key, _FollowedPartition] = {}
        self._to_forget: dict[Key, None] = {}
        self._out_of_range: dict[Key, _FollowedPartition] = {}
        self._delayed: DeadlineQueue[_FollowedPartition] = DeadlineQueue()
        self._session_id = _NO_SESSION
        self._session_epoch = _NEW_SESSION
        self._in_flight: deque[tuple[FetchRequest | ListOffsetsRequest, int]] = deque()
        """Requests in flight, each with its send time in ms."""
        self._responses = 0
        self._truncations_left = 0
        self._failures = 0
        self._not_before_ms = 0
        self._progressed = False
        """Whether the response being handled changed a log or the next request, or did not come early."""
        self._fruitless = 0
        """Number of consecutive early responses without new data."""

    def __len__(self) -> int:
        return len(self._followed)

    def lags(self) -> Iterator[tuple[Partition, int]]:
        """Yield each followed partition with its lag in records."""
        return ((followed.replica.partition, followed.lag) for followed in self._followed.values())

    # Followed partitions.

    def follow(self, replica: FollowerReplica) -> None:
        """Fetch a partition in the leader epoch of `replica`, instead of any older epoch."""
        key = (replica.partition.topic_id, replica.partition.index)
        known = self._followed.get(key)
        if known is not None and known.replica.leader_epoch == replica.leader_epoch:
            return
        self._drop(key)
        self._followed[key] = followed = _FollowedPartition(replica)
        self._request(key, followed)

    def unfollow(self, topic_id: bytes, index: int) -> None:
        """Stop fetching a partition; results in flight for it are dropped."""
        self._drop((topic_id, index))

    def log_start_moved(self, topic_id: bytes, index: int) -> None:
        """Send the leader this replica's new log start, which moved locally."""
        followed = self._followed.get((topic_id, index))
        if followed is not None and followed.requested_offset != NO_OFFSET:
            self._request((topic_id, index), followed)

    def _drop(self, key: Key) -> None:
        followed = self._followed.pop(key, None)
        if followed is not None:
            followed.cancel()
            self._to_request.pop(key, None)
            self._out_of_range.pop(key, None)
            self._to_forget[key] = None

    def _request(self, key: Key, followed: _FollowedPartition) -> None:
        self._to_request[key] = followed
        self._to_forget.pop(key, None)

    def _drop_from_session(self, key: Key, followed: _FollowedPartition) -> None:
        """Take a partition out of the session."""
        self._progressed = True
        followed.requested_offset = NO_OFFSET
        self._to_request.pop(key, None)
        self._to_forget[key] = None

    def _delay(self, key: Key, followed: _FollowedPartition, now_ms: int) -> None:
        self._drop_from_session(key, followed)
        self._delayed.schedule(followed, now_ms + self._backoff_ms(followed.failures))
        followed.failures += 1

    def _resume(self, now_ms: int) -> None:
        """Name the partitions whose backoff has ended."""
        unsaved: list[tuple[Key, _FollowedPartition]] = []
        while (followed := self._delayed.pop_due(now_ms)) is not None:
            key = (followed.replica.partition.topic_id, followed.replica.partition.index)
            self._request(key, followed)
            if not followed.replica.start_is_saved:
                unsaved.append((key, followed))
        if unsaved:
            self._save_starts(unsaved, now_ms)

    def _backoff_ms(self, failures: int) -> int:
        return min(FIRST_BACKOFF_MS << min(failures, 16), self._limits.backoff_ms)

    # Requests.

    @property
    def due_ms(self) -> int | None:
        """Return when `next_request` may have a request; None while it waits for a response, or has nothing to do."""
        if self._to_request or (not self._in_flight and (self._out_of_range or self._has_requested)):
            due_ms = self._not_before_ms
        elif (resumes_ms := self._delayed.next_at) is not None:
            due_ms = max(self._not_before_ms, int(resumes_ms))
        else:
            return None
        return due_ms if self._may_send else None

    @property
    def _may_send(self) -> bool:
        if len(self._in_flight) == 1 and not self._out_of_range and self._session_epoch != _NEW_SESSION:
            return isinstance(self._in_flight[0][0], FetchRequest)
        return not self._in_flight

    @property
    def _has_requested(self) -> bool:
        return any(followed.requested_offset != NO_OFFSET for followed in self._followed.values())

    def next_request(self, broker_epoch: int, now_ms: int) -> FetchRequest | ListOffsetsRequest | None:
        """Return the request to send now, or None; `handle_response` follows each one."""
        if not self._may_send or now_ms < self._not_before_ms:
            return None
        self._resume(now_ms)
        self._hold_throttled(now_ms)
        request: FetchRequest | ListOffsetsRequest | None = None
        if self._out_of_range:
            request = self._list_offsets()
        elif self._to_request or (not self._in_flight and self._has_requested):
            request = self._fetch(broker_epoch)
        if request is not None:
            self._in_flight.append((request, now_ms))
        return request

    def _hold_throttled(self, now_ms: int) -> None:
        """Delay the throttled partitions that are not in sync, while the rate is above its quota.

        A replica in the ISR is in sync before its first response, too: it would hold up what a new leader commits.
        """
        if self._quota is None or not (throttle_ms := self._quota.throttle_ms(now_ms)):
            return
        throttled = [
            (key, followed)
            for key, followed in self._to_request.items()
            if followed.replica.partition.follower_throttled
            and not followed.in_sync
            and self._node_id not in followed.replica.partition.isr
        ]
        for key, followed in throttled:
            self._drop_from_session(key, followed)
            # No longer than that: the quota may be raised or removed meanwhile.
            self._delayed.schedule(followed, now_ms + min(throttle_ms, max(self._limits.backoff_ms, 1)))

    def _fetch(self, broker_epoch: int) -> FetchRequest:
        limits, named, epoch = self._limits, self._to_request, self._session_epoch
        forgotten: list[FetchRequest.ForgottenTopic] = []
        if epoch == _NEW_SESSION:
            named = {
                key: one
                for key, one in self._followed.items()
                if one.requested_offset != NO_OFFSET or key in self._to_request
            }
        else:
            forgotten = self._forgotten()
            self._session_epoch = 1 if epoch == _LARGEST else epoch + 1
        self._to_request, self._to_forget = {}, {}
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

    def _topics(self, named: dict[Key, _FollowedPartition]) -> list[_RequestedTopic]:
        topics: dict[bytes, _RequestedTopic] = {}
        for (topic_id, index), followed in named.items():
            replica = followed.replica
            followed.requested_offset = replica.end_offset
            followed.request = self._responses + len(self._in_flight) + 1
            followed.first_request = followed.first_request or followed.request
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = _RequestedTopic(topic_id=topic_id, partitions=[])
            topic.partitions.append(
                _RequestedTopic.Partition(
                    partition=index,
                    current_leader_epoch=replica.leader_epoch,
                    fetch_offset=followed.requested_offset,
                    last_fetched_epoch=replica.last_epoch,
                    log_start_offset=replica.start_offset,
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

    def _list_offsets(self) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsRequest.Topic] = {}
        for (_, index), followed in self._out_of_range.items():
            name = followed.replica.partition.topic
            topic = topics.setdefault(name, ListOffsetsRequest.Topic(name=name, partitions=[]))
            topic.partitions.append(
                ListOffsetsRequest.Topic.Partition(
                    partition_index=index,
                    current_leader_epoch=followed.replica.leader_epoch,
                    timestamp=followed.end_to_request,
                )
            )
        return ListOffsetsRequest(replica_id=self._node_id, topics=list(topics.values()))

    # Responses.

    def handle_response(self, response: Message | None, now_ms: int) -> None:
        """Handle the response to the oldest request in flight; None if there is none, as after a lost connection."""
        _, sent_ms = self._in_flight.popleft()
        self._responses += 1
        self._progressed = now_ms - sent_ms >= self._limits.max_wait_ms // 2
        if isinstance(response, ListOffsetsResponse):
            self._failures = 0
            self._apply_ends(response, now_ms)
        elif isinstance(response, FetchResponse) and response.error_code == ErrorCode.NONE:
            self._failures = 0
            self._continue_session(response.session_id)
            self._apply_response(response, now_ms)
            self._back_off_if_fruitless(now_ms)
        elif not self._in_flight:  # else the request behind it starts a new session, or fails likewise
            self._restart_session(response, now_ms)
        elif isinstance(response, FetchResponse) and response.error_code not in _SESSION_ERRORS:
            for key, followed in self._followed.items():  # the leader may count its data as delivered
                if followed.requested_offset != NO_OFFSET:
                    self._request(key, followed)

    def _continue_session(self, session_id: int) -> None:
        """Continue the session that the leader returned, if any."""
        if session_id == _NO_SESSION:
            self._session_epoch = _NEW_SESSION
        elif self._session_epoch == _NEW_SESSION:
            self._session_epoch = 1
        self._session_id = session_id

    def _back_off_if_fruitless(self, now_ms: int) -> None:
        """Back off if the leader keeps responding early without new data."""
        if self._progressed:
            self._fruitless = 0
            return
        self._fruitless += 1
        if self._fruitless == FRUITLESS_FETCHES:
            self._log_warning(NO_PROGRESS)
        if self._fruitless >= FRUITLESS_FETCHES:
            self._not_before_ms = now_ms + self._backoff_ms(self._fruitless - FRUITLESS_FETCHES)

    def _restart_session(self, response: Message | None, now_ms: int) -> None:
        """Start a new session: at once after a session error, else after a backoff."""
        code = response.error_code if isinstance(response, FetchResponse) else ErrorCode.NONE
        self._session_epoch = _NEW_SESSION
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = _NO_SESSION
        if code in _SESSION_ERRORS:
            self._back_off_if_fruitless(now_ms)
        else:
            if code != ErrorCode.NONE:
                self._log_warning(f"fetch failed: {ErrorCode(code).name}")
            self._not_before_ms = now_ms + self._backoff_ms(self._failures)
            self._failures += 1

    def _apply_response(self, response: FetchResponse, now_ms: int) -> None:
        moved: list[tuple[Key, _FollowedPartition]] = []
        self._truncations_left = TRUNCATIONS_A_RESPONSE
        for topic in response.responses:
            for fetched in topic.partitions:
                key = (topic.topic_id, fetched.partition_index)
                followed = self._followed.get(key)
                if followed is None or followed.requested_offset == NO_OFFSET or followed.request > self._responses:
                    # No longer followed, or requested again since. If the next request removes it from the session, or
                    # names it in a newer epoch, an early response about it does not indicate a busy loop.
                    followed_anew = key in self._to_request and self._to_request[key].requested_offset == NO_OFFSET
                    self._progressed |= followed_anew or key in self._to_forget
                    if followed is not None and 0 < followed.first_request <= self._responses:
                        followed.replica.update_high_watermark(fetched)
                    continue
                try:
                    if self._apply_result(key, followed, fetched, now_ms):
                        moved.append((key, followed))
                except (KafkaError, DecodeError) as error:
                    self._failed_locally(key, followed, error, now_ms)
        if moved:
            self._save_starts(moved, now_ms)

    def _save_starts(self, moved: list[tuple[Key, _FollowedPartition]], now_ms: int) -> None:
        """Save log starts to disk: the leader must not get one that a crash would undo."""
        try:
            self._save_log_starts()
        except KafkaError as error:
            self._log_error(moved[0][1], str(error))
            for key, followed in moved:
                if not followed.replica.start_is_saved:
                    self._stop_or_delay(key, followed, now_ms)

    def _apply_result(self, key: Key, followed: _FollowedPartition, fetched: _Fetched, now_ms: int) -> bool:
        """Handle the leader's result for one partition; return whether its log start moved."""
        code, replica, diverging = fetched.error_code, followed.replica, fetched.diverging_epoch
        if code != ErrorCode.NONE:
            self._apply_error(key, followed, code, now_ms)
            return False
        if diverging.end_offset != NO_OFFSET:
            before, start, last_epoch = replica.end_offset, replica.start_offset, replica.last_epoch
            if followed.requested_offset != before:
                return False
            if not self._truncations_left:  # requesting it again brings the same result
                self._request(key, followed)
                return False
            self._truncations_left -= 1
            end_offset = replica.truncate_diverged(diverging.epoch, diverging.end_offset, fetched.log_start_offset)
            if replica.start_offset > start:
                self._log_warning(f"{replica} diverges below the leader's log start: reset to {end_offset}, that start")
            elif end_offset < before:
                self._log_warning(
                    f"{replica} truncated from {before} to {end_offset}, where it diverges from the leader's log"
                )
            if end_offset == before and replica.last_epoch == last_epoch:
                self._delay(key, followed, now_ms)  # the leader would return the same again
            else:
                self._progressed = True
                self._request(key, followed)
            return False
        start = replica.start_offset
        if followed.requested_offset != replica.end_offset:  # the log already has these records
            return replica.update_offsets(fetched.high_watermark, fetched.log_start_offset)
        records = cast("Buffer", fetched.records or b"")
        whole = replica.append(records, fetched.log_start_offset)
        moved = replica.update_offsets(fetched.high_watermark, fetched.log_start_offset)
        followed.lag = max(fetched.high_watermark - replica.end_offset, 0)
        followed.in_sync = not followed.lag
        if replica.partition.follower_throttled and self._quota is not None:
            self._quota.record(len(records), now_ms)
        if whole or replica.start_offset != start:
            followed.failures, followed.last_error = 0, ""
            self._progressed = True
            self._request(key, followed)
        elif fetched.records:
            self._delay(key, followed, now_ms)  # records of an epoch above `leader_epoch`, or a partial batch
        return moved

    def _apply_error(self, key: Key, followed: _FollowedPartition, code: int, now_ms: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._drop_from_session(key, followed)
            followed.end_to_request = _LATEST
            self._out_of_range[key] = followed
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            self._drop_from_session(key, followed)
        else:
            self._delay(key, followed, now_ms)

    def _failed_locally(
        self, key: Key, followed: _FollowedPartition, error: KafkaError | DecodeError, now_ms: int
    ) -> None:
        """Stop if the local disk failed; retry if the leader's bytes were invalid."""
        self._log_error(followed, f"{followed.replica}: {error}")
        self._stop_or_delay(key, followed, now_ms)

    def _log_error(self, followed: _FollowedPartition, error: str) -> None:
        if error != followed.last_error:
            followed.last_error = error
            self._log_warning(error)

    def _stop_or_delay(self, key: Key, followed: _FollowedPartition, now_ms: int) -> None:
        if followed.replica.partition.log.offline:
            self._drop_from_session(key, followed)
        else:
            self._delay(key, followed, now_ms)

    def _apply_ends(self, response: ListOffsetsResponse, now_ms: int) -> None:
        queried, self._out_of_range = self._out_of_range, {}
        found = {(topic.name, one.partition_index): one for topic in response.topics for one in topic.partitions}
        for key, followed in queried.items():
            end = found.get((followed.replica.partition.topic, key[1]))
            if end is None or end.error_code != ErrorCode.NONE:
                self._delay(key, followed, now_ms)
            else:
                try:
                    self._apply_end(key, followed, end.offset, now_ms)
                except KafkaError as error:
                    self._failed_locally(key, followed, error, now_ms)

    def _apply_end(self, key: Key, followed: _FollowedPartition, offset: int, now_ms: int) -> None:
        replica, which = followed.replica, followed.end_to_request
        if which == _LATEST and offset >= replica.end_offset:
            followed.end_to_request = _EARLIEST
            self._out_of_range[key] = followed
        elif which == _LATEST:
            self._log_warning(f"{replica} truncated from {replica.end_offset} to {offset}, the end of the leader's log")
            replica.truncate_to(offset)
            self._request(key, followed)
        elif offset > replica.end_offset:
            self._log_warning(
                f"{replica} ends at {replica.end_offset}, below the leader's log: reset to {offset}, its start"
            )
            replica.truncate_fully_and_start_at(offset)
            self._request(key, followed)
        else:
            self._delay(key, followed, now_ms)  # the fetch offset is in range again
