"""The file `quorum-state` beside the metadata log (KIP-595, KIP-853).

It is one line of JSON: the fields of a version, and the version itself as `data_version`: 0 at kraft.version 0, 1 at
kraft.version 1.
"""

from __future__ import annotations

import json
from typing import Any

from protocol.errors import DecodeError
from protocol.fields import Field, fields_of
from protocol.primitives import uuid_parse, uuid_text
from protocol.schema import ZERO_UUID, Int32, Int64, Message, String, Struct, Uuid, message, struct, wire

_INT32, _INT64 = 2**31, 2**63


class QuorumStateError(DecodeError):
    """The file is damaged or of an unknown version; `field` is the wrong field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


@message(versions=(0, 1), flexible=0)
class QuorumStateData(Message):
    """The durable election state of a node: its epoch, its vote and the leader in that epoch."""

    cluster_id: String = wire("0", default="")
    leader_id: Int32 = wire(default=-1)
    leader_epoch: Int32 = wire(default=-1)
    voted_id: Int32 = wire(default=-1)
    voted_directory_id: Uuid = wire("1+", default=ZERO_UUID)
    applied_offset: Int64 = wire("0", default=0)
    current_voters: list[Voter] | None = wire("0", default=[])

    @struct
    class Voter:
        voter_id: Int32


def format_quorum_state(state: QuorumStateData, version: int) -> str:
    """Return the content of the file."""
    return json.dumps({**_json_fields(state, version), "data_version": version}, separators=(",", ":"))


def parse_quorum_state(text: str) -> QuorumStateData:
    """Return the state in the file; QuorumStateError if it is damaged or of an unknown version."""
    try:
        content = json.loads(text)
        version = content["data_version"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise QuorumStateError("data_version", f"damaged quorum state: {error}") from error
    first, last = QuorumStateData.VERSIONS
    if type(version) is not int or not first <= version <= last:
        raise QuorumStateError("data_version", f"quorum state of unknown version {version}")
    fields = (field for field in fields_of(QuorumStateData) if version in field.versions)
    values: dict[str, Any] = {field.name: _from_json(field, content.get(field.json_name)) for field in fields}
    return QuorumStateData(**values)


def _from_json(field: Field, value: object) -> object:
    """Return a field's value; QuorumStateError if it is not of the field's type."""
    name = field.json_name
    if field.is_list:
        if not isinstance(value, list):
            raise QuorumStateError(name, f"damaged quorum state: {value!r} is not a valid {name}")
        voters = (voter.get("voterId") if isinstance(voter, dict) else None for voter in value)
        return [QuorumStateData.Voter(voter_id=_number(name, voter, _INT32)) for voter in voters]
    if field.scalar in ("String", "Uuid"):
        if not isinstance(value, str):
            raise QuorumStateError(name, f"damaged quorum state: {value!r} is not a valid {name}")
        try:
            return uuid_parse(value) if field.scalar == "Uuid" else value
        except ValueError as error:
            raise QuorumStateError(name, f"damaged quorum state: {error}") from error
    return _number(name, value, _INT32 if field.scalar == "Int32" else _INT64)


def _number(name: str, value: object, bound: int) -> int:
    """Return a number from -1 (none) to below `bound`; QuorumStateError for anything else."""
    if type(value) is not int or not -1 <= value < bound:
        raise QuorumStateError(name, f"damaged quorum state: {value!r} is not a valid {name}")
    return value


def _json_fields(value: Struct, version: int) -> dict[str, object]:
    return {
        field.json_name: _to_json(getattr(value, field.name), version)
        for field in fields_of(type(value))
        if version in field.versions
    }


def _to_json(value: object, version: int) -> object:
    if isinstance(value, Struct):
        return _json_fields(value, version)
    if isinstance(value, list):
        return [_to_json(item, version) for item in value]
    return uuid_text(value) if isinstance(value, bytes) else value
