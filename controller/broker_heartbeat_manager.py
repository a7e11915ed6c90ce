"""Sessions of brokers on the active controller: which are live, which to fence, which may stop.

A heartbeat extends its broker's session to `broker.session.timeout.ms` from now. Beyond Apache Kafka, a broker whose
connections are all lost has `barnabas.broker.disconnect.grace.ms` to reconnect: a crash is detected within the grace, a
hang or a silent network partition within the session timeout. Expired brokers are to be fenced
(`commands.brokers.fence_brokers`); a broker that is not fenced is returned again after the grace.

    event                     session
    heartbeat                 ends at now + session timeout
    last connection lost      ends at now + grace, if that is earlier
    process exited            ends now, unless the broker has a connection again
    new registration          a new session; heartbeats and connections of the old registration no longer count
    broker fenced             none until its next heartbeat, so that its next incarnation can register at once;
                              Apache Kafka waits for the session's end
    new active controller     a new session for each broker: earlier heartbeats are unknown; brokers known to be
                              unreachable by the quorum's own connections get the grace
    another process tries     a session that began with this controller ends at now + grace, unless there was a
      to register with the    heartbeat since: a live broker sends one to a new controller at once, and no second
      same id and listeners   process could listen there, so the old one was killed together with the old controller
    or was started together   the same session ends now: all brokers of the start are new processes
      with this controller

A stalled controller must not fence brokers, whose heartbeats may be unread: when called more than `_STALL_MS` after a
session's end, it extends all sessions by the time since the previous call.

A broker in controlled shutdown may stop once every active broker has applied the image that began the shutdown, and so
knows the new leaders (KIP-841).

Sessions follow committed images (`apply`), are not stored, and last as long as this node leads the quorum. Times are in
ms of a monotonic clock. Kafka: `BrokerHeartbeatManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from controller.image import BrokerImage, Endpoint, MetadataImage

# A timer later than this means a stalled process, not a busy loop.
_STALL_MS = 300

_NO_HEARTBEAT = "no heartbeat within broker.session.timeout.ms"
_DISCONNECTED = "its connections were lost for barnabas.broker.disconnect.grace.ms"
_EXITED = "its connections were lost, and its address refuses new ones"
RESTARTED = "it was started again, together with this controller"


class _Session:
    """The session of one registration.

    `silent`: the broker is expired or fenced and has sent no heartbeat since. `presumed`: the session began with this
    controller's leadership, which has received no heartbeat of the broker yet. `end_reason`: why it ends at `ends_ms`.
    """

    __slots__ = (
        "broker",
        "connections",
        "end_reason",
        "ends_ms",
        "metadata_offset",
        "presumed",
        "shutdown_offset",
        "silent",
    )

    def __init__(self, broker: BrokerImage, ends_ms: int) -> None:
        self.broker = broker
        self.ends_ms = ends_ms
        self.end_reason = _NO_HEARTBEAT
        self.silent = broker.fenced
        self.presumed = False
        self.metadata_offset = -1
        self.shutdown_offset: int | None = None
        self.connections: set[Hashable] = set()


class BrokerHeartbeatManager:
    """The sessions of all registered brokers. Sessions of fenced brokers end without effect."""

    def __init__(self, session_timeout_ms: int, disconnect_grace_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._grace_ms = disconnect_grace_ms
        self._sessions: dict[int, _Session] = {}
        self._last_call_ms = 0

    def become_active(self, image: MetadataImage, now_ms: int) -> None:
        """Start new sessions for all brokers of `image`: this node has become the active controller."""
        self._sessions.clear()
        self._last_call_ms = now_ms
        self.apply(image, now_ms)
        for session in self._sessions.values():
            session.presumed = True

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        """Follow the registrations of a newly committed image."""
        self._extend_after_stall(now_ms)
        for broker_id in self._sessions.keys() - image.brokers.keys():
            del self._sessions[broker_id]
        for broker_id, broker in image.brokers.items():
            session = self._sessions.get(broker_id)
            if session is None or session.broker.epoch != broker.epoch:
                session = self._sessions[broker_id] = _Session(broker, now_ms + self._timeout_ms)
            if session.broker.fenced != broker.fenced:
                session.silent = broker.fenced
            session.broker = broker
            if broker.fenced or not broker.in_controlled_shutdown:
                session.shutdown_offset = None
            elif session.shutdown_offset is None:
                session.shutdown_offset = image.offset

    def touch(self, broker_id: int, broker_epoch: int, metadata_offset: int, connection: Hashable, now_ms: int) -> None:
        """Extend the session by a heartbeat; its broker has applied the metadata up to `metadata_offset`.

        `connection` is a key of the open connection that carried it; None for the broker of this process.
        """
        self._extend_after_stall(now_ms)
        session = self._sessions.get(broker_id)
        if session is None or session.broker.epoch != broker_epoch:
            return
        session.ends_ms = now_ms + self._timeout_ms
        session.end_reason = _NO_HEARTBEAT
        session.silent = session.presumed = False
        session.metadata_offset = metadata_offset
        if connection is not None:
            session.connections.add(connection)

    def connection_lost(self, connection: Hashable, now_ms: int) -> list[BrokerImage]:
        """Record that a connection is closed; return the brokers that have none left as a result."""
        self._extend_after_stall(now_ms)
        disconnected = []
        for broker_id, session in self._sessions.items():
            if connection in session.connections:
                session.connections.remove(connection)
                self.unreachable(broker_id, now_ms)
                if not session.connections:
                    disconnected.append(session.broker)
        return disconnected

    def unreachable(self, broker_id: int, since_ms: int) -> None:
        """Limit the session of a broker without a connection here to `since_ms` + grace: its node is unreachable."""
        session = self._sessions.get(broker_id)
        if session is not None and not session.connections:
            self._end_by(session, since_ms + self._grace_ms, _DISCONNECTED)

    def process_exited(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """End the session of a registration whose process has exited, unless the broker has a connection again."""
        session = self._sessions.get(broker_id)
        if session is not None and session.broker.epoch == broker_epoch and not session.connections:
            self._end_by(session, now_ms, _EXITED)

    def registration_attempted(
        self, broker_id: int, endpoints: Mapping[str, Endpoint], now_ms: int, *, started_together: bool = False
    ) -> None:
        """Record that a process at `endpoints` tries to register with this id; it can once the id is not `alive`.

        `started_together`: with this controller, as one of all brokers of the cluster.
        """
        session = self._sessions.get(broker_id)
        if session is None or not session.presumed:
            return
        if started_together:
            self._end_by(session, now_ms, RESTARTED)
        elif session.broker.endpoints == endpoints:
            self.unreachable(broker_id, now_ms)

    def alive(self, now_ms: int) -> Collection[int]:
        """Return the brokers whose session lasts: no other process can register with such an id.

        A fenced broker is among them from its first heartbeat on.
        """
        return {
            broker_id
            for broker_id, session in self._sessions.items()
            if not session.silent and now_ms <= session.ends_ms
        }

    @property
    def due_ms(self) -> int | None:
        """Return the earliest end of an unfenced broker's session; None if there is none."""
        return min((one.ends_ms for one in self._sessions.values() if not one.broker.fenced), default=None)

    def silent(self) -> set[int]:
        """Return the brokers that were fenced or returned by `expired`, and have sent no heartbeat since."""
        return {broker_id for broker_id, session in self._sessions.items() if session.silent}

    def expired(self, now_ms: int) -> dict[int, int]:
        """Return the brokers to fence now, with their epochs; each again after the grace while it is unfenced."""
        self._extend_after_stall(now_ms)
        to_fence = {}
        for broker_id, session in self._sessions.items():
            if not session.broker.fenced and session.ends_ms <= now_ms:
                to_fence[broker_id] = session.broker.epoch
                session.silent = True
                session.ends_ms = now_ms + self._grace_ms
        return to_fence

    def end_reason(self, broker_id: int) -> str:
        """Return why a broker's session ended, or will end, for the log."""
        return self._sessions[broker_id].end_reason

    def may_stop(self, broker_id: int) -> bool:
        """Return whether all active brokers have applied the image that began this broker's controlled shutdown."""
        session = self._sessions.get(broker_id)
        if session is None or session.shutdown_offset is None:
            return False
        return self.all_applied(session.shutdown_offset)

    def all_applied(self, offset: int, excluding: int | None = None) -> bool:
        """Return whether all active brokers, except `excluding`, have applied the metadata up to `offset`."""
        return all(
            session.metadata_offset >= offset
            for broker_id, session in self._sessions.items()
            if session.broker.active and broker_id != excluding
        )

    @staticmethod
    def _end_by(session: _Session, ends_ms: int, reason: str) -> None:
        if ends_ms < session.ends_ms:
            session.ends_ms, session.end_reason = ends_ms, reason

    def _extend_after_stall(self, now_ms: int) -> None:
        """Extend all sessions by the time since the last call, if one ended more than `_STALL_MS` ago."""
        due_ms = self.due_ms
        if due_ms is not None and now_ms - due_ms > _STALL_MS:
            for session in self._sessions.values():
                session.ends_ms += now_ms - self._last_call_ms
        self._last_call_ms = now_ms
