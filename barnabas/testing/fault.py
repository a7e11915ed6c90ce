"""Faults by rule: what happens to the requests that fulfil its conditions.

with cluster.fault("Produce", topic=orders, error="NOT_LEADER_OR_FOLLOWER", count=3) as fault:
    ...  # the next three produce requests for the topic get that error
    fault.wait(hits=3)
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, Self, TypeAlias, TypedDict, TypeVar

from barnabas.testing._arguments import did_you_mean, number
from barnabas.testing._control import NOT_FOUND, ControlRefusal, PendingCall, first_ready, path_of
from barnabas.testing._nodes import Nodes, begin_unless_ended, call_unless_ended, unless_ended
from barnabas.testing.broker import Broker
from barnabas.testing.errors import ClusterError, WaitTimeout
from barnabas.testing.group import Group
from barnabas.testing.topic import WAIT_S, Topic

T = TypeVar("T")
OneOrMore: TypeAlias = T | Sequence[T]
Moment: TypeAlias = Literal["before", "after"]
"""Before the broker has executed the request, or after."""
_ANSWER_S = 5.0
_SILENCE: dict[str, Any] = {"met": False, "message": "no broker answers"}
_ACTIONS = ("error", "delay", "disconnect", "throttle", "corrupt", "hold")


class FaultFields(TypedDict, total=False):
    """The conditions of a rule, and exactly one action.

    The rule begins with the `nth` request that fulfils the conditions, ends after `count` of them, and applies to each
    with `probability`, drawn by `seed`. Each broker counts for itself.
    """

    topic: OneOrMore[Topic | str]
    """Topics that the request names; a name that ends in `*` is a prefix."""
    partition: OneOrMore[int]
    client_id: str
    group: Group | str
    transactional_id: str
    broker: OneOrMore[Broker | int]
    sender: Literal["clients", "brokers", "any"]
    """By default only requests of clients count."""
    nth: int
    count: int
    probability: float
    seed: int
    error: str
    """Action: answer with this error, by Kafka's name."""
    delay: float
    """Action: handle the request so many seconds later."""
    disconnect: Moment
    """Action: close the connection; "after" is a write whose acknowledgement is lost."""
    throttle: float
    """Action: have the client wait so many seconds, as for a quota."""
    corrupt: Literal["body", "records", "correlation_id", "truncate"]
    """Action: damage this part of the response."""
    hold: Moment
    """Action: hold the request, or its response, until `Fault.release`."""
    when: Moment
    """When `error` or `delay` applies; "after": the request has been executed."""


class Fault:
    """A rule at all brokers of a cluster, until the end of its block or `remove`."""

    def __init__(self, nodes: Nodes, api: OneOrMore[str | int], fields: FaultFields) -> None:
        """Install the rule; ValueError unless it has one action, `ControlRefusal` if the brokers refuse it."""
        self._nodes = nodes
        self._rule = _rule(api, fields)
        for node_id in _node_ids(self._rule):
            nodes.by_id(node_id)
        self._ids: dict[int, str] = {}
        for broker in nodes.serving:
            self._install(broker)
        for broker in nodes.brokers:
            broker.on_ready.append(self._install)
            broker.on_resumed.append(self._resumed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<Fault {self._rule}>"

    def _install(self, broker: Broker) -> None:
        self._ids[broker.node_id] = str(broker.control.call("POST", path_of("faults"), self._rule)["id"])

    def _resumed(self, broker: Broker) -> None:
        """Install the rule at a broker that was paused then."""
        if broker.node_id not in self._ids:
            self._install(broker)

    @property
    def hits(self) -> int:
        """The number of requests to which the action was applied, since the start of each broker."""
        return sum(self._count("hits").values())

    @property
    def matches(self) -> int:
        """The number of requests that fulfilled the conditions, since the start of each broker."""
        return sum(self._count("matches").values())

    def wait(self, hits: int = 1, timeout: float = WAIT_S) -> None:
        """Wait until the action has been applied to so many requests; WaitTimeout with the last requests instead."""
        __tracebackhide__ = True
        if not self._ids:
            raise ClusterError("the fault has been removed: wait for its hits before the end of its block")
        deadline = time.monotonic() + timeout
        while sum((seen := self._count("hits")).values()) < hits:
            left_s = max(0.0, deadline - time.monotonic())
            with ExitStack() as calls:
                waiting: dict[PendingCall, Broker] = {}
                for broker in self._where():
                    body = {"hits": seen.get(broker.node_id, 0) + 1, "timeout_ms": round(left_s * 1000)}
                    path = path_of("faults", self._ids[broker.node_id], "wait")
                    call = begin_unless_ended(broker, "POST", path, body)
                    if call is not None:
                        waiting[call] = broker
                        calls.callback(call.cancel)
                first = first_ready(waiting, left_s + _ANSWER_S)
                answer = _SILENCE if first is None else unless_ended(waiting[first], first.result)
            if answer is not None and not answer["met"]:
                expected = f"{hits} {'hit' if hits == 1 else 'hits'} of the fault expected within {timeout:g} s"
                raise WaitTimeout(f"{expected}, {sum(seen.values())} seen; {answer['message']}")

    def release(self, count: int | None = None) -> None:
        """Let requests go on that `hold` holds: the first `count` at each broker, or all."""
        for broker in self._where():
            path = path_of("faults", self._ids[broker.node_id], "release")
            body = {} if count is None else {"count": count}
            call_unless_ended(broker, "POST", path, body)

    def remove(self) -> None:
        """Remove the rule, from a paused broker when it is resumed; what it holds goes on."""
        for broker in self._nodes.brokers:
            if self._install in broker.on_ready:
                broker.on_ready.remove(self._install)
                broker.on_resumed.remove(self._resumed)
        ids, self._ids = self._ids, {}
        for broker in self._nodes.brokers:
            if broker.node_id not in ids or not broker.is_running:
                continue
            if broker.is_paused:
                broker.on_resumed.append(_Removal(ids[broker.node_id], broker.pid))
            else:
                _delete(broker, ids[broker.node_id])

    def _where(self) -> list[Broker]:
        """Return the brokers that serve and have the rule."""
        running = [broker for broker in self._nodes.brokers if broker.is_running and not broker.is_paused]
        return [broker for broker in running if broker.node_id in self._ids]

    def _count(self, what: str) -> dict[int, int]:
        found = {}
        for broker in self._where():
            path = path_of("faults", self._ids[broker.node_id])
            answer = call_unless_ended(broker, "GET", path)
            if answer is not None:
                found[broker.node_id] = answer[what]
        return found


class _Removal:
    """The removal of a rule from a paused broker, when it is resumed."""

    def __init__(self, rule_id: str, pid: int) -> None:
        """`pid` is the process that has the rule."""
        self._rule_id = rule_id
        self._pid = pid

    def __call__(self, broker: Broker) -> None:
        """Remove the rule, unless the broker was started again since."""
        broker.on_resumed.remove(self)
        if broker.pid == self._pid:
            _delete(broker, self._rule_id)


def _delete(broker: Broker, rule_id: str) -> None:
    """Remove a rule from a broker, unless a sweep has removed it, or the broker ends."""
    try:
        call_unless_ended(broker, "DELETE", path_of("faults", rule_id))
    except ControlRefusal as refusal:
        if refusal.status != NOT_FOUND:
            raise


def _rule(api: OneOrMore[str | int], fields: FaultFields) -> dict[str, Any]:
    """Return a rule as the control API takes it."""
    given: dict[str, Any] = {"api": api, **fields}
    unknown = sorted(given.keys() - FaultFields.__annotations__.keys() - {"api"})
    if unknown:
        raise ValueError(f"a fault has no {unknown[0]}{did_you_mean(unknown[0], FaultFields.__annotations__)}")
    chosen = [name for name in _ACTIONS if name in given]
    if len(chosen) != 1:
        which = f", not {' and '.join(chosen)}" if chosen else ""
        raise ValueError(f"a fault has one action of {', '.join(_ACTIONS)}{which}")
    action = {name: given.pop(name) for name in (*chosen, "when") if name in given}
    for name in {"delay", "throttle"} & action.keys():
        action[f"{name}_ms"] = round(number(name, action.pop(name)) * 1000)
    return {name: _plain(value) for name, value in given.items()} | {"action": action}


def _node_ids(rule: Mapping[str, Any]) -> list[int]:
    """Return the ids of the brokers that a rule names."""
    given = rule.get("broker", [])
    return given if isinstance(given, list) else [given]


def _plain(value: object) -> object:
    """Return names of topics and groups, and ids of brokers, for the objects."""
    if isinstance(value, Topic | Group):
        return value.name
    if isinstance(value, Broker):
        return value.node_id
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
