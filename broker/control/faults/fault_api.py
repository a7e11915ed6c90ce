"""The operations of the control API on fault rules."""

from __future__ import annotations

from http import HTTPStatus
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from broker.control.api_problem import bad_request, did_you_mean, not_found
from broker.control.bodies import NumberRange
from broker.control.faults.request_content import conditions_of
from broker.control.faults.rule import (
    CorruptFault,
    DelayFault,
    DisconnectFault,
    ErrorFault,
    Fault,
    FaultCondition,
    FaultLimits,
    FaultRule,
    HoldFault,
    ThrottleFault,
)
from broker.control.http_api import ApiResponse
from broker.control.waiting import DEFAULT_TIMEOUT_MS, TimeoutMs, until, wait_result
from broker.error_responses import has_error_code
from broker.routes import ROUTES
from protocol.api import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.plural import count_of

if TYPE_CHECKING:
    from broker.control.control import Control

_AFTER = "after"
_SENDERS = {"clients": False, "brokers": True, "any": None}
_CONDITIONS = ("topic", "partition", "client_id", "group", "transactional_id", "broker", "sender")
_CONTENT_CONDITIONS = ("topic", "partition", "group", "transactional_id")
_LONGEST_MS = 3_600_000


class FaultAction(NamedTuple):
    """What a rule does: one of these, and with an error or a delay also when."""

    error: str | None = None
    delay_ms: Annotated[int, NumberRange(0, _LONGEST_MS)] | None = None
    disconnect: Literal["before", "after"] | None = None
    throttle_ms: Annotated[int, NumberRange(1, _LONGEST_MS)] | None = None
    corrupt: Literal["body", "records", "correlation_id", "truncate"] | None = None
    hold: Literal["before", "after"] | None = None
    when: Literal["before", "after"] = "before"


class FaultBody(NamedTuple):
    """A rule: the requests that it applies to, which of them, and the action; without one it only counts."""

    api: str | int | list[str | int] | None = None
    topic: str | list[str] | None = None
    partition: int | list[int] | None = None
    client_id: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    broker: int | list[int] | None = None
    sender: Literal["clients", "brokers", "any"] = "clients"
    nth: Annotated[int, NumberRange(1)] = 1
    count: Annotated[int, NumberRange(1)] | None = None  # type: ignore[assignment]  # not the method of a tuple
    probability: Annotated[float, NumberRange(0, 1)] = 1.0
    seed: int = 0
    action: FaultAction | None = None


class ReleaseBody(NamedTuple):
    """How many held requests to release; by default all."""

    count: Annotated[int, NumberRange(1)] | None = None  # type: ignore[assignment]  # not the method of a tuple


class HitsWait(NamedTuple):
    """A wait for so many hits of a rule in total."""

    hits: Annotated[int, NumberRange(0)] = 1
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


async def create_fault(control: Control, body: FaultBody) -> ApiResponse:
    """Add a rule."""
    api_keys = frozenset(map(_api_key, _several(body.api)))
    for key in sorted(api_keys):
        _check_conditions(key, body)
    condition = FaultCondition(
        api_keys,
        tuple(_several(body.topic)),
        frozenset(_several(body.partition)),
        body.client_id,
        body.group,
        body.transactional_id,
        _SENDERS[body.sender],
    )
    brokers = _several(body.broker)
    is_here = not brokers or control.node.shared.settings.node_id in brokers
    limits = FaultLimits(body.nth, body.count if is_here else 0, body.probability)
    fault = None if body.action is None else _fault(body.action, api_keys)
    rule = FaultRule(condition, fault, limits, Random(body.seed).random)
    given = {name: value for name, value in body._asdict().items() if value != FaultBody._field_defaults.get(name)}
    if body.action is not None:
        defaults = FaultAction._field_defaults
        given["action"] = {name: value for name, value in body.action._asdict().items() if value != defaults[name]}
    rule_id = control.faults.add(rule, given)
    return ApiResponse(control.faults.described(rule_id, rule), HTTPStatus.CREATED)


async def list_faults(control: Control) -> dict[str, Any]:
    """Return all rules."""
    return {"faults": [control.faults.described(rule_id, rule) for rule_id, rule in control.faults.rules]}


async def describe_fault(control: Control, fault: str) -> dict[str, Any]:
    """Return a rule with its counts."""
    rule_id, rule = _existing(control, fault)
    return control.faults.described(rule_id, rule)


async def delete_fault(control: Control, fault: str) -> dict[str, Any]:
    """Remove a rule, and release what it holds; return its last state."""
    rule_id, rule = _existing(control, fault)
    last = control.faults.described(rule_id, rule)
    control.faults.remove(rule_id)
    return last


async def delete_faults(control: Control) -> dict[str, Any]:
    """Remove all rules, and release what they hold."""
    return {"deleted": control.faults.clear()}


async def release_fault(control: Control, fault: str, body: ReleaseBody) -> dict[str, Any]:
    """Release requests that a rule holds, the oldest first; return how many there were."""
    rule_id, _ = _existing(control, fault)
    return {"released": control.faults.held.release(rule_id, body.count)}


async def wait_for_hits(control: Control, fault: str, body: HitsWait) -> dict[str, Any]:
    """Wait until a rule has taken so many hits."""
    rule_id, rule = _existing(control, fault)
    met = await until(lambda: rule.hits >= body.hits, [control.faults.hit.source], body.timeout_ms)
    seen = {"id": rule_id, "matches": rule.matches, "hits": rule.hits, "held": control.faults.held.count(rule_id)}
    text = f"it has {rule.hits} of {rule.matches} matching requests"
    return wait_result(met, f"fault {rule_id} has {count_of(body.hits, 'hit')}", body.timeout_ms, seen, text)


def _existing(control: Control, fault: str) -> tuple[int, FaultRule]:
    rule_id = int(fault) if fault.isdecimal() else -1
    rule = control.faults.rules.get(rule_id)
    if rule is None:
        ids = ", ".join(str(known) for known, _ in control.faults.rules) or "none"
        raise not_found(f"there is no fault {fault}; there are: {ids}")
    return rule_id, rule


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _api_key(name: str | int) -> int:
    """Return the key of an API; `ApiProblem` if there is none of the name or number."""
    known = {APIS[key].name.lower(): key for key in ROUTES}
    key = known.get(str(name).lower())
    if key is None and str(name).isdecimal() and int(name) in set(ROUTES):
        key = ApiKey(int(name))
    if key is None:
        names = [APIS[one].name for one in ROUTES]
        raise bad_request(f"api: this broker serves no API {name}{did_you_mean(str(name), names)}")
    return key


def _check_conditions(api_key: int, body: FaultBody) -> None:
    """Raise `ApiProblem` if no request of an API can fulfil a condition of the rule."""
    possible = conditions_of(api_key)
    for name in _CONTENT_CONDITIONS:
        if getattr(body, name) is not None and name not in possible:
            api = APIS[ApiKey(api_key)].name
            others = [one for one in _CONDITIONS if one in possible or one not in _CONTENT_CONDITIONS]
            raise bad_request(f"{name}: a rule for {api} cannot have one; it can have {', '.join(others)}")


def _fault(action: FaultAction, api_keys: frozenset[int]) -> Fault:
    """Return the fault of an action; `ApiProblem` unless it is exactly one, and possible."""
    given = [name for name, value in action._asdict().items() if name != "when" and value is not None]
    if len(given) != 1:
        which = " and ".join(given) or "nothing"
        raise bad_request(
            f"action: it has {which}; name one of error, delay_ms, disconnect, throttle_ms, corrupt and hold"
        )
    after = action.when == _AFTER
    if after and action.error is None and action.delay_ms is None:
        raise bad_request(f"action.when: it belongs to error and delay_ms; write {given[0]}: after")
    if action.error is not None:
        return ErrorFault(_error_code(action.error, api_keys), after)
    if action.delay_ms is not None:
        return DelayFault(action.delay_ms, after)
    if action.disconnect is not None:
        return DisconnectFault(action.disconnect == _AFTER)
    if action.throttle_ms is not None:
        return ThrottleFault(action.throttle_ms)
    if action.corrupt == "records" and api_keys and ApiKey.FETCH not in api_keys:
        raise bad_request(
            "action.corrupt: only responses to Fetch have records; corrupt body, correlation_id or truncate"
        )
    if action.corrupt is not None:
        return CorruptFault(action.corrupt)
    return HoldFault(action.hold == _AFTER)


def _error_code(name: str, api_keys: frozenset[int]) -> ErrorCode:
    found = ErrorCode.__members__.get(name.upper())
    if found is ErrorCode.NONE:
        raise bad_request("action.error: NONE is no error; name another one")
    if found is None:
        raise bad_request(
            f"action.error: there is no error {name}{did_you_mean(name.upper(), list(ErrorCode.__members__))}"
        )
    for key in api_keys:
        if not has_error_code(ApiKey(key), APIS[ApiKey(key)].max_version):
            raise bad_request(f"action.error: responses to {APIS[ApiKey(key)].name} have no error code")
    return found
