"""Requests to the brokers of a cluster: to any, to all, or to the one that serves the request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from barnabas.testing._control import MISDIRECTED, NOT_FOUND, ControlRefusal, PendingCall, Unreachable
from barnabas.testing.broker import Broker
from barnabas.testing.errors import ClusterError, WaitTimeout

T = TypeVar("T")
CALL_S = 30.0
NOT_STARTED = "the cluster does not run: use it in a `with` block, or call start()"
_ENDING_S = 0.01
"""The time in which a broker that does not answer is found to have ended, before another one is tried."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _GROWTH = 0.01, 0.25, 1.5


class Nodes:
    """The brokers of a cluster, as addressees of requests to their control APIs."""

    def __init__(self, brokers: Sequence[Broker]) -> None:
        """`brokers` are in the order of their ids."""
        self.brokers = list(brokers)

    @property
    def serving(self) -> list[Broker]:
        """The brokers that run and are not paused, those that are cut off last; ClusterError if there is none."""
        found = [broker for broker in self.brokers if broker.is_running and not broker.is_paused]
        found.sort(key=lambda broker: broker.network.is_isolated)
        if not found:
            states = "; ".join(broker.describe() for broker in self.brokers)
            raise ClusterError(states or NOT_STARTED)
        return found

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout_s: float = CALL_S
    ) -> dict[str, Any]:
        """Send a request to the broker that serves it, found by trying one; return the response.

        Repeat it while none serves it, for at most `timeout_s`; then, and for any other refusal, raise ClusterError.
        What one broker does not know, because it was paused or cut off, another may.
        """
        deadline = time.monotonic() + timeout_s
        broker = self.serving[0]
        ignorant: set[int] = set()
        pauses_s = retry_pauses_s()
        while True:
            try:
                return broker.control.call(method, path, body)
            except ControlRefusal as refusal:
                if refusal.status == NOT_FOUND:
                    ignorant.add(broker.node_id)
                    if all(one.node_id in ignorant for one in self.serving):
                        raise
                    broker = self._next(broker)
                    continue
                if refusal.status != MISDIRECTED or time.monotonic() > deadline:
                    raise
                named = self._serving(refusal.broker)
            except Unreachable:
                broker.has_ended(_ENDING_S)  # find out whether it has ended
                if time.monotonic() > deadline:
                    raise
                named = None
            if named is None:
                time.sleep(next(pauses_s))
            broker = named or self._next(broker)

    def wait(self, path: str, body: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Wait at the broker that serves the request; return what it has seen. WaitTimeout if that is not enough.

        The wait moves with a leader or coordinator.
        """
        __tracebackhide__ = True  # a test's report shows the line of the test
        deadline = time.monotonic() + timeout_s
        broker = self.serving[0]
        asked_late: set[int] = set()
        pauses_s = retry_pauses_s()
        while True:
            left_ms = max(0, round((deadline - time.monotonic()) * 1000))
            try:
                answer = broker.control.call("POST", path, {**body, "timeout_ms": left_ms})
            except ControlRefusal as refusal:
                if refusal.status != MISDIRECTED:
                    raise
                if time.monotonic() > deadline:  # follow to where the state can be seen, but not for ever
                    if broker.node_id in asked_late:
                        raise WaitTimeout(f"not within {timeout_s:g} s: {refusal}") from refusal
                    asked_late.add(broker.node_id)
                broker = self._serving(refusal.broker) or broker
                if broker.node_id != refusal.broker:
                    time.sleep(next(pauses_s))
                continue
            except Unreachable:
                if not broker.has_ended():
                    raise
                broker = self.serving[0]
                continue
            if not answer["met"]:
                raise WaitTimeout(answer["message"])
            seen: dict[str, Any] = answer["seen"]
            return seen

    def wait_at_all(self, path: str, body: Mapping[str, Any], timeout_s: float) -> None:
        """Wait at each broker that serves, at the same time; WaitTimeout with what the first in vain has seen.

        Do not wait for brokers that are cut off from others, and so learn nothing, unless all are, nor for one that
        ends.
        """
        __tracebackhide__ = True
        serving = self.serving
        informed = [broker for broker in serving if not broker.network.is_isolated] or serving
        for answer in self._all(informed, "POST", path, {**body, "timeout_ms": round(timeout_s * 1000)}):
            if not answer["met"]:
                raise WaitTimeout(answer["message"])

    def call_all(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Send a request to all brokers that serve, at the same time; return their responses in order."""
        return self._all(self.serving, method, path, body)

    def by_id(self, node_id: int) -> Broker:
        """Return a broker by its id; ClusterError if there is none."""
        found = next((broker for broker in self.brokers if broker.node_id == node_id), None)
        if found is None:
            ids = ", ".join(str(broker.node_id) for broker in self.brokers)
            raise ClusterError(f"there is no broker {node_id}; there are: {ids}")
        return found

    def _serving(self, node_id: int) -> Broker | None:
        return next((broker for broker in self.serving if broker.node_id == node_id), None)

    def _next(self, broker: Broker) -> Broker:
        """Return the next one that serves, in a circle."""
        serving = self.serving
        at = serving.index(broker) if broker in serving else -1
        return serving[(at + 1) % len(serving)]

    def _all(
        self, brokers: Sequence[Broker], method: str, path: str, body: Mapping[str, Any] | None
    ) -> list[dict[str, Any]]:
        """Send a request to brokers at the same time; return the responses, in order, of those that do not end."""
        calls: list[PendingCall | None] = []
        try:
            calls.extend(begin_unless_ended(broker, method, path, body) for broker in brokers)
            answers = [unless_ended(broker, call.result) for broker, call in zip(brokers, calls, strict=True) if call]
        except BaseException:
            for call in filter(None, calls):
                call.cancel()
            raise
        found = [answer for answer in answers if answer is not None]
        if not found:
            raise ClusterError("; ".join(broker.describe() for broker in self.brokers))
        return found


def retry_pauses_s() -> Iterator[float]:
    """Yield the pauses before a request is repeated, while a leader or coordinator is being elected: ever longer."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)


def unless_ended(broker: Broker, call: Callable[[], T]) -> T | None:
    """Return what `call`, of a request to a broker, returns; None if the broker ends."""
    try:
        return call()
    except Unreachable:
        if not broker.has_ended():
            raise
        return None


def call_unless_ended(
    broker: Broker, method: str, path: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Send a request to a broker and return the response; None if the broker ends."""
    return unless_ended(broker, lambda: broker.control.call(method, path, body))


def begin_unless_ended(
    broker: Broker, method: str, path: str, body: Mapping[str, Any] | None = None
) -> PendingCall | None:
    """Send a request to a broker; None if the broker ends."""
    return unless_ended(broker, lambda: broker.control.begin(method, path, body))
