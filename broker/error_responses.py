"""Error responses: the response of any API when the whole request failed (Kafka: `getErrorResponse`).

Kafka has one written by hand per API; here it is derived from the messages' structure. A response with an error code of
its own gets it. Otherwise each entry of the request gets an entry with the code: the response's list is filled from the
request's first list, and fields of equal name are copied. If the request's list holds plain values (group names,
partition indexes), each goes into the entry's first field of that type.
"""

from typing import Any

from protocol.api import APIS, ApiKey, response_class
from protocol.errors import ErrorCode
from protocol.fields import Field, fields_of
from protocol.schema import Message, Struct

_CODES = ("error_code", "partition_error_code")
"""The second: AddPartitionsToTxn."""
_TEXT = "error_message"
_OTHER_NAMES = {"partition_index": "partition"}
_OFFSETS = ("base_offset", "committed_offset", "high_watermark")
"""Offsets that are -1 where there is an error."""
_NO_OFFSET = -1


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
    filled: Message = _fill(found, version, request, code, message, of_each)
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


def _fill(struct: type, version: int, requested: Any, code: ErrorCode, message: str, of_each: bool) -> Any:
    """Return a struct of the response for `requested`, a struct of the request."""
    answer: Any = object.__new__(struct)
    own_code = _has_code(struct, version) and not (of_each and _has_code_below(struct, version, requested))
    for field in fields_of(struct):
        value = [] if field.is_list else field.default
        if field.name in _CODES and own_code:
            value = code
        elif field.name == _TEXT:
            value = message or None
        elif field.name in _OFFSETS:
            value = _NO_OFFSET
        elif not field.is_list:
            value = getattr(requested, field.name, getattr(requested, _OTHER_NAMES.get(field.name, ""), value))
            if value is None and version not in field.nullable:
                value = field.default
        elif not own_code and version in field.versions and field.struct and _has_code_within(field.struct, version):
            value = [
                _entry(field.struct, version, item, code, message, of_each) for item in _first_list(requested, version)
            ]
        setattr(answer, field.name, value)
    return answer


def _entry(struct: type, version: int, requested: Any, code: ErrorCode, message: str, of_each: bool) -> Any:
    if isinstance(requested, Struct):
        return _fill(struct, version, requested, code, message, of_each)
    entry = _fill(struct, version, None, code, message, of_each)
    fields = (field for field in fields_of(struct) if field.name not in (*_CODES, _TEXT))
    setattr(entry, next(field.name for field in fields if type(field.default) is type(requested)), requested)
    return entry


def _has_code_below(struct: type, version: int, requested: Any) -> bool:
    """Return whether entries of `requested` have a place for a code of their own."""
    lists = (field for field in _present(struct, version) if field.is_list and field.struct is not None)
    entries = any(field.struct is not None and _has_code_within(field.struct, version) for field in lists)
    return entries and requested is not None and bool(_first_list(requested, version))


def _first_list(requested: Any, version: int) -> list[Any]:
    lists = (field for field in fields_of(type(requested)) if field.is_list and version in field.versions)
    values: list[list[Any] | None] = [getattr(requested, field.name) for field in lists]
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
