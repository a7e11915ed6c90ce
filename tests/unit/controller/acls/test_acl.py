"""Hosts of access control entries."""

from __future__ import annotations

import pytest

from controller.acls.acl import canonical_host


@pytest.mark.parametrize(
    ("written", "compared"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("*", "*"),
        ("", ""),
        ("010.0.0.1", "010.0.0.1"),
        ("example.com", "example.com"),
    ],
)
def test_addresses_have_one_form(written: str, compared: str) -> None:
    assert canonical_host(written) == compared
