"""Error responses: the response of any API when the whole request failed (Kafka: `getErrorResponse`).

Kafka has one written by hand per API; here it is derived from the messages' structure. A response with an error code of
its own gets it. Otherwise, and in a few responses also then, each entry of the request gets an entry with the code: the
response's list is filled from the request's first list, and fields of equal name are copied. If the request's list
holds plain values (group names, partition indexes), each goes into the entry's first field of that type. Entries of
which the request names none, such as the log directories of DescribeLogDirs, are omitted. The users of
AlterUserScramCredentials are in two lists, and have one entry each.
"""

from typing import Any, NamedTuple

from protocol.api import APIS, ApiKey, response_class
from protocol.errors import ErrorCode
from protocol.fields import Field, fields_of
from protocol.schema import Message, Struct

_CODES = ("error_code", "partition_error_code")
"""The second: AddPartitionsToTxn."""
_TEXT = "error_message"
_OTHER_NAMES = {"partition_index": "partition", "topic_name": "name", "user": "name"}
_OFFSETS = ("base_offset", "committed_offset", "high_watermark")
"""Offsets that are -1 where there is an error."""
_NO_OFFSET = -1
_ALSO_IN_ENTRIES = {
    ApiKey.FETCH: range(13),
    ApiKey.ELECT_LEADERS: APIS[ApiKey.ELECT_LEADERS].versions,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: APIS[ApiKey.ALTER_PARTITION_REASSIGNMENTS].versions,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: APIS[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS].versions,
}
"""The versions in which the entries have the code besides the response itself."""


class _Failure(NamedTuple):
    version: int
    code: ErrorCode
    message: str
    of_each: bool


def error_response(
    key: ApiKey, version: int, request: Message, code: ErrorCode, message: str = "", *, of_each: bool = False
) -> Message:
    """Return the API's response in which all of `request` failed with `code`.

    With `of_each`, an entry of the request has the code in its own entry, even if a struct around that has a code too.
    LookupError if the response has no place for an error code.
    """
    found = response_class(key)
    if not has_error_code(key, version):
        raise LookupError(f"{found.__name__} v{version} has no error code")
    failure = _Failure(version, code, message, of_each)
    filled: Message = _fill(found, failure, request)
    if version in _ALSO_IN_ENTRIES.get(key, ()):
        _add_entries(filled, failure, request)
    return filled


def has_error_code(key: ApiKey, version: int) -> bool:
    """Return whether the API's response has a place for an error code in `version`."""
    return _has_code_within(response_class(key), version)


def unsupported_api_versions() -> Message:
    """Return the version 0 response to an ApiVersions request of an unknown version: the versions of that API."""
    from protocol.messages.api_versions import ApiVersionsResponse

    api = APIS[ApiKey.API_VERSIONS]
    own = ApiVersionsResponse.ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])


def _fill(struct: type, failure: _Failure, requested: Any) -> Any:
    """Return a struct of the response for `requested`, a struct of the request."""
    version, code, message, of_each = failure
    answer: Any = object.__new__(struct)
    own_code = _has_code(struct, version) and not (of_each and _has_code_below(struct, version, requested))
    for field in fields_of(struct):
        value = [] if field.is_list else field.default
        if field.name in _CODES and own_code:
            value = code
        elif field.name == _TEXT:
            value = (message or None) if own_code and version in field.versions else None
        elif field.name in _OFFSETS:
            value = _NO_OFFSET
        elif not field.is_list:
            value = getattr(requested, field.name, getattr(requested, _OTHER_NAMES.get(field.name, ""), value))
            if value is None and version not in field.nullable:
                value = field.default
        setattr(answer, field.name, value)
    if not own_code:
        _add_entries(answer, failure, requested)
    return answer


def _add_entries(answer: Any, failure: _Failure, requested: Any) -> None:
    """Add an entry with the error for each in the first list of `requested`."""
    for field in _present(type(answer), failure.version):
        if field.is_list and field.struct is not None and _has_code_within(field.struct, failure.version):
            items = _named(field.struct, failure.version, _first_list(requested, failure.version))
            setattr(answer, field.name, [_entry(field.struct, failure, item) for item in items])


def _entry(struct: type, failure: _Failure, requested: Any) -> Any:
    if isinstance(requested, Struct):
        return _fill(struct, failure, requested)
    entry = _fill(struct, failure, None)
    fields = (field for field in fields_of(struct) if field.name not in (*_CODES, _TEXT))
    setattr(entry, next(field.name for field in fields if type(field.default) is type(requested)), requested)
    return entry


def _named(struct: type, version: int, items: list[Any]) -> list[Any]:
    """Return the items of a request that a response has entries of type `struct` for: `items`, or those in their lists.

    An item of another kind has no field in common with an entry.
    """
    names = {field.name for field in _present(struct, version) if not (field.is_list or field.name in (*_CODES, _TEXT))}
    names |= {_OTHER_NAMES[name] for name in names & _OTHER_NAMES.keys()}
    if not items or not names or not isinstance(items[0], Struct) or names & set(items[0]._names):
        return items
    inner = [each for item in items for each in _first_list(item, version)]
    return _named(struct, version, inner) if inner and isinstance(inner[0], Struct) else []


def _has_code_below(struct: type, version: int, requested: Any) -> bool:
    """Return whether entries of `requested` have a place for a code of their own."""
    lists = (field for field in _present(struct, version) if field.is_list and field.struct is not None)
    entries = any(field.struct is not None and _has_code_within(field.struct, version) for field in lists)
    return entries and requested is not None and bool(_first_list(requested, version))


def _first_list(requested: Any, version: int) -> list[Any]:
    lists = (field for field in fields_of(type(requested)) if field.is_list and version in field.versions)
    values: list[list[Any] | None] = [getattr(requested, field.name) for field in lists]
    if getattr(requested, "API_KEY", None) == ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        changes = {change.name: change for value in values for change in value or ()}
        return [changes[user] for user in sorted(changes)]
    return (values[0] if values else None) or []


def _has_code_within(struct: type, version: int) -> bool:
    """Return whether the struct, or one within it, has an error code in `version`."""
    return any(
        field.name in _CODES or (field.struct is not None and _has_code_within(field.struct, version))
        for field in _present(struct, version)
    )


def _has_code(struct: type, version: int) -> bool:
    return any(field.name in _CODES for field in _present(struct, version))


def _present(struct: type, version: int) -> list[Field]:
    return [field for field in fields_of(struct) if version in field.versions]
