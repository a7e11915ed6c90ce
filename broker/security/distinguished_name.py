"""Distinguished name of a certificate's subject, written as Java writes it (`X500Principal.getName`, RFC 2253).

ACLs and `ssl.principal.mapping.rules` contain names in this form, so it must be the same to the byte: relative names in
reverse order, nine attributes by keyword, every other one by its number with the value in hexadecimal. OpenSSL and its
users write other forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import NamedTuple

_VERSION = 0xA0
_STRINGS = (12, 19, 20, 22, 27, 30)  # UTF8, Printable, T61, IA5, General, BMP; not Universal, as in Java
_UTC_TIME = 0x17
_EXTENSIONS, _DNS_NAME, _IP_ADDRESS = 0xA3, 0x82, 0x87
_IP_BYTES = (4, 16)
_SUBJECT_ALTERNATIVE_NAME = "2.5.29.17"
_FIRST_OF_1900S = "50"  # RFC 5280: YY from 50 on is a year of the last century
_LONG_FORM = 0x80
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED = frozenset(',=+<>#;"\\')


class DamagedCertificateError(ValueError):
    """The bytes are no X.509 certificate."""


class _Element(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER form; `DamagedCertificateError` if it has none."""
    try:
        return _name(_fields(certificate)[4].content)
    except (IndexError, StopIteration, ValueError) as error:
        raise DamagedCertificateError("the certificate is damaged") from error


def alternative_names(certificate: bytes) -> frozenset[str]:
    """Return the alternative names of a certificate in DER form, such as `DNS:a.example` and `IP:127.0.0.1`.

    `DamagedCertificateError` if they cannot be read.
    """
    try:
        found = _extension(certificate, _SUBJECT_ALTERNATIVE_NAME)
        if found is None:
            return frozenset()
        return frozenset(map(_alternative_name, _elements(next(_elements(found)).content)))
    except (IndexError, StopIteration) as error:
        raise DamagedCertificateError("the certificate is damaged") from error


def end_of_validity(certificate: bytes) -> str:
    """Return when a certificate in DER form expires, as `YYYYMMDDhhmmssZ`; `DamagedCertificateError` without that."""
    try:
        _, end = _elements(_fields(certificate)[3].content)
        text = end.content.decode("ascii")
    except (IndexError, StopIteration, ValueError) as error:
        raise DamagedCertificateError("the certificate is damaged") from error
    if end.tag != _UTC_TIME:
        return text
    return ("20" if text < _FIRST_OF_1900S else "19") + text


def _fields(certificate: bytes) -> list[_Element]:
    """Return serial number, algorithm, issuer, validity, subject and what follows them."""
    outer = next(_elements(certificate))
    fields = list(_elements(next(_elements(outer.content)).content))
    return fields[1:] if fields[0].tag == _VERSION else fields


def _extension(certificate: bytes, number: str) -> bytes | None:
    """Return the value of the extension with that object identifier; None if there is none."""
    lists = (next(_elements(field.content)) for field in _fields(certificate) if field.tag == _EXTENSIONS)
    for extensions in lists:
        for extension in _elements(extensions.content):
            identifier, *_, value = _elements(extension.content)
            if _object_id(identifier.content) == number:
                return value.content
    return None


def _alternative_name(name: _Element) -> str:
    if name.tag == _DNS_NAME:
        return f"DNS:{name.content.decode('ascii', 'replace')}"
    if name.tag == _IP_ADDRESS and len(name.content) in _IP_BYTES:
        return f"IP:{ip_address(name.content)}"
    return f"#{name.encoded.hex()}"


def _name(content: bytes) -> str:
    relative_names = [
        "+".join(_attribute(each.content) for each in _elements(one.content)) for one in _elements(content)
    ]
    return ",".join(reversed(relative_names))


def _attribute(content: bytes) -> str:
    identifier, value = list(_elements(content))[:2]
    number = _object_id(identifier.content)
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or number}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.content.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    """Return the text with a backslash before special characters, and before blanks at either end."""
    kept = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - len(kept) - before
    inner = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in kept)
    return "\\ " * before + inner + "\\ " * after


def _object_id(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < _LONG_FORM:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes) -> Iterator[_Element]:
    """Return the DER elements in `data`, in order."""
    at = 0
    while at < len(data):
        begin, tag, size = at, data[at], data[at + 1]
        at += 2
        if size >= _LONG_FORM:
            digits = size - _LONG_FORM
            size = int.from_bytes(data[at : at + digits], "big")
            at += digits
        if at + size > len(data):
            raise IndexError(at)
        yield _Element(tag, data[at : at + size], data[begin : at + size])
        at += size
