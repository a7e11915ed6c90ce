"""Delegation tokens, their records and their HMACs."""

from __future__ import annotations

from base64 import b64encode

from controller.delegation_tokens import DelegationToken, TokenHmacs, token_of, token_record

TOKEN = DelegationToken("id", "User:o", "User:q", ("User:r",), 1, 9, 5)


def test_a_record_has_the_whole_token() -> None:
    assert token_of(token_record(TOKEN)) == TOKEN


def test_a_token_is_valid_up_to_its_expiry_and_its_longest_lifetime() -> None:
    assert not TOKEN.has_expired(5)
    assert TOKEN.has_expired(6)
    assert TOKEN._replace(expiry_ms=20).has_expired(10)


def test_the_hmac_is_the_one_of_kafka() -> None:
    # printf id | openssl dgst -sha512 -hmac secret -binary | base64
    text = "Kqsj84D2HvmnERp8qX9vArB3GxbAuhDMEIr1tUmF+G2LDc2MvQOsR0wzsnmFNi7dP/oFGK58nkU+HO7dU1F2tQ=="
    assert b64encode(TokenHmacs("secret").of("id")).decode() == text


def test_an_hmac_finds_its_token_while_that_exists() -> None:
    hmacs = TokenHmacs("secret")
    one, two = {"id": TOKEN}, {"other": TOKEN._replace(token_id="other")}
    assert hmacs.find({}, hmacs.of("id")) is None
    assert hmacs.find(one, hmacs.of("id")) is TOKEN
    assert hmacs.find(one, b"") is None
    assert hmacs.find(one | two, hmacs.of("other")) is two["other"]
    assert hmacs.find(two, hmacs.of("id")) is None
    assert TokenHmacs("another").find(one, hmacs.of("id")) is None
