"""Rules of faults: which requests a rule matches, which of its matches it takes as hits, and its action.

Theory of operation. Rules are asked in the order of their creation. Each counts a request that it matches. The first
one that takes it as a hit acts on the request, and later rules do not count it.

    a match is a hit unless    it is before the `nth` match
                               the rule has taken `most` hits: it is exhausted
                               a random number says no (`probability`)

A rule names topics and partitions, or none. If it does, and a request has several partitions, only those that it names
are the match: an error is the error of these, and the request does its work on the others.

Pure: a request comes as `RequestFacts`, and the driver (`fault_injector`) performs the action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from protocol.errors import ErrorCode

RequestedPartition: TypeAlias = tuple[str, int | None]
"""A topic with a partition; None for a request that names the topic as a whole."""


class RequestContent(NamedTuple):
    """What a request is about."""

    partitions: tuple[RequestedPartition, ...] = ()
    groups: frozenset[str] = frozenset()
    transactional_ids: frozenset[str] = frozenset()


class RequestFacts(NamedTuple):
    """A request as rules see it; `read` decodes its content, which few rules need."""

    api_key: int
    client_id: str | None
    from_broker: bool
    read: Callable[[], RequestContent]


class FaultCondition(NamedTuple):
    """Which requests a rule matches: those that fulfil every condition that is not None or empty."""

    api_keys: frozenset[int] = frozenset()
    topics: tuple[str, ...] = ()
    """Names; one that ends in `*` is a prefix."""
    partitions: frozenset[int] = frozenset()
    client_id: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    from_broker: bool | None = False

    def match(self, facts: RequestFacts) -> tuple[RequestedPartition, ...] | None:
        """Return the partitions of a request that the rule names, none if it names none; None if it does not match."""
        if self.api_keys and facts.api_key not in self.api_keys:
            return None
        if self.from_broker not in (None, facts.from_broker) or self.client_id not in (None, facts.client_id):
            return None
        if not (self.topics or self.partitions or self.group is not None or self.transactional_id is not None):
            return ()
        content = facts.read()
        if self.group is not None and self.group not in content.groups:
            return None
        if self.transactional_id is not None and self.transactional_id not in content.transactional_ids:
            return None
        if not (self.topics or self.partitions):
            return ()
        return tuple(filter(self._names, content.partitions)) or None

    def _names(self, one: RequestedPartition) -> bool:
        topic, index = one
        if self.topics and not any(_is_of(topic, name) for name in self.topics):
            return False
        return not self.partitions or index is None or index in self.partitions


def _is_of(topic: str, name: str) -> bool:
    return topic.startswith(name[:-1]) if name.endswith("*") else topic == name


class FaultLimits(NamedTuple):
    """Which matches are hits."""

    nth: int = 1
    most: int | None = None
    probability: float = 1.0


class ErrorFault(NamedTuple):
    """Respond with an error; with `after`, once the request has had its effect."""

    code: ErrorCode
    after: bool = False


class DelayFault(NamedTuple):
    """Handle the request later, or with `after` respond later."""

    delay_ms: int
    after: bool = False


class DisconnectFault(NamedTuple):
    """Close the connection instead of handling the request, or with `after` instead of responding."""

    after: bool = False


class ThrottleFault(NamedTuple):
    """Respond with a throttle time, and handle no request of the connection for as long (KIP-219)."""

    throttle_ms: int


class CorruptFault(NamedTuple):
    """Damage the response: `body`, `records`, `correlation_id` or `truncate`."""

    what: str


class HoldFault(NamedTuple):
    """Hold the request, or with `after` the response, until it is released."""

    after: bool = False


Fault: TypeAlias = ErrorFault | DelayFault | DisconnectFault | ThrottleFault | CorruptFault | HoldFault
"""What a rule does."""


class FaultRule:
    """One rule, and what it has counted."""

    def __init__(
        self, condition: FaultCondition, fault: Fault | None, limits: FaultLimits, draw: Callable[[], float]
    ) -> None:
        """Without a `fault`, the rule only counts, and takes no request from others; `draw` returns 0 to 1."""
        self.condition = condition
        self.fault = fault
        self.limits = limits
        self.matches = 0
        self.hits = 0
        self._draw = draw

    @property
    def is_exhausted(self) -> bool:
        """Whether the rule takes no more hits."""
        return self.limits.most is not None and self.hits >= self.limits.most

    def take(self, facts: RequestFacts) -> tuple[RequestedPartition, ...] | None:
        """Count a request if it matches; return the partitions that the rule names if it is a hit, else None."""
        if self.is_exhausted:
            return None
        named = self.condition.match(facts)
        if named is None:
            return None
        self.matches += 1
        if self.matches < self.limits.nth:
            return None
        if self.limits.probability < 1 and self._draw() >= self.limits.probability:
            return None
        self.hits += 1
        return named


class FaultHit(NamedTuple):
    """A rule that acts on a request, and the partitions that it names."""

    rule_id: int
    fault: Fault
    partitions: tuple[RequestedPartition, ...]


class FaultRules:
    """All rules, by id, in the order of their creation."""

    def __init__(self, on_hit: Callable[[], object]) -> None:
        """Call `on_hit` after each hit."""
        self._on_hit = on_hit
        self._rules: dict[int, FaultRule] = {}
        self._last_id = 0

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __iter__(self) -> Iterator[tuple[int, FaultRule]]:
        return iter(tuple(self._rules.items()))

    def get(self, rule_id: int) -> FaultRule | None:
        """Return a rule, or None."""
        return self._rules.get(rule_id)

    def add(self, rule: FaultRule) -> int:
        """Add a rule and return its id."""
        self._last_id += 1
        self._rules[self._last_id] = rule
        return self._last_id

    def remove(self, rule_id: int) -> FaultRule | None:
        """Remove a rule and return it; None if there is none."""
        return self._rules.pop(rule_id, None)

    def take(self, facts: RequestFacts) -> FaultHit | None:
        """Return the first hit of a rule that has a fault; None if no rule acts on the request."""
        for rule_id, rule in self._rules.items():
            named = rule.take(facts)
            if named is None:
                continue
            self._on_hit()
            if rule.fault is not None:
                return FaultHit(rule_id, rule.fault, named)
        return None
