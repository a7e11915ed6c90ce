"""The control API: its paths, and the function of each. `docs/control-api.yaml` is its documentation (OpenAPI).

A function gets the `Control`, the names in the path, and with `body` or `query` the NamedTuple of that name, parsed
(`broker.control.bodies`); it returns the JSON object of the response, or an `ApiResponse`. Modules are imported with
the first request that needs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from broker.control.api_problem import ApiProblem, bad_request, not_found
from broker.control.bodies import parse_body, parse_query
from broker.control.http_api import ApiRequest, ApiResponse

if TYPE_CHECKING:
    from broker.control.control import Control

_LAST_REQUESTS = 10


class ApiOperation(NamedTuple):
    """One operation: `{name}` in its path stands for a name, `function` is `MODULE:FUNCTION` in `broker.control`."""

    method: str
    path: str
    function: str
    body: str = ""
    query: str = ""

    def load(self, name: str) -> Any:
        """Return the object `name` of the operation's module, imported."""
        return getattr(import_module(f"broker.control.{self.function.partition(':')[0]}"), name)


OPERATIONS = (
    ApiOperation("GET", "/v1", "status:describe_broker"),
    ApiOperation("GET", "/v1/clock", "clock:describe_clock"),
    ApiOperation("POST", "/v1/clock/advance", "clock:advance_clock", body="AdvanceBody"),
    ApiOperation("GET", "/v1/topics", "topics:list_topics"),
    ApiOperation("POST", "/v1/topics", "topics:create_topic", body="NewTopicBody"),
    ApiOperation("GET", "/v1/topics/{topic}", "topics:describe_topic"),
    ApiOperation("DELETE", "/v1/topics/{topic}", "topics:delete_topic"),
    ApiOperation("GET", "/v1/topics/{topic}/records", "records:read_records", query="RecordsQuery"),
    ApiOperation("POST", "/v1/topics/{topic}/records", "records:append_records", body="RecordsBody"),
    ApiOperation("GET", "/v1/groups", "groups:list_groups"),
    ApiOperation("GET", "/v1/groups/{group}", "groups:describe_group"),
    ApiOperation("POST", "/v1/groups/{group}/rebalance", "groups:rebalance_group"),
    ApiOperation("POST", "/v1/groups/{group}/expire", "groups:expire_sessions", body="ExpireBody"),
    ApiOperation("GET", "/v1/faults", "faults.fault_api:list_faults"),
    ApiOperation("POST", "/v1/faults", "faults.fault_api:create_fault", body="FaultBody"),
    ApiOperation("DELETE", "/v1/faults", "faults.fault_api:delete_faults"),
    ApiOperation("GET", "/v1/faults/{fault}", "faults.fault_api:describe_fault"),
    ApiOperation("DELETE", "/v1/faults/{fault}", "faults.fault_api:delete_fault"),
    ApiOperation("POST", "/v1/faults/{fault}/release", "faults.fault_api:release_fault", body="ReleaseBody"),
    ApiOperation("POST", "/v1/faults/{fault}/wait", "faults.fault_api:wait_for_hits", body="HitsWait"),
    ApiOperation("POST", "/v1/transactions/{transactional_id}/fence", "transactions:fence_producer"),
    ApiOperation("POST", "/v1/transactions/{transactional_id}/abort", "transactions:abort_transaction"),
    ApiOperation("POST", "/v1/leaders", "leaders:move_leader", body="LeaderBody"),
    ApiOperation("GET", "/v1/disk", "disk:describe_disk"),
    ApiOperation("PUT", "/v1/disk", "disk:break_disk", body="DiskBody"),
    ApiOperation("DELETE", "/v1/disk", "disk:heal_disk"),
    ApiOperation("GET", "/v1/network", "network:describe_network"),
    ApiOperation("PUT", "/v1/network", "network:cut_network", body="NetworkBody"),
    ApiOperation("DELETE", "/v1/network", "network:heal_network"),
    ApiOperation("GET", "/v1/transcript", "transcript.transcript_api:read_transcript", query="TranscriptQuery"),
    ApiOperation("DELETE", "/v1/transcript", "transcript.transcript_api:delete_transcript"),
    ApiOperation("GET", "/v1/sweep", "sweep:list_swept"),
    ApiOperation("POST", "/v1/sweep", "sweep:sweep", body="SweepBody"),
    ApiOperation("POST", "/v1/wait/cluster", "status:wait_for_cluster", body="ClusterWait"),
    ApiOperation("POST", "/v1/wait/topic", "topics:wait_until_usable", body="TopicWait"),
    ApiOperation("POST", "/v1/wait/log-end", "topics:wait_for_log_end", body="LogEndWait"),
    ApiOperation("POST", "/v1/wait/records", "records:wait_for_records", body="RecordsWait"),
    ApiOperation("POST", "/v1/wait/group-stable", "group_waits:wait_until_stable", body="StableWait"),
    ApiOperation("POST", "/v1/wait/group-lag", "group_waits:wait_for_lag", body="LagWait"),
)


async def answer(control: Control, request: ApiRequest) -> ApiResponse:
    """Return the response of the operation that `request` names; `ApiProblem` if it is refused."""
    operation, names = find(request.method, request.path)
    arguments: dict[str, Any] = dict(names)
    if operation.body:
        arguments["body"] = parse_body(operation.load(operation.body), request.body)
    elif request.body:
        raise bad_request(f"{request.method} {operation.path} takes no body")
    if operation.query:
        arguments["query"] = parse_query(operation.load(operation.query), request.query)
    function = operation.load(operation.function.partition(":")[2])
    found = await function(control, **arguments)
    if isinstance(found, ApiResponse):
        return found
    if found.get("met") is False:
        found["message"] += _last_requests(control)
    return ApiResponse(found)


def _last_requests(control: Control) -> str:
    """Return the last requests of clients, for the message of a wait that was not met."""
    from broker.control.transcript.transcript_api import last_requests

    return "".join(f"\n  {line}" for line in last_requests(control, _LAST_REQUESTS))


def find(method: str, path: str) -> tuple[ApiOperation, dict[str, str]]:
    """Return the operation of a path, and the names in it; `ApiProblem` if there is none."""
    methods: list[str] = []
    for operation in OPERATIONS:
        names = _match(operation.path, path)
        if names is None:
            continue
        if operation.method == method:
            return operation, names
        methods.append(operation.method)
    if methods:
        raise ApiProblem(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} serves {', '.join(methods)}, not {method}")
    raise not_found(f"there is no path {path}; the paths are {', '.join(_unique(one.path for one in OPERATIONS))}")


def _match(template: str, path: str) -> dict[str, str] | None:
    """Return the names of a path by those of its template; None if it does not match."""
    parts, given = template.split("/"), path.split("/")
    if len(parts) != len(given):
        return None
    names = {}
    for part, text in zip(parts, given, strict=True):
        if part.startswith("{"):
            names[part[1:-1]] = unquote(text)
        elif part != text:
            return None
    return names


def _unique(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(paths))
