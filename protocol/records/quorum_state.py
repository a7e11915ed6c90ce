"""The file `quorum-state` beside the metadata log (KIP-595, KIP-853).

It is one line of JSON with the fields of a version and `data_version`, the version itself: 0 at
kraft.version 0, 1 at kraft.version 1.
"""

from __future__ import annotations

import json
from typing import Any

from protocol.errors import DecodeError
from protocol.fields import fields_of
from protocol.primitives import uuid_parse, uuid_text
from protocol.schema import ZERO_UUID, Int32, Int64, Message, String, Struct, Uuid, message, struct, wire


@message(versions=(0, 1), flexible=0)
class QuorumStateData(Message):
    """What a voter must not forget: its epoch, and for whom it voted in it."""

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
    return json.dumps({**_to_json(state, version), "data_version": version}, separators=(",", ":"))


def parse_quorum_state(text: str) -> QuorumStateData:
    """Return the state in the file; DecodeError if it is damaged or of an unknown version."""
    try:
        content = json.loads(text)
        version = content["data_version"]
        values = {
            field.name: content[_json_name(field.name)]
            for field in fields_of(QuorumStateData)
            if version in field.versions
        }
        if "voted_directory_id" in values:
            values["voted_directory_id"] = uuid_parse(values["voted_directory_id"])
        if values.get("current_voters"):
            values["current_voters"] = [
                QuorumStateData.Voter(voter_id=voter["voterId"]) for voter in values["current_voters"]
            ]
    except (KeyError, TypeError, ValueError) as error:
        raise DecodeError(f"damaged quorum state: {error}") from error
    first, last = QuorumStateData.VERSIONS
    if not first <= version <= last:
        raise DecodeError(f"quorum state of unknown version {version}")
    return QuorumStateData(**values)


def _to_json(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return {
            _json_name(field.name): _to_json(getattr(value, field.name), version)
            for field in fields_of(type(value))
            if version in field.versions
        }
    if isinstance(value, list):
        return [_to_json(item, version) for item in value]
    return uuid_text(value) if isinstance(value, bytes) else value


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
