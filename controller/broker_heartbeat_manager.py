"""Which brokers live, as the active controller sees it: sessions, broken connections, and who may stop.

A broker lives as long as it says so: each heartbeat is good for `broker.session.timeout.ms`. Beyond Apache Kafka, one
whose connections all broke has `barnabas.broker.disconnect.grace.ms` to come back; what has crashed is known to be gone
much sooner then, and what hangs or is cut off without a sign after the session. Who is due is to be fenced
(`commands.brokers.fence_brokers`), and told again after the grace if that does not come to pass.

    a heartbeat            the session lasts until now + session timeout
    the last connection    the session lasts until now + grace, if it would last longer
      breaks
    its process has ended  the session lasts until now, unless it has a connection again
    a new registration     a new session; heartbeats and connections of the one before count no more
    a broker is fenced     the session is over, so that its next run can register at once, until it is heard again;
                           Apache Kafka waits for the end of the session
    a new active           everybody gets a new session: it cannot know when the others were heard; except who it
      controller             knows to be unreachable, from the quorum's own connections
    another claims the     such a session lasts until now + grace, unless its broker was heard since: whoever lives
      broker's id and        turns to a new controller at once, so this one was killed with the controller before; and
      listeners              nobody else could listen there while it lived

Time in which the controller itself stood still counts for nobody: if it is told anything much later than somebody was
due (`_STALL_MS`), everybody gets back what passed since it was told something last, as heartbeats may lie unread.

A broker in controlled shutdown may stop when every active broker has heard that its leaderships moved (KIP-841): when
each has the metadata up to the image that began the shutdown.

Told committed images (`apply`), it holds what is in no image and dies with the leadership of the quorum. Times are
milliseconds of a clock that never goes back.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from controller.image import BrokerImage, Endpoint, MetadataImage

# A timer that is late by more does not come from a busy loop.
_STALL_MS = 300


class _Session:
    """What is known of one registration; `over` from when it is to be fenced, or is, until it is heard again.

    It is `presumed` if it is as old as the leadership of this controller, which has not heard it yet.
    """

    __slots__ = ("broker", "connections", "ends_ms", "metadata_offset", "over", "presumed", "shutdown_offset")

    def __init__(self, broker: BrokerImage, ends_ms: int) -> None:
        self.broker = broker
        self.ends_ms = ends_ms
        self.over = broker.fenced
        self.presumed = False
        self.metadata_offset = -1
        self.shutdown_offset: int | None = None
        self.connections: set[Hashable] = set()


class Liveness:
    """The sessions of all registered brokers. Those of fenced ones end without anything to be done."""

    def __init__(self, session_timeout_ms: int, disconnect_grace_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._grace_ms = disconnect_grace_ms
        self._sessions: dict[int, _Session] = {}
        self._awake_ms = 0

    def lead(self, image: MetadataImage, now_ms: int) -> None:
        """Begin anew, with all that is committed: this node has become the active controller."""
        self._sessions.clear()
        self._awake_ms = now_ms
        self.apply(image, now_ms)
        for session in self._sessions.values():
            session.presumed = True

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        """Follow the registrations of a newly committed image."""
        self._wake(now_ms)
        for broker_id in self._sessions.keys() - image.brokers.keys():
            del self._sessions[broker_id]
        for broker_id, broker in image.brokers.items():
            session = self._sessions.get(broker_id)
            if session is None or session.broker.epoch != broker.epoch:
                session = self._sessions[broker_id] = _Session(broker, now_ms + self._timeout_ms)
            if session.broker.fenced != broker.fenced:
                session.over = broker.fenced
            session.broker = broker
            if broker.fenced or not broker.in_controlled_shutdown:
                session.shutdown_offset = None
            elif session.shutdown_offset is None:
                session.shutdown_offset = image.offset

    def heard_from(
        self, broker_id: int, broker_epoch: int, metadata_offset: int, connection: Hashable, now_ms: int
    ) -> None:
        """Note a heartbeat, before it is decided on: the broker has applied the metadata up to `metadata_offset`.

        `connection` is a key of the open connection that it came through; None for the broker of this very process,
        and for whatever else cannot break.
        """
        self._wake(now_ms)
        session = self._sessions.get(broker_id)
        if session is None or session.broker.epoch != broker_epoch:
            return
        session.ends_ms = now_ms + self._timeout_ms
        session.over = session.presumed = False
        session.metadata_offset = metadata_offset
        if connection is not None:
            session.connections.add(connection)

    def connection_lost(self, connection: Hashable, now_ms: int) -> list[BrokerImage]:
        """Note that a connection broke, which may be one of a broker; nobody is heard through it any more.

        Return the brokers that have no connection left by that.
        """
        self._wake(now_ms)
        alone = []
        for broker_id, session in self._sessions.items():
            if connection in session.connections:
                session.connections.remove(connection)
                self.unreachable(broker_id, now_ms)
                if not session.connections:
                    alone.append(session.broker)
        return alone

    def unreachable(self, broker_id: int, since_ms: int) -> None:
        """Give a broker that has no connection here the grace from `since_ms` on: its node cannot be reached either."""
        session = self._sessions.get(broker_id)
        if session is not None and not session.connections:
            session.ends_ms = min(session.ends_ms, since_ms + self._grace_ms)

    def ended(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """Give a registration no grace whose process has ended, unless it was heard since it lost its connections."""
        session = self._sessions.get(broker_id)
        if session is not None and session.broker.epoch == broker_epoch:
            self.unreachable(broker_id, now_ms - self._grace_ms)

    def claimed(self, broker_id: int, endpoints: Mapping[str, Endpoint], now_ms: int) -> None:
        """Note that a process at `endpoints` wants to be this broker; it may once who has the id is not `alive`."""
        session = self._sessions.get(broker_id)
        if session is not None and session.presumed and session.broker.endpoints == endpoints:
            self.unreachable(broker_id, now_ms)

    def alive(self, now_ms: int) -> Collection[int]:
        """Return the brokers whose session lasts: nobody else can register with such an id.

        Those that are fenced are among them from the first heartbeat on: they start, and so does nobody in their place.
        """
        return {
            broker_id for broker_id, session in self._sessions.items() if not session.over and now_ms <= session.ends_ms
        }

    @property
    def due_ms(self) -> int | None:
        """Return when to look who is `expired`; None while nobody can be."""
        return min((one.ends_ms for one in self._sessions.values() if not one.broker.fenced), default=None)

    def over(self) -> set[int]:
        """Return the brokers that `expired` has returned, or that are fenced, and that sent no heartbeat since then."""
        return {broker_id for broker_id, session in self._sessions.items() if session.over}

    def expired(self, now_ms: int) -> dict[int, int]:
        """Return who is to be fenced now, with their epochs; whoever still is not is told again after the grace."""
        self._wake(now_ms)
        gone = {}
        for broker_id, session in self._sessions.items():
            if not session.broker.fenced and session.ends_ms <= now_ms:
                gone[broker_id] = session.broker.epoch
                session.over = True
                session.ends_ms = now_ms + self._grace_ms
        return gone

    def may_stop(self, broker_id: int) -> bool:
        """Say whether all active brokers know what moved away from this one, which is in controlled shutdown."""
        session = self._sessions.get(broker_id)
        if session is None or session.shutdown_offset is None:
            return False
        return self.all_know(session.shutdown_offset)

    def all_know(self, offset: int, but: int | None = None) -> bool:
        """Say whether all active brokers have applied the metadata up to `offset`; `but` is asked in no case."""
        return all(
            session.metadata_offset >= offset
            for broker_id, session in self._sessions.items()
            if session.broker.active and broker_id != but
        )

    def _wake(self, now_ms: int) -> None:
        """Give back the time in which nobody looked who is due."""
        due_ms = self.due_ms
        if due_ms is not None and now_ms - due_ms > _STALL_MS:
            for session in self._sessions.values():
                session.ends_ms += now_ms - self._awake_ms
        self._awake_ms = now_ms
