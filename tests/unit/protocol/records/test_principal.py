"""Principals in Envelope requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.records.principal import ForwardedPrincipal, decode_principal, encode_principal


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=":"), min_size=1),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.booleans(),
)
def test_principal_round_trips(kind: str, name: str, by_token: bool) -> None:
    principal = ForwardedPrincipal(f"{kind}:{name}", by_token)
    assert decode_principal(encode_principal(principal)) == principal


def test_principal_encodes_as_a_version_and_compact_strings() -> None:
    expected = b"\0\0" + b"\x05User" + b"\x06alice" + b"\0" + b"\0"
    assert encode_principal(ForwardedPrincipal("User:alice")) == expected
    assert encode_principal(ForwardedPrincipal("User:alice", token_authenticated=True))[-2:] == b"\1\0"


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x01\x05User\x06alice\0\0", b"\0\0\x05User", b"\0\0\xff"])
def test_damaged_and_later_principal_versions_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_principal(data)
