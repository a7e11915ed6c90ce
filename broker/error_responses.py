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


def error_response(key: ApiKey, version: int, request: Message, code: ErrorCode, message: str = "") -> Message:
    """Return the API's response in which all of `request` failed with `code`.

    LookupError if the response has no place for an error code.
    """
    found = response_class(key)
    if not _has_code_within(found, version):
        raise LookupError(f"{found.__name__} v{version} has no error code")
    filled: Message = _fill(found, version, request, code, message)
    return filled


def unsupported_api_versions() -> Message:
    """Return the version 0 response to an ApiVersions request of an unknown version: the versions of that API."""
    from protocol.messages.api_versions import ApiVersionsResponse

    api = APIS[ApiKey.API_VERSIONS]
    own = ApiVersionsResponse.ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])


def _fill(struct: type, version: int, requested: Any, code: ErrorCode, message: str) -> Any:
    """Return a struct of the response for `requested`, a struct of the request."""
    answer: Any = object.__new__(struct)
    own_code = _has_code(struct, version)
    for field in fields_of(struct):
        value = [] if field.is_list else field.default
        if field.name in _CODES and own_code:
            value = code
        elif field.name == _TEXT:
            value = message or None
        elif not field.is_list:
            value = getattr(requested, field.name, getattr(requested, _OTHER_NAMES.get(field.name, ""), value))
            if value is None and version not in field.nullable:
                value = field.default
        elif not own_code and version in field.versions and field.struct and _has_code_within(field.struct, version):
            value = [_entry(field.struct, version, item, code, message) for item in _first_list(requested, version)]
        setattr(answer, field.name, value)
    return answer


def _entry(struct: type, version: int, requested: Any, code: ErrorCode, message: str) -> Any:
    if isinstance(requested, Struct):
        return _fill(struct, version, requested, code, message)
    entry = _fill(struct, version, None, code, message)
    fields = (field for field in fields_of(struct) if field.name not in (*_CODES, _TEXT))
    setattr(entry, next(field.name for field in fields if type(field.default) is type(requested)), requested)
    return entry


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
