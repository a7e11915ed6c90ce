"""Counts of response errors by API and code (Kafka: `RequestMetrics`, `ErrorsPerSec`).

Every field `error_code` of a response is counted, those of partitions and groups too (Kafka:
`AbstractResponse.errorCounts`). Responses encoded directly to bytes (`protocol.produce_fast_path`,
`protocol.fetch_fast_path`) have no errors and are not passed here. NONE is not counted per field: it is the number of
responses without any error.

The dispatcher attaches the errors of a response to its parts (`FailedParts`). They are counted when the parts are
sent, in the same step as the request (`TimedDispatcher`): if either were counted first, NONE could decrease.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from protocol.fields import fields_of
from protocol.primitives import Part
from protocol.schema import CachedStruct, Message

_Collect: TypeAlias = Callable[[Any, list[int]], None]


class FailedParts(list["Part"]):
    """The parts of a response with errors, and their codes."""

    __slots__ = ("codes",)

    codes: list[int]


class RequestErrors:
    """Counts since the start."""

    __slots__ = ("codes", "failed")

    def __init__(self) -> None:
        self.codes: Counter[tuple[int, int]] = Counter()
        """The number of errors by API key and code."""
        self.failed: Counter[int] = Counter()
        """The number of responses with errors by API key."""

    def count(self, key: int, codes: list[int]) -> None:
        """Count the errors of one response to a request of the API `key`."""
        self.failed[key] += 1
        self.codes.update((key, code) for code in codes)


def with_errors(parts: list[Part], response: Message) -> list[Part]:
    """Return the parts of `response`, as `FailedParts` if it has errors."""
    codes: list[int] = []
    collect = _collector(type(response))
    if collect is not None:
        collect(response, codes)
    if not codes:
        return parts
    failed = FailedParts(parts)
    failed.codes = codes
    return failed


_collectors: dict[type, _Collect | None] = {}


def _collector(struct: type) -> _Collect | None:
    """Return a function that appends a struct's error codes to a list; None if it has no such field."""
    if struct not in _collectors:
        _collectors[struct] = _make_collector(struct)
    return _collectors[struct]


def _make_collector(struct: type) -> _Collect | None:
    has_code = False
    single: list[tuple[str, _Collect]] = []
    lists: list[tuple[str, _Collect]] = []
    for field in fields_of(struct):
        if field.name == "error_code":
            has_code = True
        elif field.struct is not None and (inner := _collector(field.struct)) is not None:
            (lists if field.is_list else single).append((field.name, inner))
    if not (has_code or single or lists):
        return None
    collect = partial(_collect, has_code, single, lists)
    return partial(_collect_once, collect) if issubclass(struct, CachedStruct) else collect


def _collect_once(collect: _Collect, value: CachedStruct, found: list[int]) -> None:
    """Collect a struct that is sent in many responses once: a Metadata topic may have thousands of partitions."""
    try:
        codes = value.error_codes
    except AttributeError:
        collected: list[int] = []
        collect(value, collected)
        codes = value.error_codes = tuple(collected)
    found += codes


def _collect(
    has_code: bool, single: list[tuple[str, _Collect]], lists: list[tuple[str, _Collect]], value: Any, found: list[int]
) -> None:
    if has_code and value.error_code:
        found.append(int(value.error_code))
    for name, inner in single:
        if (part := getattr(value, name)) is not None:
            inner(part, found)
    for name, inner in lists:
        for item in getattr(value, name) or ():
            inner(item, found)
