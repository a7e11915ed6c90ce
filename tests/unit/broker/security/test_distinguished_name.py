"""Subjects in the form of Java: the expected texts were printed by `X500Principal.getName` of OpenJDK 17."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from broker.security.distinguished_name import (
    DamagedCertificateError,
    alternative_names,
    end_of_validity,
    subject_of,
)
from tests.certificates import Subject, self_signed

COMMON_NAME = "0603550403"


def der(subject: Subject) -> bytes:
    return self_signed(subject)[1].public_bytes(Encoding.DER)


def element(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    return bytes([tag, len(content)]) + content


def certificate_of(*attributes: bytes, version: bytes = b"\xa0\x03\x02\x01\x02", end: bytes = b"") -> bytes:
    """Return the beginning of a certificate whose subject has these encoded attributes."""
    subject = element(0x30, *(element(0x31, element(0x30, attribute)) for attribute in attributes))
    validity = element(0x30, element(0x17, b"200101000000Z"), end)
    return element(0x30, element(0x30, version, b"\x02\x01\x01", element(0x30), element(0x30), validity, subject))


@pytest.mark.parametrize(
    ("subject", "written"),
    [
        (
            [[(NameOID.COUNTRY_NAME, "DE")], [(NameOID.ORGANIZATION_NAME, "Acme, Inc.")], [(NameOID.COMMON_NAME, "a")]],
            "CN=a,O=Acme\\, Inc.,C=DE",
        ),
        (
            [
                [(NameOID.DOMAIN_COMPONENT, "org")],
                [(NameOID.USER_ID, "bob")],
                [(NameOID.COMMON_NAME, 'Bob "B" <x>;=#\\y')],
            ],
            'CN=Bob \\"B\\" \\<x\\>\\;\\=\\#\\\\y,UID=bob,DC=org',
        ),
        (
            [[(NameOID.COMMON_NAME, " lead and trail ")], [(NameOID.EMAIL_ADDRESS, "a@b.c")]],
            "1.2.840.113549.1.9.1=#16056140622e63,CN=\\ lead and trail\\ ",
        ),
        (
            [
                [(NameOID.ORGANIZATION_NAME, "Größe")],
                [(NameOID.COMMON_NAME, "b"), (NameOID.ORGANIZATIONAL_UNIT_NAME, "a")],
            ],
            "CN=b+OU=a,O=Größe",
        ),
        (
            [[(NameOID.STREET_ADDRESS, "Main 1")], [(NameOID.TITLE, "Dr")], [(NameOID.LOCALITY_NAME, "#x")]],
            "L=\\#x,2.5.4.12=#0c024472,STREET=Main 1",
        ),
        ([], ""),
    ],
)
def test_subject_is_written_as_by_java(subject: Subject, written: str) -> None:
    assert subject_of(der(subject)) == written


@pytest.mark.parametrize(
    ("attribute", "written"),
    [
        (COMMON_NAME + "14026162", "CN=ab"),  # T61String
        (COMMON_NAME + "16026162", "CN=ab"),  # IA5String
        (COMMON_NAME + "1b026162", "CN=ab"),  # GeneralString
        (COMMON_NAME + "1c080000006100000062", "CN=#1c080000006100000062"),  # UniversalString
        (COMMON_NAME + "1e0400610062", "CN=\\00a\\00b"),  # BMPString, which Java reads as UTF-8
        (COMMON_NAME + "020105", "CN=#020105"),  # no string
        (COMMON_NAME + "0c0458612058", "CN=Xa X"),
        (COMMON_NAME + "0c03202020", "CN=\\ \\ \\ "),
        ("0603550408" + "0c055465786173", "ST=Texas"),
        ("06014f" + "0c0161", "1.39=#0c0161"),
        ("060127" + "0c0161", "0.39=#0c0161"),
        ("060128" + "0c0161", "1.0=#0c0161"),
        ("060178" + "0c0161", "2.40=#0c0161"),
        ("0603883701" + "0c0161", "2.999.1=#0c0161"),
    ],
)
def test_other_types_of_values_and_attributes_are_written_as_by_java(attribute: str, written: str) -> None:
    assert subject_of(certificate_of(bytes.fromhex(attribute))) == written


def test_certificate_of_version_1_has_a_subject() -> None:
    assert subject_of(certificate_of(bytes.fromhex(COMMON_NAME + "0c0161"), version=b"")) == "CN=a"


@pytest.mark.parametrize("attribute", ["", COMMON_NAME, "0600" + "0c0161", COMMON_NAME + "0c0261"])
def test_damaged_attribute_is_an_error(attribute: str) -> None:
    with pytest.raises(DamagedCertificateError):
        subject_of(certificate_of(bytes.fromhex(attribute)))


@pytest.mark.parametrize(
    ("end", "written"), [(b"500101000000Z", "19500101000000Z"), (b"491231235959Z", "20491231235959Z")]
)
def test_year_of_two_digits_is_of_1950_to_2049(end: bytes, written: str) -> None:
    assert end_of_validity(certificate_of(end=element(0x17, end))) == written


@pytest.mark.parametrize("damage", [lambda data: data[:60], lambda data: b"", lambda data: b"\x30\x03\x02\x01\x00"])
def test_damaged_certificate_has_no_subject(damage: object) -> None:
    data = der([[(NameOID.COMMON_NAME, "a")]])
    with pytest.raises(DamagedCertificateError):
        subject_of(damage(data))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("names", "written"),
    [
        (
            [x509.DNSName("a.example"), x509.IPAddress(ip_address("127.0.0.1")), x509.IPAddress(ip_address("::1"))],
            {"DNS:a.example", "IP:127.0.0.1", "IP:::1"},
        ),
        ([x509.RFC822Name("a@b.c")], {"#81056140622e63"}),
    ],
)
def test_alternative_names_are_read(names: list[x509.GeneralName], written: set[str]) -> None:
    key, certificate = self_signed([[(NameOID.COMMON_NAME, "a")]])
    name, serial, begin = certificate.subject, certificate.serial_number, certificate.not_valid_before_utc
    builder = x509.CertificateBuilder(name, name, key.public_key(), serial, begin, certificate.not_valid_after_utc)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    signed = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(key, hashes.SHA256())
    assert alternative_names(signed.public_bytes(Encoding.DER)) == written


def test_certificate_without_alternative_names_has_none() -> None:
    assert alternative_names(der([[(NameOID.COMMON_NAME, "a")]])) == frozenset()
    with pytest.raises(DamagedCertificateError):
        alternative_names(der([])[:60])


@pytest.mark.parametrize(
    ("end", "written"),
    [
        (datetime(2049, 12, 31, 23, 59, 58, tzinfo=UTC), "20491231235958Z"),
        (datetime(2050, 1, 1, tzinfo=UTC), "20500101000000Z"),
    ],
)
def test_end_of_validity_has_four_digits_of_the_year_in_both_forms(end: datetime, written: str) -> None:
    key, certificate = self_signed([[(NameOID.COMMON_NAME, "a")]])
    name, serial = certificate.subject, certificate.serial_number
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    signed = x509.CertificateBuilder(name, name, key.public_key(), serial, begin, end).sign(key, hashes.SHA256())
    assert end_of_validity(signed.public_bytes(Encoding.DER)) == written


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x00", bytes(100)])
def test_damaged_certificate_has_no_end(data: bytes) -> None:
    with pytest.raises(DamagedCertificateError):
        end_of_validity(data)
