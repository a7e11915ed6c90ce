"""The paths of the control API, their documentation, and requests that are refused."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest

from broker.control.api import OPERATIONS, ApiOperation
from broker.control.bodies import NumberRange, field_types
from tests.unit.broker.control.controlled_broker import ControlledBroker, document, resolved

_TYPES: dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


def schema_of(hint: Any) -> Any:
    """Return the JSON Schema of a field's type."""
    if get_origin(hint) in (Union, UnionType):
        parts = [schema_of(part) for part in get_args(hint)]
        if all(list(part) == ["type"] for part in parts):
            return {"type": [part["type"] for part in parts]}
        return {"anyOf": parts}
    if get_origin(hint) is Annotated:
        base, bounds = get_args(hint)
        assert isinstance(bounds, NumberRange)
        upper = {} if bounds.high == float("inf") else {"maximum": bounds.high}
        return schema_of(base) | {"minimum": bounds.low} | upper
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if get_origin(hint) is list:
        return {"type": "array", "items": schema_of(get_args(hint)[0])}
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": schema_of(get_args(hint)[1])}
    if hasattr(hint, "_field_defaults"):
        return fields_schema(hint)
    return {"type": _TYPES[hint]}


def fields_schema(kind: Any) -> Any:
    """Return the JSON Schema of a body."""
    properties = {}
    for name, hint in field_types(kind).items():
        properties[name] = schema_of(hint)
        if name in kind._field_defaults:
            properties[name] |= {"default": kind._field_defaults[name]}
    required = [name for name in properties if name not in kind._field_defaults]
    found = {"type": "object", "additionalProperties": False, "properties": properties}
    return found | ({"required": required} if required else {})


def plain(schema: Any) -> Any:
    """Return a schema of the document without its references and descriptions."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: part for name, part in resolved(schema).items() if name not in ("description", "contentEncoding")}
    return {name: plain(part) for name, part in found.items()}


def test_the_document_has_exactly_the_operations_that_are_served() -> None:
    documented = {
        (method.upper(), path, operation["operationId"])
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
        if method != "parameters"
    }
    assert documented == {(one.method, one.path, one.function.partition(":")[2]) for one in OPERATIONS}


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.body], ids=lambda one: one.function)
def test_the_document_has_the_fields_of_each_body(operation: ApiOperation) -> None:
    described = document()["paths"][operation.path][operation.method.lower()]["requestBody"]
    schema = resolved(described)["content"]["application/json"]["schema"]
    assert plain(schema) == fields_schema(operation.load(operation.body))


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.query], ids=lambda one: one.function)
def test_the_document_has_the_parameters_of_each_query(operation: ApiOperation) -> None:
    described = document()["paths"][operation.path][operation.method.lower()]["parameters"]
    parameters = {one["name"]: plain(one["schema"]) for one in described if one["in"] == "query"}
    assert parameters == fields_schema(operation.load(operation.query))["properties"]


def test_an_unknown_path_is_answered_with_the_known_ones(broker: ControlledBroker) -> None:
    status, content = broker.get("/v1/topic")
    assert status == 404
    assert content["message"].startswith("there is no path /v1/topic; the paths are /v1, /v1/clock, ")


def test_another_method_is_answered_with_those_served(broker: ControlledBroker) -> None:
    assert broker.reply("PUT", "/v1/topics/t") == (405, {"message": "/v1/topics/t serves GET, DELETE, not PUT"})


def test_a_body_where_none_is_taken_is_refused(broker: ControlledBroker) -> None:
    assert broker.reply("GET", "/v1", x=1) == (400, {"message": "GET /v1 takes no body"})


def test_a_name_in_a_path_is_decoded(broker: ControlledBroker) -> None:
    assert broker.get("/v1/groups/a%2Fb%20c").message == "there is no group a/b c; there are: none"
