"""The fault rules of a node with the requests that they hold, and the injectors of its listeners."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.control.faults.fault_injector import FaultInjector
from broker.control.faults.held_requests import HeldRequests
from broker.control.faults.rule import FaultRule, FaultRules
from broker.control.waiting import Event

if TYPE_CHECKING:
    from broker.control.faults.outcomes import Dispatched
    from broker.dispatch import WithErrors
    from broker.network.connection import Connection
    from broker.replication.fetch_sessions import FetchSessions
    from broker.shared_server import SharedServer


class FaultState:
    """The rules of one node."""

    def __init__(self) -> None:
        self.hit = Event()
        """Happens with each hit of a rule."""
        self.rules = FaultRules(self.hit.fire)
        self.held = HeldRequests()
        self._descriptions: dict[int, dict[str, Any]] = {}
        self._injectors: list[FaultInjector] = []

    def injector(
        self,
        dispatch: Dispatched,
        shared: SharedServer,
        fetch_sessions: FetchSessions | None,
        with_errors: WithErrors | None,
    ) -> FaultInjector:
        """Return a dispatcher that lets the rules act in front of `dispatch`."""
        injector = FaultInjector(
            dispatch,
            self.rules,
            self.held,
            loop=shared.loop,
            random=shared.random,
            image=lambda: shared.raft.image,
            fetch_sessions=fetch_sessions,
            close=_closer(shared),
            with_errors=with_errors,
        )
        self._injectors.append(injector)
        return injector

    def add(self, rule: FaultRule, description: dict[str, Any]) -> int:
        """Add a rule and return its id; `description` is what the test asked for."""
        rule_id = self.rules.add(rule)
        self._descriptions[rule_id] = description
        return rule_id

    def remove(self, rule_id: int) -> None:
        """Remove a rule, if there is one, and release what it holds."""
        self.rules.remove(rule_id)
        self._descriptions.pop(rule_id, None)
        self.held.release(rule_id)

    def clear(self) -> int:
        """Remove all rules, and release what waits because of them; return how many there were."""
        ids = [rule_id for rule_id, _ in self.rules]
        for rule_id in ids:
            self.remove(rule_id)
        for injector in self._injectors:
            injector.unmute_all()
        self.held.release_all()
        return len(ids)

    def described(self, rule_id: int, rule: FaultRule) -> dict[str, Any]:
        """Return a rule as JSON, with its counts."""
        counts = {"id": rule_id, "matches": rule.matches, "hits": rule.hits, "held": self.held.count(rule_id)}
        return counts | self._descriptions[rule_id]


def _closer(shared: SharedServer) -> Callable[[Connection], None]:
    """Return a function that closes a client's connection once what is queued has been sent."""

    def close(connection: Connection) -> None:
        for client in tuple(shared.server.connections):
            if client.connection is connection:
                client.finish()

    return close
